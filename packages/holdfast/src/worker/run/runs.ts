/**
 * The runs of one queue that wait for a handler or have one. A job without order is a run of its own; ordered jobs of one
 * key that came together are one run. Runs of a type that is handled in batches wait for each other first (gather.ts).
 * After `PACE_MS` with handlers that end without a promise the event loop goes on: settles and signals do not wait for all.
 */
import { setImmediate } from 'node:timers/promises';
import type { ClaimBatch } from '../claim/claim-sender.js';
import { AHEAD_MS } from '../claim/prefetch.js';
import { PACE_MS, type Timer } from '../time.js';
import { runBatch } from './batch.js';
import { cutLost, Gather } from './gather.js';
import type { LeasedJob } from './leased-job.js';
import { type OneJob, type OneJobDeps, oneJob } from './one-job.js';

/** A job that has waited here for so long was claimed too early. */
const STALE_MS = 2 * AHEAD_MS;

export interface RunsDeps extends Omit<OneJobDeps, 'ended'> {
  readonly mayStart: () => boolean;
  readonly changed: () => void;
}

export class Runs {
  readonly #deps: RunsDeps;
  readonly #one: OneJob;
  readonly #gathers = new Map<string, Gather>();
  /** What waits for a handler, in order. Of a type that is handled in batches, one place for all that wait. */
  #waiting: (LeasedJob[] | Gather)[] = [];
  #starting = false;
  #yielding = false;
  running = 0;
  /** Jobs whose handler has not ended: those of the waiting runs and of the running ones. */
  unfinished = 0;
  /** How many jobs more there could be in the batches that run. */
  spare = 0;
  #stopping = false;
  #staleTimer: Timer | null = null;

