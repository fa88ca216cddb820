/**
 * One queue in one worker: the claim loop, the jobs in flight, and the handlers that run.
 *
 * Here claimed rows become jobs in flight and runs of handlers, and what leaves tells the claim loop that there
 * is room, that a key is free, or that a job comes back later.
 */
import { HoldfastError } from '../job/errors/errors.js';
import { isolate } from '../lease/marks.js';
import { LAST_MS } from '../postgres/connect/backoff.js';
import { ClaimLoop, type Hints } from './claim/claim-loop.js';
import type { ClaimBatch } from './claim/claim-sender.js';
import { PrefetchPolicy } from './claim/prefetch.js';
import type { QueueDeps } from './queue-deps.js';
import { LeasedJob } from './run/leased-job.js';
import { Runs, runsOf } from './run/runs.js';
import { InFlightJobs } from './settle/in-flight.js';
import { Wait } from './time.js';

export interface QueueWorkerDeps extends QueueDeps {
  readonly wakeups: Hints;
  readonly recordEpoch: (epoch: number) => void;
  readonly recordRound: (queue: string, agoMs: number | null) => void;
}

export class QueueWorker {
  readonly queue: string;
  readonly inFlight: InFlightJobs;
  readonly runs: Runs;
  readonly claims: ClaimLoop;
  /** Handled types with the newest version of each. */
  readonly versions: Readonly<Record<string, number>>;
  readonly #deps: QueueWorkerDeps;
  readonly #prefetch: PrefetchPolicy;
  /** How many jobs one handler takes, where all types of the queue are handled in batches; else 1. */
  readonly #perHandler: number;
  /** Until the worker is watched: a hint must not make it claim before its death would be noticed. */
  #onHold = true;
  #stopping = false;
  #pumping = false;
  readonly #emptied = new Wait();

  constructor(queue: string, deps: QueueWorkerDeps) {
    this.queue = queue;
    this.#deps = deps;
    const { settings, quarantine } = deps;
    this.#prefetch = new PrefetchPolicy(settings.concurrency, settings.prefetch);
    this.inFlight = new InFlightJobs({
      ...{ ...deps, queue },
      left: (held) => this.#left(held),
      later: (held, delayMs) => this.claims.dueIn(delayMs, [held.row.partitionBucket]),
    });
    this.runs = new Runs({
      ...deps,
      mayStart: () => this.#mayStart,
      prefetch: this.#prefetch,
      inFlight: this.inFlight,
      changed: () => this.pump(),
    });
    const routes = [...deps.routes.values()].filter(({ job }) => job.queue === queue);
    const versions = Object.fromEntries(routes.map(({ job }) => [job.type, job.version]));
    this.versions = versions;
    this.#perHandler = Math.min(...routes.map(({ many }) => many?.max ?? 1));
    this.claims = new ClaimLoop({
      ...deps,
      ...{ queue, names: deps.context.names, versions },
      mayClaim: () => this.#mayClaim,
      room: () => this.#room(),
      free: () => this.#freeHandlers > 0,
      run: () => Math.max(this.#prefetch.run, this.#perHandler),
      suspectsAt: () => quarantine.readyAt,
      receive: (batch) => this.#receive(batch),
      ended: () => this.#checkEmpty(),
    });
  }

  /** No claims while this worker has no registration to claim under. */
  hold(onHold: boolean): void {
    this.#onHold = onHold;
    if (!onHold) this.claims.restart();
  }

  pump(): void {
    if (this.#pumping) return;
    // Handlers that end at once keep the process busy until all that wait have run. So that the database is
    // not idle meanwhile, the next jobs are asked for before; a statement is sent in the next tick.
    this.#pumping = this.runs.waiting > this.#deps.settings.concurrency;
    if (this.#pumping)
      process.nextTick(() => {
        this.#pumping = false;
        this.runs.start();
        this.claims.pump();
      });
    else this.runs.start();
    this.claims.pump();
  }

  /** Nothing is claimed or started under an id that may be dead. */
  get #alive(): boolean {
    return this.#deps.standing(this.#deps.workerId()) === 'alive';
  }

  get #mayStart(): boolean {
    const { settler, settings, quarantine } = this.#deps;
    // As many jobs as run at once have ended and cannot be settled: more would only repeat their effects later.
    const { kept } = settler;
    if (kept > 0 && kept >= settings.concurrency * this.#perHandler) return false;
    return this.#alive && !quarantine.holds;
  }

  /** Without a living keeper nobody would renew what is claimed. */
  get #mayClaim(): boolean {
    return !this.#stopping && !this.#onHold && this.#deps.keeper.living && this.#mayStart;
  }

  get #freeHandlers(): number {
    return this.#deps.settings.concurrency - this.runs.running - this.runs.waiting;
  }

  /**
   * For how many jobs there are free handlers, beyond those that wait to be handled together. If a handler is free all
   * the same, no batch of any type is full: one more is claimed.
   */
  get #idle(): number {
    const free = this.#freeHandlers;
    if (this.#perHandler === 1) return free;
    const idle = free * this.#perHandler - this.runs.gathered;
    return free > 0 && idle <= 0 ? this.#perHandler : idle;
  }

