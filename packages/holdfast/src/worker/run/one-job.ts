/**
 * One job of a run: it is marked if it crashed before, its handler is called, and what came of it is settled.
 * What a job of the same key left behind is waited for where it matters: nothing overtakes.
 */
import { markStarted } from '../../lease/marks.js';
import type { PrefetchPolicy } from '../claim/prefetch.js';
import type { QueueDeps } from '../queue-deps.js';
import type { InFlightJobs } from '../settle/in-flight.js';
import { type Outcome, runJob } from './attempt.js';
import type { Route } from './handler-context.js';
import type { LeasedJob } from './leased-job.js';

export interface OneJobDeps extends QueueDeps {
  readonly prefetch: PrefetchPolicy;
  readonly inFlight: InFlightJobs;
  readonly ended: () => void;
}

/** True when the handler succeeded, and the next job of its key may start. */
export type OneJob = (
  held: LeasedJob,
  before: LeasedJob | null,
  route: Route,
) => boolean | Promise<boolean>;

export function oneJob(deps: OneJobDeps): OneJob {
  const { context, settings, inFlight, prefetch, quarantine, time, reportError } = deps;

  /** Of a job that crashed before, others must know whether it had been started, if this process dies. */
  async function mark(held: LeasedJob): Promise<void> {
    try {
      const ours = await markStarted(context.engine, context.names, held.workerId, held);
      if (!ours) inFlight.lose(held);
    } catch (error) {
      // Unmarked it runs all the same: then a crash is not counted.
      reportError('marking a job as started', error);
    }
  }

  function call(held: LeasedJob, route: Route): boolean | Promise<boolean> {
    const from = time.now();
    const ran = (outcome: Outcome) => end(held, route, from, outcome);
    const broke = (error: unknown) => ran(internalError(held, error));
    // It may have been lost, or released, while it was marked.
    if (held.lost || held.settling) return ran({ kind: 'lost' });
    if (route.starts) {
      route.starts.count++;
      route.starts.at = from;
    }
    inFlight.report('started-job', held);
    const run = () => runJob(held, route, context, settings.timeoutMs);
    let outcome: Outcome | Promise<Outcome>;
    try {
      outcome = context.tracing ? context.tracing.process(held.facts, run) : run();
    } catch (error) {
      return broke(error);
    }
    return 'kind' in outcome ? ran(outcome) : outcome.then(ran, broke);
  }

  /** `runJob` does not throw; if it ever does, the slot and the job must not be lost with it. */
  function internalError(held: LeasedJob, error: unknown): Outcome {
    reportError(`running job ${held.id}`, error);
    const summary = 'The attempt could not be evaluated; see the log of the worker.';
    const facts = { error: summary, summary, thrown: error, errorType: '_OTHER' };
    return { kind: 'failed', delayMs: 60_000, ...facts, handed: false };
  }

  function end(held: LeasedJob, route: Route, from: number, outcome: Outcome) {
    const { before } = held;
    held.ranMs = time.now() - from;
    prefetch.recordHandler(held.ranMs / held.together);
    deps.ended();
    quarantine.left();
    // Plain completions are settled in the order in which they come; anything else would overtake.
    if (!before || isPlain(outcome)) return settle(held, route, outcome);
    return before.left().then(() => settle(held, route, outcome));
  }

  function settle(held: LeasedJob, route: Route, outcome: Outcome): boolean | Promise<boolean> {
    if (held.before?.failed && outcome.kind !== 'transacted') {
      inFlight.release(held);
      return false;
    }
    inFlight.settle(held, route, outcome);
    if (isPlain(outcome)) return true;
    if (outcome.kind !== 'completed' && outcome.kind !== 'handed') return false;
    // Its children are written on another connection; the completion of the next job would overtake it.
    // If they are refused it has failed, and its key waits for it. So it is if its transaction did not commit.
    return held.left().then(() => held.how === 'completed');
  }

  return (held, before, route) => {
    if (held.lost || held.settling) return false;
    held.started = true;
    held.before = before;
    quarantine.entered();
    if (held.row.crashes === 0) return call(held, route);
    return mark(held).then(() => call(held, route));
  };
}

/** It succeeded and has no children to write: it is completed already, or settled together with others. */
const isPlain = (outcome: Outcome) =>
  outcome.kind === 'transacted' || (outcome.kind === 'completed' && outcome.children.length === 0);
