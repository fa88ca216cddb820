/**
 * The loop of one queue: claim, start handlers, settle, and again.
 *
 * It claims a little ahead of the handlers. One claim is in flight at a time and starts when half of what
 * was wanted is used up, so claiming, running and settling overlap.
 * Everything that the process holds is in `#held` from the claim to the settle, and is told to the keeper.
 */
import { claim } from '../claim/claim.js';
import { Probes } from '../claim/probes.js';
import { HoldfastError } from '../job/errors.js';
import { isolate } from '../lease/isolate.js';
import type { Executor } from '../postgres/queryable.js';
import { Ahead } from './ahead.js';
import { Backoff } from './backoff.js';
import { type ContextGround, leaseLost } from './context.js';
import type { JobEvent, WorkerEvent, WorkerStats } from './events.js';
import { HeldJob } from './held.js';
import type { Isolation, Suspect } from './isolation.js';
import type { Keeper } from './keeper.js';
import type { Settings } from './options.js';
import { type Outcome, type Route, runJob } from './run.js';
import { type Ended, settleOutcome } from './settle-outcome.js';
import type { Settler } from './settler.js';

/** A job that has waited here for so long was claimed too early. */
const STALE_MS = 1_000;
const CURSOR_LAG_MS = 2_000;

export interface RunnerGround {
  readonly settings: Settings;
  readonly routes: ReadonlyMap<string, Route>;
  readonly engine: Executor;
  readonly settler: Settler;
  readonly keeper: Keeper;
  readonly isolation: Isolation;
  readonly context: ContextGround;
  readonly stats: WorkerStats;
  readonly workerId: () => string;
  readonly deadWorkers: () => readonly string[];
  readonly emit: (event: WorkerEvent) => void;
  readonly trouble: (what: string, error: unknown) => void;
}

export class QueueRunner {
  readonly queue: string;
  readonly #ground: RunnerGround;
  readonly #probes: Probes;
  readonly #versions: Record<string, number> = {};
  readonly #backoff = new Backoff();
  readonly #ahead: Ahead;
  readonly #held = new Map<string, HeldJob>();
  #buffer: HeldJob[] = [];
  #running = 0;
  #claiming = false;
  #onHold = false;
  #stopping = false;
  #timer: NodeJS.Timeout | null = null;
  #bufferTimer: NodeJS.Timeout | null = null;
  #onEmpty: (() => void) | null = null;

  constructor(queue: string, ground: RunnerGround) {
    this.queue = queue;
    this.#ground = ground;
    this.#probes = new Probes({ pollMs: ground.settings.pollMs });
    this.#ahead = new Ahead(ground.settings.concurrency, ground.settings.prefetch);
    for (const [type, { job }] of ground.routes) {
      if (job.queue === queue) this.#versions[type] = job.version;
    }
  }

  held(): Iterable<HeldJob> {
    return this.#held.values();
  }

  /** Look for work now, from the start of every bucket. */
  wake(): void {
    this.#probes.rewind();
    this.#clearTimer();
    this.pump();
  }

  /** No claims while this worker has no life to claim in. */
  hold(onHold: boolean): void {
    this.#onHold = onHold;
    this.pump();
  }

