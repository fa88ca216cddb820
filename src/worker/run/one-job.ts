/**
 * One job of a run: it is marked if it crashed before, its handler is called, and what came of it is settled.
 * What a job of the same key left behind is waited for where it matters: nothing overtakes.
 */
import { markStarted } from '../../lease/marks.js';
import type { PrefetchPolicy } from '../claim/prefetch.js';
import type { QueueDeps } from '../deps.js';
import type { InFlightJobs } from '../settle/in-flight.js';
import { type Outcome, type Route, runJob } from './attempt.js';
import type { LeasedJob } from './leased-job.js';

export interface OneJobDeps extends QueueDeps {
  readonly prefetch: PrefetchPolicy;
  readonly inFlight: InFlightJobs;
  readonly ended: () => void;
}

export class OneJob {
  readonly #deps: OneJobDeps;

  constructor(deps: OneJobDeps) {
    this.#deps = deps;
  }

  run(held: LeasedJob, before: LeasedJob | null, route: Route): boolean | Promise<boolean> {
    const { quarantine } = this.#deps;
    if (held.lost || held.settling) return false;
    held.started = true;
    held.before = before;
    quarantine.entered();
    if (held.row.crashes === 0) return this.#call(held, route);
    return this.#markStarted(held).then(() => this.#call(held, route));
  }

  /** Of a job that crashed before, others must know whether it had been started, if this process dies. */
  async #markStarted(held: LeasedJob): Promise<void> {
    const { context, inFlight, reportError } = this.#deps;
    try {
      const ours = await markStarted(context.engine, context.names, held.workerId, held);
      if (!ours) inFlight.lose(held);
    } catch (error) {
      // Unmarked it runs all the same: then a crash is not counted.
      reportError('marking a job as started', error);
    }
  }

  #call(held: LeasedJob, route: Route): boolean | Promise<boolean> {
    const { context, settings, inFlight } = this.#deps;
    const from = this.#deps.time.now();
    // It may have been lost, or released, while it was marked.
    if (held.lost || held.settling) return this.#ran(held, route, from, { kind: 'lost' });
    inFlight.report('started-job', held);
    const run = () => runJob(held, route, context, settings.timeoutMs);
    let outcome: Outcome | Promise<Outcome>;
    try {
      outcome = context.tracing ? context.tracing.process(held.facts, run) : run();
    } catch (error) {
      outcome = this.#internalError(held, error);
    }
    if ('kind' in outcome) return this.#ran(held, route, from, outcome);
    return outcome.then(
      (ended) => this.#ran(held, route, from, ended),
      (error) => this.#ran(held, route, from, this.#internalError(held, error)),
    );
  }

  /** `runJob` does not throw; if it ever does, the slot and the job must not be lost with it. */
  #internalError(held: LeasedJob, error: unknown): Outcome {
    this.#deps.reportError(`running job ${held.id}`, error);
    const summary = 'The attempt could not be evaluated; see the log of the worker.';
    const facts = { error: summary, summary, thrown: error, errorType: '_OTHER' };
    return { kind: 'failed', delayMs: 60_000, ...facts, handed: false };
  }

  #ran(held: LeasedJob, route: Route, from: number, outcome: Outcome): boolean | Promise<boolean> {
    const { prefetch, quarantine } = this.#deps;
    const { before } = held;
    held.ranMs = this.#deps.time.now() - from;
    prefetch.recordHandler(held.ranMs / held.together);
    this.#deps.ended();
    quarantine.left();
    // Plain completions are settled in the order in which they come; anything else would overtake.
    if (!before || isPlain(outcome) || outcome.kind === 'transacted') {
      return this.#settle(held, route, outcome);
    }
    return before.left().then(() => this.#settle(held, route, outcome));
  }

  #settle(held: LeasedJob, route: Route, outcome: Outcome): boolean | Promise<boolean> {
    const { inFlight } = this.#deps;
    if (held.before?.failed && outcome.kind !== 'transacted') {
      inFlight.release(held);
      return false;
    }
    inFlight.settle(held, route, outcome);
    if (isPlain(outcome) || outcome.kind === 'transacted') return true;
    if (outcome.kind !== 'completed' && outcome.kind !== 'handed') return false;
    // Its children are written on another connection; the completion of the next job would overtake it.
    // If they are refused it has failed, and its key waits for it. So it is if its transaction did not commit.
    return held.left().then(() => held.how === 'completed');
  }
}

/** It succeeded and has no children: it is settled together with others. */
const isPlain = (outcome: Outcome) => outcome.kind === 'completed' && outcome.children.length === 0;