  constructor(deps: RunsDeps) {
    this.#deps = deps;
    this.#one = oneJob({ ...deps, ended: () => void this.unfinished-- });
    const ready = (gather: Gather) => {
      this.#queueIfReady(gather);
      deps.changed();
    };
    for (const [type, { job, many }] of deps.routes)
      if (many) this.#gathers.set(type, new Gather(job, many, deps.time, ready));
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  /** How many jobs wait for others of their type, or for a handler with them. */
  get gathered(): number {
    let jobs = 0;
    for (const { size } of this.#gathers.values()) jobs += size;
    return jobs;
  }

  /** `first`: they start before all others that wait, but for those that wait to be handled together. */
  add(runs: readonly LeasedJob[][], first: boolean): void {
    const before: LeasedJob[][] = [];
    for (const run of runs) {
      const gather = this.#gatherOf(run);
      if (!gather) (first ? before : this.#waiting).push(run);
      else {
        gather.add(run);
        this.#queueIfReady(gather);
      }
    }
    if (first) this.#waiting.unshift(...before);
  }

  /** A run of several types is worked through job by job, as its order wants it. */
  #gatherOf(run: readonly LeasedJob[]): Gather | undefined {
    if (this.#gathers.size === 0) return undefined;
    const type = run[0]?.row.type as string;
    const gather = this.#gathers.get(type);
    return gather && run.every(({ row }) => row.type === type) ? gather : undefined;
  }

  #queueIfReady(gather: Gather): void {
    if (!gather.isReady || gather.queuedAt !== null) return;
    gather.queuedAt = this.#deps.time.now();
    this.#waiting.push(gather);
  }

  /** Starts what waits, as far as there are handlers for it. */
  start(): void {
    // A handler that ended just now, and the loop below goes on by itself; or the event loop comes first.
    if (this.#starting || this.#yielding) return;
    this.#starting = true;
    try {
      let ranMs = 0;
      while (this.running < this.#deps.settings.concurrency && this.#waiting.length > 0) {
        if (!this.#deps.mayStart()) break;
        if (ranMs > PACE_MS) {
          this.#yielding = true;
          void setImmediate().then(() => {
            this.#yielding = false;
            this.#deps.changed();
          });
          break;
        }
        // It waits no more before it begins: its handler may release everything that waits.
        const next = this.#waiting.shift() as LeasedJob[] | Gather;
        if (next instanceof Gather) this.#beginBatch(next);
        else {
          this.#begin(next);
          ranMs += next[0]?.ranMs ?? 0;
        }
      }
    } finally {
      this.#starting = false;
    }
    if (this.#waiting.length > 0) this.#watchWaiting();
  }

  /** Jobs that were claimed ahead and then wait behind slow handlers go back, for others to run. */
  #watchWaiting(): void {
    const { time, prefetch } = this.#deps;
    this.#staleTimer ??= time.after(STALE_MS, () => {
      this.#staleTimer = null;
      const [oldest] = this.#waiting;
      if (!oldest) return;
      const since = oldest instanceof Gather ? oldest.queuedAt : oldest[0]?.claim.claimedAt;
      const waitedMs = time.now() - (since as number);
      if (waitedMs < STALE_MS) return this.#watchWaiting();
      // First the estimate, or the next claim would take them again.
      prefetch.recordWait(waitedMs);
      this.release(this.#waiting.splice(0).flatMap(released));
    });
  }

  #begin(run: LeasedJob[]): void {
    const [held] = run;
    if (!held || run.length > 1) return void this.work(run);
    this.running++;
    const ran = this.#runOne(held, null);
    if (ran instanceof Promise) void ran.then((ok) => this.#end(run, ok ? held : null));
    else this.#end(run, ran ? held : null);
  }

  /** Works through a run. Anything but success ends it: what follows must not overtake. */
  async work(run: LeasedJob[]): Promise<void> {
    this.running++;
    let before: LeasedJob | null = null;
    let ranMs = 0;
    for (const held of run) {
      if (ranMs > PACE_MS) {
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

  #runOne(held: LeasedJob, before: LeasedJob | null): boolean | Promise<boolean> {
    const route = this.#deps.routes.get(held.row.type);
    return route ? this.#one(held, before, route) : false;
  }

  #end(run: readonly LeasedJob[], succeeded: LeasedJob | null): void {
    if (succeeded !== run.at(-1)) this.release(run.filter(({ started }) => !started));
    this.running--;
    this.#deps.changed();
  }

  #beginBatch(gather: Gather): void {
    gather.queuedAt = null;
    const { runs, rest } = gather.take();
    this.#queueIfReady(gather);
    if (runs.length > 0) void this.#workBatch(gather, runs, rest);
  }

  /** One handler for all of them. It is over when each has ended, one way or the other. */
  async #workBatch(gather: Gather, runs: LeasedJob[][], rest: LeasedJob[]): Promise<void> {
    const jobs = runs.flat();
    const spare = gather.many.max - jobs.length;
    this.running++;
    this.spare += spare;
    const succeeded = await runBatch(gather, runs, this.#one, this.#deps.context);
    this.release(jobs.filter(({ started }) => !started));
    this.spare -= spare;
    this.#addRest(gather, rest, jobs.at(-1) as LeasedJob, succeeded);
    this.running--;
    this.#deps.changed();
  }

  /** What was cut from the last run of a batch waits for the next one, if that run succeeded. */
  #addRest(gather: Gather, rest: LeasedJob[], before: LeasedJob, succeeded: boolean): void {
    const [first] = rest;
    if (!first) return;
    if (!succeeded || this.#stopping || before.failed) this.release(rest);
    else {
      first.before = before;
      gather.add(rest, true);
      this.#queueIfReady(gather);
    }
  }

  release(jobs: readonly LeasedJob[]): void {
    this.unfinished -= jobs.length;
    for (const held of jobs) this.#deps.inFlight.release(held);
  }

  releaseWaiting(): void {
    this.release(this.#waiting.splice(0).flatMap(released));
    for (const gather of this.#gathers.values()) this.release(gather.clear());
  }

  dropLost(): void {
    for (const next of this.#waiting) if (!(next instanceof Gather)) this.release(cutLost(next));
    this.#waiting = this.#waiting.filter((next) => next instanceof Gather || next.length > 0);
    for (const gather of this.#gathers.values()) this.release(gather.dropLost());
  }

  stop(): void {
    this.#stopping = true;
    this.#staleTimer?.cancel();
    this.#waiting = [];
    for (const gather of this.#gathers.values()) gather.clear();
  }
}

function released(next: LeasedJob[] | Gather): LeasedJob[] {
  if (!(next instanceof Gather)) return next;
  next.queuedAt = null;
  return next.clear();
}

/** Which jobs of a claim run one after the other. Marks the last job of a run if more of its key may stand behind it. */
export function runsOf(
  { run: longest, stop }: Pick<ClaimBatch, 'run' | 'stop'>,
  jobs: readonly LeasedJob[],
): LeasedJob[][] {
  if (longest === undefined) return jobs.map((job) => [job]);
  const runs: LeasedJob[][] = [];
  for (const job of jobs) {
    const run = runs.at(-1);
    if (run?.[0]?.row.partitionKey === job.row.partitionKey) run.push(job);
    else runs.push([job]);
  }
  for (const run of runs) {
    const last = run.at(-1) as LeasedJob;
    const cutShort = last.row.partitionKey === stop?.key;
    if (run.length === longest || cutShort || cameAlone(last)) last.hasMore = true;
  }
  return runs;
}

/** One that failed or crashed before is claimed without what stands behind it. */
const cameAlone = ({ row }: LeasedJob) => row.attempts > 1 || row.crashes > 0;
