/**
 * The runs of one queue: what was claimed and waits for a handler, and what is being worked through. A job
 * without order is a run of its own; ordered jobs of one key that came together are one run.
 *
 * A handler that ends without a promise is over when it returns, and the next one starts at once. After a
 * slice of time with such handlers, or with those of one key, the event loop has its turn, so that settles
 * and signals do not wait for all. Handlers that return promises take their turns as promises do.
 */
import { setImmediate } from 'node:timers/promises';
import type { Ahead } from './ahead.js';
import type { ContextGround } from './handler-context.js';
import type { HeldJob } from './held.js';
import type { InHand } from './in-hand.js';
import type { Isolation } from './isolation.js';
import type { Settings } from './options.js';
import { type Outcome, type Route, runJob } from './run.js';
import { Trust } from './trust.js';

/** A job that has waited here for so long was claimed too early. */
const STALE_MS = 1_000;
/** So long handlers that end at once may keep the event loop. */
const SLICE_MS = 10;

export interface RunsGround {
  readonly settings: Settings;
  readonly routes: ReadonlyMap<string, Route>;
  readonly context: ContextGround;
  readonly isolation: Isolation;
  readonly ahead: Ahead;
  readonly hand: InHand;
  readonly trouble: (what: string, error: unknown) => void;
  /** There is room for another. */
  readonly changed: () => void;
  /** A run of ordered jobs is over: this is the last of it that was started. */
  readonly ended: (last: HeldJob) => void;
}

export class Runs {
  readonly #ground: RunsGround;
  readonly #trust = new Trust();
  #waiting: HeldJob[][] = [];
  #starting = false;
  #resting = false;
  #running = 0;
  #unfinished = 0;
  #stopping = false;
  #staleTimer: NodeJS.Timeout | null = null;

  constructor(ground: RunsGround) {
    this.#ground = ground;
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

  /** Types of which a run is worth claiming; others are claimed one by one. */
  get trusted(): string[] {
    return this.#trust.types();
  }

  /** So many jobs were claimed, and will be added or handed back. */
  expect(jobs: number): void {
    this.#unfinished += jobs;
  }

  add(run: HeldJob[]): void {
    this.#waiting.push(run);
  }

  /** Starts what waits, as far as there are handlers for it. */
  start(): void {
    // A handler that ended just now, and the loop below goes on by itself; or others have their turn.
    if (this.#starting || this.#resting) return;
    this.#starting = true;
    try {
      let ranMs = 0;
      while (this.#running < this.#ground.settings.concurrency && this.#waiting.length > 0) {
        if (this.#ground.isolation.holds) break;
        if (ranMs > SLICE_MS) {
          this.#rest();
          break;
        }
        // It waits no more before it begins: its handler may have everything handed back that waits.
        const run = this.#waiting.shift() as HeldJob[];
        this.#begin(run);
        ranMs += run[0]?.ranMs ?? 0;
      }
    } finally {
      this.#starting = false;
    }
    if (this.#waiting.length > 0) this.#watchWaiting();
  }

  /** Until the event loop has turned. */
  #rest(): void {
    this.#resting = true;
    void setImmediate().then(() => {
      this.#resting = false;
      this.#ground.changed();
    });
  }

  /** Jobs that were claimed ahead and then wait behind slow handlers go back, for others to run. */
  #watchWaiting(): void {
    this.#staleTimer ??= setTimeout(() => {
      this.#staleTimer = null;
      const oldest = this.#waiting[0]?.[0];
      if (!oldest) return;
      const waitedMs = performance.now() - oldest.claimedAt;
      if (waitedMs < STALE_MS) return this.#watchWaiting();
      // First the estimate, or the next claim would take them again.
      this.#ground.ahead.sawWaiting(waitedMs);
      this.handBackWaiting();
    }, STALE_MS);
  }

