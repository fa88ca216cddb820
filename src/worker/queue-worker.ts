/**
 * One queue in one worker: the claim loop, the jobs in flight, and the handlers that run.
 *
 * Here claimed rows become jobs in flight and runs of handlers, and what leaves tells the claim loop that there
 * is room, that a key is free, or that a job comes back later.
 */
import type { LimitedTypes } from '../fleet/limited.js';
import { HoldfastError } from '../job/errors.js';
import type { Ordering } from '../job/order.js';
import { isolate } from '../lease/isolate.js';
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { ClaimLoop, type Hints } from './claim/claim-loop.js';
import type { ClaimBatch } from './claim/claim-reader.js';
import { PrefetchPolicy } from './claim/prefetch.js';
import type { Settings } from './options.js';
import type { Route } from './run/attempt.js';
import { LeasedJob } from './run/leased-job.js';
import type { Quarantine } from './run/quarantine.js';
import { Runs } from './run/runs.js';
import { runsOf } from './run/runs-of.js';
import type { Standing } from './settle/batcher.js';
import { type InFlightDeps, InFlightJobs } from './settle/in-flight.js';
import type { Time } from './time.js';

/** What is released at the very end has this long to leave. */
const RELEASE_MS = 900;

export interface QueueWorkerDeps extends InFlightDeps {
  readonly settings: Settings;
  readonly routes: ReadonlyMap<string, Route>;
  readonly engine: Executor;
  readonly quarantine: Quarantine;
  readonly wakeups: Hints;
  readonly time: Time;
  readonly workerId: () => string;
  /** Whether the registry calls a worker of this id alive. */
  readonly standing: (workerId: string) => Standing;
  readonly recordEpoch: (epoch: number) => void;
  readonly recordRound: (queue: string, agoMs: number | null) => void;
  readonly reportError: (what: string, error: unknown) => void;
}

export class QueueWorker {
  readonly queue: string;
  readonly #deps: QueueWorkerDeps;
  readonly #names: Names;
  readonly #inFlight: InFlightJobs;
  readonly #prefetch: PrefetchPolicy;
  readonly #runs: Runs;
  readonly #claims: ClaimLoop;
  /** How many jobs one handler takes, where all types of the queue are handled in batches; else 1. */
  readonly #perHandler: number;
  /** Until the worker is watched: a hint must not make it claim before its death would be noticed. */
  #onHold = true;
  /** So many of the jobs in flight hold places of a limit. */
  #limited = 0;
  #stopping = false;
  #pumping = false;
  #onEmpty: (() => void) | null = null;