  /** How many jobs the handlers have, or will have. A batch that runs takes no more, also when some of it is done. */
  get #taken(): number {
    const { unfinished, spare, running, gathered } = this.runs;
    if (this.#perHandler === 1) return Math.max(unfinished, running);
    return Math.max(unfinished + spare, running * this.#perHandler + gathered);
  }

  /** An idle handler claims; while all are busy, half of what is wanted ahead is waited for. */
  #room(): number {
    const { concurrency, batchSize } = this.#deps.settings;
    const target = concurrency * this.#perHandler + this.#prefetch.jobs;
    // Unsettled jobs are held too: when the database is slow to settle, claiming waits for it. Those that wait for
    // others of their type are not among them.
    if (this.inFlight.size - this.runs.gathered >= 2 * target + batchSize) return 0;
    const [taken, idle] = [this.#taken, this.#idle];
    if (idle <= 0 && taken > target / 2) return 0;
    return Math.min(batchSize, Math.max(idle, target - taken, 0));
  }

  #receive(batch: ClaimBatch): void {
    const { jobs: rows, run, workerId, number, clock, sentAt } = batch;
    if (rows.length === 0) return;
    const { inFlight, claims } = this;
    const { settings, time } = this.#deps;
    const now = time.now();
    const facts = { queue: this.queue, workerId, number, sentAt, claimedAt: now, clock };
    const jobs = rows.map((row) => new LeasedJob(row, facts));
    // Suspects come without what stands behind them.
    for (const job of jobs) job.hasMore = job.row.more ?? run === undefined;
    // The answer may have lain in the socket while the loop was blocked, until the leases were over or this
    // worker had been declared dead.
    const late = now - sentAt >= settings.leaseMs;
    if (late || this.#onHold || workerId !== this.#deps.workerId()) {
      inFlight.missed(jobs);
      claims.missed(jobs);
      return;
    }
    inFlight.take(jobs);
    for (const { row } of jobs) this.#prefetch.recordPayload(row.payload.length);
    // Too little is left of these leases to be renewed in time: they go back, and are claimed anew.
    const isShort = now - sentAt >= settings.leaseMs - settings.renewMs;
    if (this.#stopping || !this.#alive || isShort) {
      for (const job of jobs) inFlight.release(job);
      return;
    }
    // They will be added, or released.
    this.runs.unfinished += jobs.length;
    const [first] = jobs;
    if (batch.alone && first) {
      this.#runAlone(first);
      return;
    }
    // A job that holds a permit starts before others that wait: until it ends, nobody else has the permit.
    const isFirst = ([job]: LeasedJob[]) => job !== undefined && claims.isLimited(job.row.type);
    const runs = runsOf(batch, jobs);
    const others = runs.filter((run) => !isFirst(run));
    this.runs.add(others, false);
    this.runs.add(runs.filter(isFirst), true);
    this.runs.start();
  }

  #runAlone(held: LeasedJob): void {
    const { quarantine, engine, context, reportError } = this.#deps;
    void quarantine.runAlone({
      held,
      unmark: () =>
        isolate(engine, context.names, held.workerId, held, false).then(
          () => undefined,
          (error) => reportError('taking back the mark of a quarantined job', error),
        ),
      // Until its end is written nothing else may start: the row still says that it runs alone.
      run: () => this.runs.work([held]).then(() => held.left()),
      release: () => this.runs.release([held]),
    });
  }

  #left(held: LeasedJob): void {
    this.claims.left(held);
    this.#checkEmpty();
    this.pump();
  }

  /** The keeper could not renew these. */
  lose(jobs: readonly { id: string; generation: number }[]): void {
    for (const held of this.inFlight.find(jobs)) this.inFlight.lose(held);
    this.runs.dropLost();
  }

  /** This registration is dead, and with it everything that is held and not being settled. */
  loseAll(workerId: string): void {
    for (const held of this.inFlight.values()) {
      if (held.workerId === workerId && !held.settling) this.inFlight.lose(held);
    }
    this.runs.dropLost();
  }

  /** No new claims; waits for running handlers, then aborts and releases what is left. True: all gone. */
  async drain(graceMs: number): Promise<boolean> {
    this.#stopping = true;
    this.claims.stop();
    this.#deps.settler.flush();
    this.runs.stop();
    for (const held of this.inFlight.values()) if (!held.started) this.inFlight.release(held);
    if (await this.#emptyWithin(graceMs)) return true;
    const reason = new HoldfastError(
      'STOPPED',
      'The worker is stopping and its grace period is over; the job was released.',
    );
    for (const held of this.inFlight.values()) {
      if (held.lost) continue;
      held.abort(reason);
      held.settling = false;
      this.inFlight.release(held);
      held.lost = true;
    }
    return this.#emptyWithin(6 * LAST_MS);
  }

  #checkEmpty(): void {
    if (this.#empty) this.#emptied.end();
  }

  get #empty(): boolean {
    return this.inFlight.size === 0 && !this.claims.claiming;
  }

  async #emptyWithin(ms: number): Promise<boolean> {
    return this.#empty || this.#emptied.atMost(ms, this.#deps.time);
  }
}