  #begin(run: HeldJob[]): void {
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
  async work(run: HeldJob[]): Promise<void> {
    this.#running++;
    let before: HeldJob | null = null;
    let ranMs = 0;
    for (const held of run) {
      if (ranMs > SLICE_MS) {
        ranMs = 0;
        await setImmediate();
      }
      const goes: boolean = !before || !(this.#stopping || this.#ground.isolation.holds);
      if (!goes || before?.lost || !(await this.#runOne(held, before))) break;
      before = held;
      ranMs += held.ranMs ?? 0;
    }
    this.#end(run, before);
  }

  /** What was not started goes back. */
  #end(run: readonly HeldJob[], succeeded: HeldJob | null): void {
    if (succeeded !== run.at(-1)) this.handBack(run.filter(({ started }) => !started));
    this.#running--;
    const last = run.findLast(({ started }) => started);
    if (last?.inLine) this.#ground.ended(last);
    this.#ground.changed();
  }

  /** True when the handler succeeded, and the next job of its key may start. */
  #runOne(held: HeldJob, before: HeldJob | null): boolean | Promise<boolean> {
    const { routes, context, settings, isolation, hand } = this.#ground;
    const route = routes.get(held.row.type);
    if (!route || held.lost || held.settling) return false;
    held.started = true;
    held.before = before;
    isolation.entered();
    hand.told('started-job', held);
    const from = performance.now();
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
  #unrun(held: HeldJob, error: unknown): Outcome {
    this.#ground.trouble(`running job ${held.id}`, error);
    const summary = 'The attempt could not be evaluated; see the log of the worker.';
    const errorType = '_OTHER';
    return { kind: 'failed', delayMs: 60_000, error: summary, summary, errorType, handed: false };
  }

  #ran(
    held: HeldJob,
    before: HeldJob | null,
    route: Route,
    from: number,
    outcome: Outcome,
  ): boolean | Promise<boolean> {
    const { ahead, isolation } = this.#ground;
    held.ranMs = performance.now() - from;
    ahead.sawHandler(held.ranMs);
    if (held.inLine && outcome.kind !== 'lost') this.#trust.saw(held.row.type, !isSuccess(outcome));
    this.#unfinished--;
    isolation.left();
    // Plain completions are settled in the order in which they come; anything else would overtake.
    if (!before || isPlain(outcome) || outcome.kind === 'transacted') {
      return this.#settle(held, before, route, outcome);
    }
    return before.left().then(() => this.#settle(held, before, route, outcome));
  }

  #settle(
    held: HeldJob,
    before: HeldJob | null,
    route: Route,
    outcome: Outcome,
  ): boolean | Promise<boolean> {
    const { hand } = this.#ground;
    if (before?.lost && outcome.kind !== 'transacted') {
      hand.release(held);
      return false;
    }
    hand.settle(held, route, outcome);
    if (isPlain(outcome) || outcome.kind === 'transacted') return true;
    if (outcome.kind !== 'completed') return false;
    // Its children are written on another connection; the completion of the next job would overtake it.
    // If they are refused it has failed, and its key waits for it.
    return held.left().then(() => held.how === 'completed');
  }

  /** Jobs that were not started go back to the queue, unspent. */
  handBack(jobs: readonly HeldJob[]): void {
    this.#unfinished -= jobs.length;
    for (const held of jobs) this.#ground.hand.release(held);
  }

  handBackWaiting(): void {
    this.handBack(this.#waiting.splice(0).flat());
  }

  /** A run ends before its first lost job. */
  dropLost(): void {
    for (const run of this.#waiting) {
      const lost = run.findIndex((job) => job.lost);
      if (lost >= 0) this.handBack(run.splice(lost));
    }
    this.#waiting = this.#waiting.filter((run) => run.length > 0);
  }

  /** Nothing is started any more, and nothing waits. */
  stop(): void {
    this.#stopping = true;
    if (this.#staleTimer) clearTimeout(this.#staleTimer);
    this.#waiting = [];
  }
}

/** It succeeded and has no children: it is settled together with others. */
const isPlain = (outcome: Outcome) => outcome.kind === 'completed' && outcome.children.length === 0;

/** As far as its handler goes: a parent whose children are refused fails all the same. */
const isSuccess = ({ kind }: Outcome) => kind === 'completed' || kind === 'transacted';