  constructor(queue: string, deps: QueueWorkerDeps) {
    this.queue = queue;
    this.#deps = deps;
    this.#names = deps.context.names;
    const { settings, quarantine } = deps;
    this.#prefetch = new PrefetchPolicy(settings.concurrency, settings.prefetch);
    this.#inFlight = new InFlightJobs(queue, deps, {
      left: (held) => this.#left(held),
      later: (held, delayMs) => this.#claims.dueIn(delayMs, [held.row.partitionBucket]),
    });
    this.#runs = new Runs({
      ...deps,
      mayStart: () => this.#alive && !quarantine.holds,
      prefetch: this.#prefetch,
      inFlight: this.#inFlight,
      changed: () => this.pump(),
    });
    const versions: Record<string, number> = {};
    const sizes: number[] = [];
    for (const { job, many } of deps.routes.values()) {
      if (job.queue !== queue) continue;
      versions[job.type] = job.version;
      sizes.push(many?.max ?? 1);
    }
    this.#perHandler = Math.min(...sizes);
    this.#claims = new ClaimLoop({
      ...{ queue, names: this.#names, engine: deps.engine, settings, versions },
      ...{ wakeups: deps.wakeups, time: deps.time },
      ...{ workerId: deps.workerId, recordEpoch: deps.recordEpoch },
      mayClaim: () => this.#mayClaim(),
      room: () => this.#room(),
      roomLimited: () => this.#roomLimited(),
      limitedFirst: () => this.#limited < this.#halfOfHandlers,
      free: () => this.#runs.running + this.#runs.waiting < deps.settings.concurrency,
      run: () => Math.max(this.#prefetch.run, this.#perHandler),
      suspectsAt: () => quarantine.readyAt,
      receive: (batch) => this.#receive(batch),
      ended: () => this.#checkEmpty(),
      recordRound: (agoMs) => deps.recordRound(queue, agoMs),
      took: (ms) => deps.emit({ kind: 'statement', queue, statement: 'claim', ms }),
      throttled: (type, jobs) => deps.emit({ kind: 'throttled', queue, type, jobs }),
      reportError: deps.reportError,
    });
  }

  get size(): number {
    return this.#inFlight.size;
  }

  /** How many of them the queue says that this worker holds. */
  get held(): number {
    return this.#inFlight.held;
  }

  get failures(): number {
    return this.#inFlight.failures;
  }

  get running(): number {
    return this.#runs.running;
  }

  /** Of a queue that is read by key: how many buckets the ring prefers this worker for. */
  get owned(): number {
    return this.#claims.owned;
  }

  assign(ordering: Ordering, buckets: readonly number[]): void {
    this.#claims.assign(ordering, buckets);
  }

  /** Which types of the queue are limited. */
  limit(limited: LimitedTypes): void {
    this.#claims.limit(limited);
  }

  hint(since: Date | null, buckets: readonly number[] | null): void {
    this.#claims.hint(since, buckets);
  }

  /** Hints arrive from now on; read what was written just before. */
  listening(): void {
    this.#claims.listening();
  }

  /** No claims while this worker has no registration to claim under. */
  hold(onHold: boolean): void {
    this.#onHold = onHold;
    if (onHold) return;
    this.#claims.restart();
  }

  /** Starts what waits and claims what there is room for. */
  pump(): void {
    if (this.#pumping) return;
    // Handlers that end at once keep the process busy until all that wait have run. So that the database is
    // not idle meanwhile, the next jobs are asked for before; a statement is sent in the next tick.
    if (this.#runs.waiting > this.#deps.settings.concurrency) {
      this.#claims.pump();
      this.#pumping = true;
      process.nextTick(() => {
        this.#pumping = false;
        this.#runs.start();
        this.#claims.pump();
      });
      return;
    }
    this.#runs.start();
    this.#claims.pump();
  }

  /** Nothing is claimed or started under an id that may be dead. */
  get #alive(): boolean {
    return this.#deps.standing(this.#deps.workerId()) === 'alive';
  }

  /** Without a living keeper nobody would renew what is claimed. */
  #mayClaim(): boolean {
    const { quarantine, keeper } = this.#deps;
    if (this.#stopping || this.#onHold || quarantine.holds) return false;
    return keeper.living && this.#alive;
  }

  /** An idle handler claims at once; while all are busy, half of what is wanted ahead is waited for. */
  #room(): number {
    const { concurrency, batchSize } = this.#deps.settings;
    const target = concurrency * this.#perHandler + this.#prefetch.jobs;
    // Unsettled jobs are held too: when the database is slow to settle, claiming waits for it.
    if (this.#inFlight.size >= 2 * target + batchSize) return 0;
    const { running, waiting, unfinished } = this.#runs;
    const free = concurrency - running - waiting;
    if (this.#perHandler > 1) return this.#roomForBatches(free, target);
    if (free <= 0 && unfinished > target / 2) return 0;
    return Math.min(batchSize, Math.max(free, target - unfinished));
  }

  /** A batch that runs is as good as full: it takes no more. */
  #roomForBatches(free: number, target: number): number {
    const { gathered, unfinished, spare } = this.#runs;
    const idle = free * this.#perHandler - gathered;
    if (idle <= 0 && unfinished + spare > target / 2) return 0;
    return Math.min(this.#deps.settings.batchSize, Math.max(idle, target - unfinished - spare, 0));
  }

  get #halfOfHandlers(): number {
    return Math.max(1, Math.floor(this.#deps.settings.concurrency / 2));
  }

  /**
   * A job of a limited type starts at once, so it is claimed for a handler that is free. While quick jobs keep all
   * handlers busy, one comes before those that wait, up to half of the handlers: neither kind starves the other.
   */
  #roomLimited(): number {
    const { concurrency, batchSize } = this.#deps.settings;
    const { running, waiting, gathered } = this.#runs;
    const free = concurrency - running - waiting;
    const idle = this.#perHandler > 1 ? free * this.#perHandler - gathered : free;
    if (idle > 0) return Math.min(idle, batchSize);
    return waiting > 0 && this.#limited < this.#halfOfHandlers ? 1 : 0;
  }

  #receive(batch: ClaimBatch): void {
    const { jobs: rows, workerId, number, clock, sentAt, run, stop, keysWithMore, alone } = batch;
    if (rows.length === 0) return;
    const limited = batch.limited === true;
    const { settings } = this.#deps;
    const now = this.#deps.time.now();
    const facts = { queue: this.queue, workerId, number, sentAt, claimedAt: now, clock, limited };
    const jobs = rows.map((row) => new LeasedJob(row, facts));
    // Suspects come without what stands behind them.
    for (const job of jobs) job.hasMore = keysWithMore ? keysWithMore.has(job.row) : run === null;
    // The answer may have lain in the socket while the loop was blocked, until the leases were over or this
    // worker had been declared dead.
    const late = now - sentAt >= settings.leaseMs;
    if (late || this.#onHold || workerId !== this.#deps.workerId()) {
      this.#inFlight.missed(jobs);
      this.#claims.missed(jobs);
      return;
    }
    if (limited) this.#limited += jobs.length;
    this.#inFlight.take(jobs);
    for (const { row } of jobs) this.#prefetch.recordPayload(row.payload.length);
    if (this.#stopping || !this.#alive) {
      for (const job of jobs) this.#inFlight.release(job);
      return;
    }
    this.#runs.expect(jobs.length);
    const [first] = jobs;
    if (alone && first) {
      this.#runAlone(first);
      return;
    }
    const runs = runsOf({ run, stop }, jobs);
    if (limited) this.#runs.addFirst(runs);
    else for (const one of runs) this.#runs.add(one);
    this.#runs.start();
  }

  #runAlone(held: LeasedJob): void {
    const { quarantine, engine, reportError } = this.#deps;
    const unmark = () =>
      isolate(engine, this.#names, held.workerId, held, false).then(
        () => undefined,
        (error) => reportError('taking back the mark of a quarantined job', error),
      );
    void quarantine.runAlone({
      held,
      unmark,
      // Until its end is written nothing else may start: the row still says that it runs alone.
      run: () => this.#runs.work([held]).then(() => held.left()),
      release: () => this.#runs.release([held]),
    });
  }

  #left(held: LeasedJob): void {
    if (held.claim.limited) this.#limited--;
    this.#claims.left(held);
    this.#checkEmpty();
    this.pump();
  }

  releaseWaiting(): void {
    this.#runs.releaseWaiting();
  }

  /** The keeper could not renew these. */
  lose(jobs: readonly { id: string; generation: number }[]): void {
    for (const held of this.#inFlight.find(jobs)) this.#inFlight.lose(held);
    this.#runs.dropLost();
  }

  /** This registration is dead, and with it everything that is held and not being settled. */
  loseAll(workerId: string): void {
    for (const held of this.#inFlight.values()) {
      if (held.workerId === workerId && !held.settling) this.#inFlight.lose(held);
    }
    this.#runs.dropLost();
  }

  /** No new claims; waits for running handlers, then aborts and releases what is left. True: all gone. */
  async drain(graceMs: number): Promise<boolean> {
    this.#stopping = true;
    this.#claims.stop();
    this.#deps.settler.hurry();
    this.#runs.stop();
    for (const held of this.#inFlight.values()) if (!held.started) this.#inFlight.release(held);
    if (await this.#emptyWithin(graceMs)) return true;
    const reason = new HoldfastError(
      'STOPPED',
      'The worker is stopping and its grace period is over; the job was released.',
    );
    for (const held of this.#inFlight.values()) {
      if (held.lost) continue;
      held.abort(reason);
      held.settling = false;
      this.#inFlight.release(held);
      held.lost = true;
    }
    return this.#emptyWithin(RELEASE_MS);
  }

  #checkEmpty(): void {
    if (this.#empty) this.#onEmpty?.();
  }

  get #empty(): boolean {
    return this.#inFlight.size === 0 && !this.#claims.claiming;
  }

  #emptyWithin(ms: number): Promise<boolean> {
    if (this.#empty) return Promise.resolve(true);
    return new Promise((resolve) => {
      const timer = this.#deps.time.after(ms, () => {
        this.#onEmpty = null;
        resolve(false);
      });
      this.#onEmpty = () => {
        timer.cancel();
        this.#onEmpty = null;
        resolve(true);
      };
    });
  }
}