  pump(): void {
    const { settings, isolation } = this.#ground;
    this.#startBuffered();
    if (this.#claiming || this.#stopping || this.#timer) return;
    if (this.#onHold || isolation.holds) return;
    const busy = this.#running + this.#buffer.length;
    const target = settings.concurrency + this.#ahead.jobs;
    // Unsettled jobs are held too: when the database is slow to settle, claiming waits for it.
    if (this.#held.size >= 2 * target + settings.batchSize) return;
    // A free handler claims at once; while all are busy, half of what is wanted ahead is waited for.
    if (busy >= settings.concurrency && busy > target / 2) return;
    void this.#claim(Math.min(settings.batchSize, target - busy));
  }

  async #claim(limit: number): Promise<void> {
    const now = performance.now();
    const probes = this.#probes.take(now);
    if (probes.length === 0) return this.#waitForPoll(now);
    this.#claiming = true;
    const workerId = this.#ground.workerId();
    try {
      const rows = await claim(this.#ground.engine, this.#ground.context.names, {
        workerId,
        probes,
        limit,
        leaseMs: this.#ground.settings.leaseMs,
        versions: this.#versions,
        deadWorkers: this.#ground.deadWorkers(),
        cursorLagMs: CURSOR_LAG_MS,
      });
      const after = performance.now();
      this.#probes.learn(rows, limit, after, after - now);
      this.#backoff.reset();
      const jobs = rows.map((row) => new HeldJob(row, this.queue, workerId, after));
      // The answer may have lain in the socket while the loop was blocked, until the leases were over or
      // this worker had been declared dead.
      const late = after - now >= this.#ground.settings.leaseMs;
      if (late || workerId !== this.#ground.workerId()) this.#receiveTooLate(jobs);
      else if (jobs.length > 0) this.#receive(jobs);
    } catch (error) {
      this.#ground.trouble(`claiming from ${this.queue}`, error);
      this.#setTimer(this.#backoff.nextMs());
    } finally {
      this.#claiming = false;
    }
    this.#checkEmpty();
    this.pump();
  }

  #receiveTooLate(jobs: HeldJob[]): void {
    this.#ground.stats.claimed += jobs.length;
    for (const job of jobs) this.#lose(job);
  }

  #receive(jobs: HeldJob[]): void {
    const { keeper, stats, emit } = this.#ground;
    // Told before anything is started: a handler that blocks the loop must not cost the others.
    keeper.hold(
      this.queue,
      jobs.map((job) => job.id),
      jobs.map((job) => job.generation),
    );
    stats.claimed += jobs.length;
    emit({ kind: 'claimed', queue: this.queue, count: jobs.length });
    const suspects: Suspect[] = [];
    for (const job of jobs) {
      this.#ahead.sawPayload(job.row.payload.length);
      this.#held.set(job.id, job);
      if (this.#stopping) this.#release(job);
      else if (job.row.crashes > 0) suspects.push(this.#suspect(job));
      // Claimed before a suspect was found elsewhere in this process: not beside it.
      else if (this.#ground.isolation.holds) this.#release(job);
      else this.#buffer.push(job);
    }
    if (suspects.length > 0) this.#ground.isolation.add(suspects);
  }

  #suspect(held: HeldJob): Suspect {
    return {
      held,
      mark: (alone) => this.#mark(held, alone),
      // Not over before it is settled: until then the mark would make it pay for what comes next.
      run: async () => {
        const over = new Promise<void>((resolve) => {
          held.onForgotten = resolve;
        });
        await this.#start(held);
        await over;
      },
      handBack: () => (held.lost ? this.#forget(held) : this.#release(held)),
    };
  }

  async #mark(held: HeldJob, alone: boolean): Promise<boolean> {
    const { engine, context, trouble } = this.#ground;
    try {
      const marked = await isolate(engine, context.names, held.workerId, held, alone);
      if (!marked && alone) {
        this.#lose(held);
        this.#forget(held);
      }
      return marked;
    } catch (error) {
      trouble(`isolating job ${held.id}`, error);
      if (alone) this.#release(held);
      return false;
    }
  }

  #startBuffered(): void {
    const { concurrency } = this.#ground.settings;
    let taken = 0;
    while (this.#running < concurrency && taken < this.#buffer.length) {
      if (this.#ground.isolation.holds) break;
      void this.#start(this.#buffer[taken++] as HeldJob);
    }
    if (taken > 0) this.#buffer.splice(0, taken);
    if (this.#buffer.length > 0) this.#watchBuffer();
  }

  /** Jobs that were claimed ahead and then wait behind slow handlers go back, for others to run. */
  #watchBuffer(): void {
    this.#bufferTimer ??= setTimeout(() => {
      this.#bufferTimer = null;
      const oldest = this.#buffer[0];
      if (!oldest) return;
      const waitedMs = performance.now() - oldest.claimedAt;
      if (waitedMs < STALE_MS) return this.#watchBuffer();
      // First the estimate, or the next claim would take them again.
      this.#ahead.sawWaiting(waitedMs);
      this.handBack();
    }, STALE_MS);
  }

