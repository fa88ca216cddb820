/**
 * The runs of one queue: what was claimed and waits for a handler, and what is being worked through. A job
 * without order is a run of its own; ordered jobs of one key that came together are one run.
 *
 * A handler that ends without a promise is over when it returns, and the next one starts at once. After a
 * slice of time with such handlers, or with those of one key, the event loop has its turn, so that settles
 * and signals do not wait for all. Handlers that return promises take their turns as promises do.
 */
import { setImmediate } from 'node:timers/promises';
import { markStarted } from '../../lease/started.js';
import type { PrefetchPolicy } from '../claim/prefetch.js';
import type { Settings } from '../options.js';
import type { InFlightJobs } from '../settle/in-flight.js';
import type { Time, Timer } from '../time.js';
import { type Outcome, type Route, runJob } from './attempt.js';
import type { ContextDeps } from './handler-context.js';
import type { LeasedJob } from './leased-job.js';
import type { Quarantine } from './quarantine.js';

/** A job that has waited here for so long was claimed too early. */
const STALE_MS = 100;
/** So long handlers that end at once may keep the event loop. */
const SLICE_MS = 10;

export interface RunsDeps {
  readonly settings: Settings;
  readonly routes: ReadonlyMap<string, Route>;
  readonly context: ContextDeps;
  readonly quarantine: Quarantine;
  readonly prefetch: PrefetchPolicy;
  /** False while nothing may be started. */
  readonly mayStart: () => boolean;
  readonly inFlight: InFlightJobs;
  readonly time: Time;
  readonly reportError: (what: string, error: unknown) => void;
  /** There is room for another. */
  readonly changed: () => void;
}

export class Runs {
  readonly #deps: RunsDeps;
  #waiting: LeasedJob[][] = [];
  #starting = false;
  #yielding = false;
  #running = 0;
  #unfinished = 0;
  #stopping = false;
  #staleTimer: Timer | null = null;

  constructor(deps: RunsDeps) {
    this.#deps = deps;
  }

  /** How many handlers run. */
  get running(): number {
    return this.#running;
  }

  /** How many runs wait for a handler. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /** Jobs whose handler has not ended: those of the waiting runs and of the running ones. */
  get unfinished(): number {
    return this.#unfinished;
  }

  /** So many jobs were claimed, and will be added or released. */
  expect(jobs: number): void {
    this.#unfinished += jobs;
  }

  /** `first`: it starts before all others that wait. */
  add(run: LeasedJob[], first = false): void {
    if (first) this.#waiting.unshift(run);
    else this.#waiting.push(run);
  }

