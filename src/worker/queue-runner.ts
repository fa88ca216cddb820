/**
 * The loop of one queue: claim, start handlers, settle, and again.
 *
 * It claims a little ahead of the handlers. One claim is in flight at a time and starts when half of what
 * was wanted is used up, so claiming, running and settling overlap. What was claimed waits in runs: a job
 * without order is a run of its own, ordered jobs of one key that came together are one run and use one
 * handler after the other. With nothing to read it sleeps, if producers can wake it, and looks every poll
 * in any case.
 */
import { HoldfastError } from '../job/errors.js';
import { isolate } from '../lease/isolate.js';
import type { Executor } from '../postgres/queryable.js';
import { Ahead } from './ahead.js';
import { Backoff } from './backoff.js';
import { HeldJob } from './held.js';
import { InHand, type InHandGround } from './in-hand.js';
import type { Isolation, Suspect } from './isolation.js';
import type { Settings } from './options.js';
import { type Outcome, type Route, runJob } from './run.js';
import { type Assignment, type ClaimedHere, type ClaimTerms, Sources } from './sources.js';
import type { Wakeups } from './wakeups.js';
import { Wary } from './wary.js';

/** A job that has waited here for so long was claimed too early. */
const STALE_MS = 1_000;
/** So many jobs of one key in one claim are the beginning of a long line. */
const LONG_RUN = 16;
/** A look that comes later than this means that the last one found nothing: time to sleep. */
const CALM_MS = 15;

export interface RunnerGround extends InHandGround {
  readonly settings: Settings;
  readonly routes: ReadonlyMap<string, Route>;
  readonly engine: Executor;
  readonly isolation: Isolation;
  readonly wakeups: Wakeups;
  readonly workerId: () => string;
  readonly deadWorkers: () => readonly string[];
  readonly sawEpoch: (epoch: number) => void;
  /** A job was told of and is not there: it was taken, or it is of a kind that is not looked for. */
  readonly hintMissed: (queue: string) => void;
  /** A round of housekeeping began so long ago; null: never. */
  readonly sawHousekept: (queue: string, agoMs: number | null) => void;
  readonly trouble: (what: string, error: unknown) => void;
}

export class QueueRunner {
  readonly queue: string;
  readonly #ground: RunnerGround;
  readonly #sources: Sources;
  readonly #hand: InHand;
  readonly #backoff = new Backoff();
  readonly #ahead: Ahead;
  readonly #wary = new Wary();
  #waiting: HeldJob[][] = [];
  /** Jobs whose handler has not ended: those of the waiting runs and of the running ones. */
  #unfinished = 0;
  #running = 0;
  #claiming = false;
  #claimingBeside = false;
  /** A claim is about to be sent, and handlers start after it. */
  #asking = false;
  /** The last claim of ordered jobs brought much of what it asked for: there are more. */
  #plenty = false;
  #onHold = false;
  #stopping = false;
  #asleep = false;
  #hinted = false;
  #timer: NodeJS.Timeout | null = null;
  #staleTimer: NodeJS.Timeout | null = null;
  #onEmpty: (() => void) | null = null;