  async #start(held: HeldJob): Promise<void> {
    const { routes, context, settings, isolation } = this.#ground;
    const route = routes.get(held.row.type);
    if (!route || held.lost) {
      if (held.lost) this.#forget(held);
      else this.#release(held);
      return;
    }
    this.#running++;
    isolation.entered();
    this.#emitJob('started-job', held);
    const startedAt = performance.now();
    const outcome = await runJob(held, route, context, settings.timeoutMs).catch((error: unknown) =>
      // runJob does not throw; if it ever does, the slot and the job must not be lost with it.
      this.#unrun(held, error),
    );
    this.#ahead.sawHandler(performance.now() - startedAt);
    this.#running--;
    isolation.left();
    this.#settle(held, route, outcome);
    this.pump();
  }

  #unrun(held: HeldJob, error: unknown): Outcome {
    this.#ground.trouble(`running job ${held.id}`, error);
    const summary = 'The attempt could not be evaluated; see the log of the worker.';
    return { kind: 'failed', delayMs: 60_000, error: summary, summary, handed: false };
  }

  #settle(held: HeldJob, route: Route, outcome: Outcome): void {
    if (held.gone) this.#lose(held);
    if (held.lost) {
      this.#forget(held);
      return;
    }
    held.settling = true;
    const { settler, context } = this.#ground;
    settleOutcome({ settler, context, route }, held, outcome, (how) => this.#settled(held, how));
  }

  #release(held: HeldJob): void {
    held.settling = true;
    const job = { id: held.id, generation: held.generation };
    this.#ground.settler.release(held.workerId, job, (moved) =>
      this.#settled(held, moved === null ? 'lost' : 'released'),
    );
  }

  #settled(held: HeldJob, how: Ended): void {
    if (how === 'lost') this.#lose(held);
    else {
      this.#ground.stats[how]++;
      this.#emitJob(how, held);
    }
    this.#forget(held);
    this.pump();
  }

  #lose(held: HeldJob): void {
    if (held.lost) return;
    held.lost = true;
    held.abort(leaseLost(held.id, 'what this attempt does from now on'));
    this.#ground.stats.lost++;
    this.#ground.context.log.warn(
      { job: held.id, type: held.row.type, generation: held.generation, worker: held.workerId },
      'the lease of a job was lost; nothing that this attempt settles counts',
    );
    this.#emitJob('lost', held);
  }

  #forget(held: HeldJob): void {
    if (this.#held.get(held.id) !== held) return;
    this.#held.delete(held.id);
    this.#ground.keeper.drop(this.queue, held.id, held.generation);
    held.onForgotten?.();
    this.#checkEmpty();
  }

  get #empty(): boolean {
    return this.#held.size === 0 && !this.#claiming;
  }

  #checkEmpty(): void {
    if (this.#empty) this.#onEmpty?.();
  }

  /** The keeper could not renew these. */
  lose(jobs: readonly { id: string; generation: number }[]): void {
    for (const { id, generation } of jobs) {
      const held = this.#held.get(id);
      if (held?.generation === generation && !held.settling) this.#loseNow(held);
    }
  }

  /** This incarnation is dead, and with it everything it held. */
  loseAll(workerId: string): void {
    for (const held of [...this.#held.values()]) {
      if (held.workerId === workerId) this.#loseNow(held);
    }
  }

  #loseNow(held: HeldJob): void {
    this.#lose(held);
    const waits = this.#buffer.indexOf(held);
    if (waits < 0) return;
    this.#buffer.splice(waits, 1);
    this.#forget(held);
  }

  /** Jobs that wait for a handler go back to the queue, unspent. */
  handBack(): void {
    const waiting = this.#buffer;
    this.#buffer = [];
    for (const held of waiting) this.#release(held);
  }

  /** No new claims; waits for running handlers, then aborts and releases what is left. True: all gone. */
  async drain(graceMs: number): Promise<boolean> {
    this.#stopping = true;
    this.#clearTimer();
    if (this.#bufferTimer) clearTimeout(this.#bufferTimer);
    this.handBack();
    if (await this.#emptyWithin(graceMs)) return true;
    const reason = new HoldfastError(
      'STOPPED',
      'The worker is stopping and its grace period is over; the job was handed back.',
    );
    for (const held of [...this.#held.values()]) {
      if (held.lost) continue;
      held.abort(reason);
      this.#release(held);
      held.lost = true;
    }
    return this.#emptyWithin(1_500);
  }

  #emptyWithin(ms: number): Promise<boolean> {
    if (this.#empty) return Promise.resolve(true);
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        this.#onEmpty = null;
        resolve(false);
      }, ms);
      this.#onEmpty = () => {
        clearTimeout(timer);
        this.#onEmpty = null;
        resolve(true);
      };
    });
  }

  #emitJob(kind: JobEvent['kind'], held: HeldJob): void {
    const { id, queue, generation } = held;
    this.#ground.emit({ kind, queue, id, type: held.row.type, generation });
  }

  #waitForPoll(now: number): void {
    this.#setTimer(this.#probes.idleMs(now) * (1 + Math.random() * 0.25));
  }

  #setTimer(ms: number): void {
    this.#clearTimer();
    if (this.#stopping) return;
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.pump();
    }, ms);
  }

  #clearTimer(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
  }
}