  /** Starts what waits, as far as there are handlers for it. */
  start(): void {
    // A handler that ended just now, and the loop below goes on by itself; or others have their turn.
    if (this.#starting || this.#yielding) return;
    this.#starting = true;
    try {
      let ranMs = 0;
      while (this.#running < this.#deps.settings.concurrency && this.#waiting.length > 0) {
        if (!this.#deps.mayStart()) break;
        if (ranMs > SLICE_MS) {
          this.#yield();
          break;
        }
        // It waits no more before it begins: its handler may release everything that waits.
        const run = this.#waiting.shift() as LeasedJob[];
        this.#begin(run);
        ranMs += run[0]?.ranMs ?? 0;
      }
    } finally {
      this.#starting = false;
    }
    if (this.#waiting.length > 0) this.#watchWaiting();
  }

  /** Until the event loop has turned. */
  #yield(): void {
    this.#yielding = true;
    void setImmediate().then(() => {
      this.#yielding = false;
      this.#deps.changed();
    });
  }

  /** Jobs that were claimed ahead and then wait behind slow handlers go back, for others to run. */
  #watchWaiting(): void {
    this.#staleTimer ??= this.#deps.time.after(STALE_MS, () => {
      this.#staleTimer = null;
      const oldest = this.#waiting[0]?.[0];
      if (!oldest) return;
      const waitedMs = this.#deps.time.now() - oldest.claim.claimedAt;
      if (waitedMs < STALE_MS) return this.#watchWaiting();
      // First the estimate, or the next claim would take them again.
      this.#deps.prefetch.recordWait(waitedMs);
      this.releaseWaiting();
    });
  }

  #begin(run: LeasedJob[]): void {
    const [held] = run;
    if (!held || run.length > 1) {
      void this.work(run);
      return;
    }
    this.#running++;
    const went = this.#runOne(held, null);
    if (went instanceof Promise) void went.then((ok) => this.#end(run, ok ? held : null));
    else this.#end(run, went ? held : null);
  }

  /** Works through a run. Anything but success ends it: what follows must not overtake. */
  async work(run: LeasedJob[]): Promise<void> {
    this.#running++;
    let before: LeasedJob | null = null;
    let ranMs = 0;
    for (const held of run) {
      if (ranMs > SLICE_MS) {
        ranMs = 0;
        await setImmediate();
      }
      const goes: boolean = !before || (!this.#stopping && this.#deps.mayStart());
      if (!goes || before?.failed || !(await this.#runOne(held, before))) break;
      before = held;
      ranMs += held.ranMs ?? 0;
    }
    this.#end(run, before);
  }

  /** What was not started goes back. */
  #end(run: readonly LeasedJob[], succeeded: LeasedJob | null): void {
    if (succeeded !== run.at(-1)) this.release(run.filter(({ started }) => !started));
    this.#running--;
    this.#deps.changed();
  }

  /** True when the handler succeeded, and the next job of its key may start. */
  #runOne(held: LeasedJob, before: LeasedJob | null): boolean | Promise<boolean> {
    const { routes, quarantine } = this.#deps;
    const route = routes.get(held.row.type);
    if (!route || held.lost || held.settling) return false;
    held.started = true;
    held.before = before;
    quarantine.entered();
    if (held.row.crashes === 0) return this.#call(held, before, route);
    return this.#markStarted(held).then(() => this.#call(held, before, route));
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

  #call(held: LeasedJob, before: LeasedJob | null, route: Route): boolean | Promise<boolean> {
    const { context, settings, inFlight } = this.#deps;
    const from = this.#deps.time.now();
    // It may have been lost, or released, while it was marked.
    if (held.lost || held.settling) return this.#ran(held, before, route, from, { kind: 'lost' });
    inFlight.report('started-job', held);
    const run = () => runJob(held, route, context, settings.timeoutMs);
    let outcome: Outcome | Promise<Outcome>;
    try {
      outcome = context.tracing ? context.tracing.process(held.facts, run) : run();
    } catch (error) {
      outcome = this.#unrun(held, error);
    }
    if ('kind' in outcome) return this.#ran(held, before, route, from, outcome);
    return outcome.then(
      (ended) => this.#ran(held, before, route, from, ended),
      (error) => this.#ran(held, before, route, from, this.#unrun(held, error)),
    );
  }

  /** `runJob` does not throw; if it ever does, the slot and the job must not be lost with it. */
  #unrun(held: LeasedJob, error: unknown): Outcome {
    this.#deps.reportError(`running job ${held.id}`, error);
    const summary = 'The attempt could not be evaluated; see the log of the worker.';
    const facts = { error: summary, summary, thrown: error, errorType: '_OTHER' };
    return { kind: 'failed', delayMs: 60_000, ...facts, handed: false };
  }

  #ran(
    held: LeasedJob,
    before: LeasedJob | null,
    route: Route,
    from: number,
    outcome: Outcome,
  ): boolean | Promise<boolean> {
    const { prefetch, quarantine } = this.#deps;
    held.ranMs = this.#deps.time.now() - from;
    prefetch.recordHandler(held.ranMs);
    this.#unfinished--;
    quarantine.left();
    // Plain completions are settled in the order in which they come; anything else would overtake.
    if (!before || isPlain(outcome) || outcome.kind === 'transacted') {
      return this.#settle(held, before, route, outcome);
    }
    return before.left().then(() => this.#settle(held, before, route, outcome));
  }

  #settle(
    held: LeasedJob,
    before: LeasedJob | null,
    route: Route,
    outcome: Outcome,
  ): boolean | Promise<boolean> {
    const { inFlight } = this.#deps;
    if (before?.failed && outcome.kind !== 'transacted') {
      inFlight.release(held);
      return false;
    }
    inFlight.settle(held, route, outcome);
    if (isPlain(outcome) || outcome.kind === 'transacted') return true;
    if (outcome.kind !== 'completed') return false;
    // Its children are written on another connection; the completion of the next job would overtake it.
    // If they are refused it has failed, and its key waits for it.
    return held.left().then(() => held.how === 'completed');
  }

  /** Jobs that were not started go back to the queue, unspent. */
  release(jobs: readonly LeasedJob[]): void {
    this.#unfinished -= jobs.length;
    for (const held of jobs) this.#deps.inFlight.release(held);
  }

  releaseWaiting(): void {
    this.release(this.#waiting.splice(0).flat());
  }

  /** A run ends before its first lost job. */
  dropLost(): void {
    for (const run of this.#waiting) {
      const lost = run.findIndex((job) => job.lost);
      if (lost >= 0) this.release(run.splice(lost));
    }
    this.#waiting = this.#waiting.filter((run) => run.length > 0);
  }

  /** Nothing is started any more, and nothing waits. */
  stop(): void {
    this.#stopping = true;
    this.#staleTimer?.cancel();
    this.#waiting = [];
  }
}

/** It succeeded and has no children: it is settled together with others. */
const isPlain = (outcome: Outcome) => outcome.kind === 'completed' && outcome.children.length === 0;