  constructor(queue: string, ground: RunnerGround) {
    this.queue = queue;
    this.#ground = ground;
    this.#sources = new Sources(ground.settings.pollMs);
    this.#ahead = new Ahead(ground.settings.concurrency, ground.settings.prefetch);
    this.#hand = new InHand(queue, ground, () => {
      this.#checkEmpty();
      this.pump();
    });
  }

  held(): Iterable<HeldJob> {
    return this.#hand.values();
  }

  get size(): number {
    return this.#hand.size;
  }

  get running(): number {
    return this.#running;
  }

  get buckets(): number {
    return this.#sources.buckets;
  }

  /** Which part of the queue is this worker's now. */
  assign(assignment: Assignment): void {
    this.#sources.assign(assignment);
    this.#sources.asleep = this.#asleep;
    this.#look();
  }

  /** There is something new in these buckets, or anywhere. */
  hint(buckets: readonly number[] | null): void {
    this.#hinted ||= buckets !== null;
    this.#sources.hint(buckets);
    this.#look();
  }

  /** No claims while this worker has no life to claim in. */
  hold(onHold: boolean): void {
    this.#onHold = onHold;
    this.pump();
  }

  #look(): void {
    this.#clearTimer();
    this.pump();
  }

  /** Starts what waits and claims what is wanted. */
  pump(): void {
    if (this.#asking) return;
    // Handlers that end at once keep the process busy until all that wait have run. So that the database
    // is not idle meanwhile, the next jobs are asked for before; a statement is sent in the next tick.
    if (this.#waiting.length > this.#ground.settings.concurrency && this.#claimAhead()) {
      this.#asking = true;
      process.nextTick(() => {
        this.#asking = false;
        this.pump();
      });
      return;
    }
    this.#startWaiting();
    this.#claimAhead();
  }

  /** True when a claim was begun. */
  #claimAhead(): boolean {
    const { settings, isolation } = this.#ground;
    if (this.#stopping || this.#onHold || isolation.holds) return false;
    const free = !this.#claiming && !this.#timer;
    const freeBeside = !this.#claimingBeside && this.#sources.hasLine;
    if (!free && !freeBeside) return false;
    const target = settings.concurrency + this.#ahead.jobs;
    // Unsettled jobs are held too: when the database is slow to settle, claiming waits for it.
    if (this.#hand.size >= 2 * target + settings.batchSize) return false;
    const idle = settings.concurrency - this.#running - this.#waiting.length;
    // An idle handler claims at once; while all are busy, half of what is wanted ahead is waited for.
    if (idle <= 0 && this.#unfinished > target / 2) return false;
    const limit = Math.min(settings.batchSize, Math.max(idle, target - this.#unfinished));
    if (free) void this.#claim(limit);
    if (freeBeside) void this.#claimBeside(limit);
    return this.#claiming || this.#claimingBeside;
  }

  async #claim(limit: number): Promise<void> {
    const from = performance.now();
    const terms = this.#terms(limit);
    const claiming = this.#sources.claim(terms);
    if (!claiming) return this.#rest(from);
    this.#claiming = true;
    const hinted = this.#hinted;
    this.#hinted = false;
    try {
      const found = await this.#received(claiming, terms, from);
      if (hinted && found === 0) this.#ground.hintMissed(this.queue);
      this.#backoff.reset();
      this.#ground.wakeups.found(this.queue, found);
      if (found >= limit) this.#rise();
    } catch (error) {
      this.#ground.trouble(`claiming from ${this.queue}`, error);
      this.#setTimer(this.#backoff.nextMs());
    } finally {
      this.#claiming = false;
    }
    this.#checkEmpty();
    this.pump();
  }

  /** At the same time as an ordinary claim, if there is a long line to look behind. */
  async #claimBeside(limit: number): Promise<void> {
    const from = performance.now();
    const terms = this.#terms(limit);
    const claiming = this.#sources.claimBeside(terms);
    if (!claiming) return;
    this.#claimingBeside = true;
    try {
      await this.#received(claiming, terms, from);
    } catch (error) {
      this.#ground.trouble(`claiming from ${this.queue}`, error);
    } finally {
      this.#claimingBeside = false;
    }
    this.#checkEmpty();
    this.pump();
  }

  /** Takes what a claim returns into hand. Returns how many jobs that were. */
  async #received(claiming: Promise<ClaimedHere>, terms: ClaimTerms, from: number) {
    const { epoch, clock, jobs: rows, ordered, news } = await claiming;
    this.#ground.sawEpoch(epoch);
    if (news) this.#ground.sawHousekept(this.queue, news.housekeptMs);
    if (news?.anyOrdered && !this.#sources.readsOrdered) this.#ground.hintMissed(this.queue);
    const now = performance.now();
    const { queue } = this;
    this.#ground.emit({ kind: 'statement', queue, statement: 'claim', ms: now - from });
    const { workerId } = terms;
    const renewedFrom = from + this.#ground.settings.renewMs / 2;
    const facts = { queue, workerId, claimedAt: now, clock, renewedFrom };
    const jobs = rows.map((row) => new HeldJob(row, facts));
    // The answer may have lain in the socket while the loop was blocked, until the leases were over or
    // this worker had been declared dead.
    const late = now - from >= this.#ground.settings.leaseMs;
    if (late || workerId !== this.#ground.workerId()) this.#hand.missed(jobs);
    else if (jobs.length > 0) this.#receive(jobs, ordered);
    if (ordered) this.#plenty = jobs.length * 2 >= terms.limit;
    return jobs.length;
  }

  #terms(limit: number): ClaimTerms {
    const { engine, context, settings, workerId, deadWorkers } = this.#ground;
    return {
      engine,
      names: context.names,
      workerId: workerId(),
      leaseMs: settings.leaseMs,
      deadWorkers: deadWorkers(),
      limit,
      run: Math.min(limit, this.#ahead.run),
      wary: this.#wary.types(),
    };
  }

  #receive(jobs: HeldJob[], ordered: boolean): void {
    this.#hand.take(jobs);
    this.#unfinished += jobs.length;
    const suspects: Suspect[] = [];
    for (const job of jobs) {
      job.inLine = ordered;
      this.#ahead.sawPayload(job.row.payload.length);
    }
    for (const run of ordered ? runsOf(jobs) : jobs.map((job) => [job])) {
      // Claimed before a suspect was found elsewhere in this process: not beside it.
      const wanted = !this.#stopping && !this.#ground.isolation.holds;
      const suspect = run.findIndex((job) => job.row.crashes > 0);
      const rest = suspect < 0 ? [] : run.splice(suspect);
      if (suspect === 0 && !this.#stopping) suspects.push(this.#suspect(rest.shift() as HeldJob));
      if (run.length > 0 && wanted) this.#waiting.push(run);
      else this.#handBack(run);
      this.#handBack(rest);
    }
    if (suspects.length > 0) this.#ground.isolation.add(suspects);
  }

  #suspect(held: HeldJob): Suspect {
    return {
      held,
      mark: (alone) => this.#mark(held, alone),
      // Not over before it is settled: until then the mark would make it pay for what comes next.
      run: async () => {
        const over = held.left();
        await this.#work([held]);
        await over;
      },
      handBack: () => this.#handBack([held]),
    };
  }

  async #mark(held: HeldJob, alone: boolean): Promise<boolean> {
    const { engine, context, trouble } = this.#ground;
    try {
      const marked = await isolate(engine, context.names, held.workerId, held, alone);
      if (!marked && alone) {
        this.#hand.lose(held);
        this.#handBack([held]);
      }
      return marked;
    } catch (error) {
      trouble(`isolating job ${held.id}`, error);
      if (alone) this.#handBack([held]);
      return false;
    }
  }

  #startWaiting(): void {
    const { concurrency } = this.#ground.settings;
    let taken = 0;
    while (this.#running < concurrency && taken < this.#waiting.length) {
      if (this.#ground.isolation.holds) break;
      void this.#work(this.#waiting[taken++] as HeldJob[]);
    }
    if (taken > 0) this.#waiting.splice(0, taken);
    if (this.#waiting.length > 0) this.#watchWaiting();
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
      this.#ahead.sawWaiting(waitedMs);
      this.handBack();
    }, STALE_MS);
  }

  /** Works through a run. Anything but success ends it: what follows must not overtake. */
  async #work(run: HeldJob[]): Promise<void> {
    this.#running++;
    let before: HeldJob | null = null;
    for (let next = 0; next < run.length; next++) {
      const held = run[next] as HeldJob;
      const goes: boolean = next === 0 || !(this.#stopping || this.#ground.isolation.holds);
      if (!goes || before?.lost || !(await this.#runOne(held, before))) {
        this.#handBack(held.started ? run.slice(next + 1) : run.slice(next));
        break;
      }
      before = held;
    }
    this.#running--;
    // A short run of slow handlers may be the beginning of a long line, too.
    const more = run.length >= LONG_RUN || this.#ahead.run < LONG_RUN;
    if (before?.inLine && more) this.#lookBehind(before);
    this.pump();
  }

  /** A key that gave a long run has more, and can give it when the last of the run is settled. */
  #lookBehind(last: HeldJob): void {
    void last.left().then(() => {
      // While others wait, here or in the queue, it takes its turn with them.
      const alone = this.#waiting.length === 0 && !this.#plenty;
      if (alone && !last.lost) this.hint([last.row.partitionBucket]);
    });
  }

  /** True when the handler succeeded, and the next job of its key may start. */
  async #runOne(held: HeldJob, before: HeldJob | null): Promise<boolean> {
    const { routes, context, settings, isolation } = this.#ground;
    const route = routes.get(held.row.type);
    if (!route || held.lost || held.settling) return false;
    held.started = true;
    held.before = before;
    isolation.entered();
    this.#hand.told('started-job', held);
    const startedAt = performance.now();
    const { tracing } = context;
    let outcome: Outcome;
    try {
      outcome = tracing
        ? await tracing.process(held.facts, () => runJob(held, route, context, settings.timeoutMs))
        : await runJob(held, route, context, settings.timeoutMs);
    } catch (error) {
      // runJob does not throw; if it ever does, the slot and the job must not be lost with it.
      outcome = this.#unrun(held, error);
    }
    held.ranMs = performance.now() - startedAt;
    this.#ahead.sawHandler(held.ranMs);
    if (held.inLine) this.#wary.saw(held.row.type, outcome.kind === 'failed');
    this.#unfinished--;
    isolation.left();
    const plain = outcome.kind === 'completed' && outcome.children.length === 0;
    // Plain completions are settled in the order in which they come; anything else would overtake.
    if (before && !plain && outcome.kind !== 'transacted') await before.left();
    if (before?.lost && outcome.kind !== 'transacted') {
      this.#hand.release(held);
      return false;
    }
    this.#hand.settle(held, route, outcome);
    if (plain || outcome.kind === 'transacted') return true;
    if (outcome.kind !== 'completed') return false;
    // Its children are written on another connection; the completion of the next job would overtake it.
    await held.left();
    return !held.lost;
  }

  #unrun(held: HeldJob, error: unknown): Outcome {
    this.#ground.trouble(`running job ${held.id}`, error);
    const summary = 'The attempt could not be evaluated; see the log of the worker.';
    const errorType = '_OTHER';
    return { kind: 'failed', delayMs: 60_000, error: summary, summary, errorType, handed: false };
  }

  /** Jobs that were not started go back to the queue, unspent. */
  #handBack(jobs: readonly HeldJob[]): void {
    this.#unfinished -= jobs.length;
    for (const held of jobs) this.#hand.release(held);
  }

  handBack(): void {
    this.#handBack(this.#waiting.splice(0).flat());
  }

  /** The keeper could not renew these. */
  lose(jobs: readonly { id: string; generation: number }[]): void {
    for (const held of this.#hand.find(jobs)) this.#hand.lose(held);
    this.#dropLost();
  }

  /** This incarnation is dead, and with it everything it held. */
  loseAll(workerId: string): void {
    for (const held of this.#hand.values()) {
      if (held.workerId === workerId) this.#hand.lose(held);
    }
    this.#dropLost();
  }

  /** A run ends before its first lost job. */
  #dropLost(): void {
    for (const run of this.#waiting) {
      const lost = run.findIndex((job) => job.lost);
      if (lost >= 0) this.#handBack(run.splice(lost));
    }
    this.#waiting = this.#waiting.filter((run) => run.length > 0);
  }

  /** No new claims; waits for running handlers, then aborts and releases what is left. True: all gone. */
  async drain(graceMs: number): Promise<boolean> {
    this.#stopping = true;
    this.#clearTimer();
    if (this.#staleTimer) clearTimeout(this.#staleTimer);
    this.#waiting = [];
    for (const held of this.#hand.values()) if (!held.started) this.#hand.release(held);
    if (await this.#emptyWithin(graceMs)) return true;
    const reason = new HoldfastError(
      'STOPPED',
      'The worker is stopping and its grace period is over; the job was handed back.',
    );
    for (const held of this.#hand.values()) {
      if (held.lost) continue;
      held.abort(reason);
      held.settling = false;
      this.#hand.release(held);
      held.lost = true;
    }
    return this.#emptyWithin(900);
  }

  get #empty(): boolean {
    return this.#hand.size === 0 && !this.#claiming && !this.#claimingBeside;
  }

  #checkEmpty(): void {
    if (this.#empty) this.#onEmpty?.();
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

  /** Nothing to read now. */
  #rest(now: number): void {
    const idleMs = this.#sources.idleMs(now);
    const calm = idleMs >= CALM_MS && !this.#asleep;
    if (calm && this.#ground.wakeups.maySleep(this.queue)) void this.#fallAsleep();
    if (idleMs < Number.POSITIVE_INFINITY) this.#setTimer(idleMs * (1.125 + Math.random() * 0.125));
  }

  /** From now on producers tell; what came before they knew is looked for once more. */
  async #fallAsleep(): Promise<void> {
    this.#asleep = true;
    if (!(await this.#ground.wakeups.sleep(this.queue))) return this.risen();
    if (!this.#asleep) return;
    this.#sources.asleep = true;
    this.hint(null);
  }

  /** Nobody tells of new jobs any more; they have to be looked for. */
  risen(): void {
    this.#asleep = false;
    this.#sources.asleep = false;
  }

  /** Too busy to be told of every job. */
  #rise(): void {
    if (!this.#asleep) return;
    this.risen();
    this.#ground.wakeups.rise(this.queue);
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

/** Neighbours of one key form a run; the claim returns the jobs of a key together, in its order. */
function runsOf(jobs: readonly HeldJob[]): HeldJob[][] {
  const runs: HeldJob[][] = [];
  for (const job of jobs) {
    const run = runs.at(-1);
    if (run?.[0]?.row.partitionKey === job.row.partitionKey) run.push(job);
    else runs.push([job]);
  }
  return runs;
}
