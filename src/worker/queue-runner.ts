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
import type { Executor } from '../postgres/queryable.js';
import { Ahead } from './ahead.js';
import { Backoff } from './backoff.js';
import type { Ended } from './events.js';
import { HeldJob } from './held.js';
import { InHand, type InHandGround } from './in-hand.js';
import type { Isolation, Suspect } from './isolation.js';
import type { Settings } from './options.js';
import { PutOff } from './put-off.js';
import { Rest } from './rest.js';
import type { Route } from './run.js';
import { Runs } from './runs.js';
import { type Assignment, type ClaimedHere, type ClaimTerms, Sources } from './sources.js';
import { suspectOf } from './suspects.js';
import type { Wakeups } from './wakeups.js';

/** What is read within this time is not worth a look of its own. */
const SOON_MS = 15;

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
  readonly #rest: Rest;
  readonly #putOff: PutOff;
  readonly #backoff = new Backoff();
  readonly #ahead: Ahead;
  readonly #runs: Runs;
  #claiming = false;
  #claimingBeside = false;
  /** A claim is about to be sent, and handlers start after it. */
  #asking = false;
  /** The last claim of ordered jobs brought much of what it asked for: there are more. */
  #plenty = false;
  /** Buckets with keys that became free since then, and were left to their turn. */
  readonly #passed = new Set<number>();
  #onHold = false;
  #stopping = false;
  #hinted = false;
  #onEmpty: (() => void) | null = null;

  constructor(queue: string, ground: RunnerGround) {
    this.queue = queue;
    this.#ground = ground;
    this.#sources = new Sources(ground.settings.pollMs);
    this.#rest = new Rest({
      queue,
      wakeups: ground.wakeups,
      sources: this.#sources,
      look: () => this.pump(),
      lookEverywhere: () => this.hint(null),
    });
    this.#putOff = new PutOff(this.#sources, () => {
      // While there is something else of its kind to read, what is due waits for the end of that.
      if (this.#rest.waits && !this.#backoff.failing) this.#look();
    });
    this.#ahead = new Ahead(ground.settings.concurrency, ground.settings.prefetch);
    this.#hand = new InHand(queue, ground, {
      changed: () => {
        this.#checkEmpty();
        this.pump();
      },
      putOff: (held, delayMs) => this.#putOff.add(held, delayMs),
    });
    this.#runs = new Runs({
      ...ground,
      ahead: this.#ahead,
      hand: this.#hand,
      changed: () => this.pump(),
      ended: (last) => this.#ended(last),
    });
  }

  held(): Iterable<HeldJob> {
    return this.#hand.values();
  }

  get size(): number {
    return this.#hand.size;
  }

  get running(): number {
    return this.#runs.running;
  }

  get buckets(): number {
    return this.#sources.buckets;
  }

  /** Which part of the queue is this worker's now. */
  assign(assignment: Assignment): void {
    this.#sources.assign(assignment);
    this.#sources.asleep = this.#rest.asleep;
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

  /** Nobody tells of new jobs any more; they have to be looked for. */
  risen(): void {
    this.#rest.risen();
  }

  #look(): void {
    this.#rest.interrupt();
    this.pump();
  }

  /** Starts what waits and claims what is wanted. */
  pump(): void {
    if (this.#asking) return;
    // Handlers that end at once keep the process busy until all that wait have run. So that the database
    // is not idle meanwhile, the next jobs are asked for before; a statement is sent in the next tick.
    if (this.#runs.waiting > this.#ground.settings.concurrency && this.#claimAhead()) {
      this.#asking = true;
      process.nextTick(() => {
        this.#asking = false;
        this.pump();
      });
      return;
    }
    this.#runs.start();
    this.#claimAhead();
  }

  /** True when a claim was begun. */
  #claimAhead(): boolean {
    const { settings, isolation } = this.#ground;
    if (this.#stopping || this.#onHold || isolation.holds) return false;
    const free = !this.#claiming && !this.#rest.waits;
    const freeBeside = !this.#claimingBeside && this.#sources.hasLine;
    if (!free && !freeBeside) return false;
    const target = settings.concurrency + this.#ahead.jobs;
    // Unsettled jobs are held too: when the database is slow to settle, claiming waits for it.
    if (this.#hand.size >= 2 * target + settings.batchSize) {
      this.#ground.settler.flush();
      return false;
    }
    const { running, waiting, unfinished } = this.#runs;
    const idle = settings.concurrency - running - waiting;
    // An idle handler claims at once; while all are busy, half of what is wanted ahead is waited for.
    if (idle <= 0 && unfinished > target / 2) return false;
    const limit = Math.min(settings.batchSize, Math.max(idle, target - unfinished));
    if (free) void this.#claim(limit);
    if (freeBeside) void this.#claimBeside(limit);
    // Both say nothing when there is nothing to read now.
    return (free && this.#claiming) || (freeBeside && this.#claimingBeside);
  }

  async #claim(limit: number): Promise<void> {
    const from = performance.now();
    const terms = this.#terms(limit);
    this.#putOff.hint(from);
    const next = () => this.#sources.claim(terms);
    // What it had to read may turn out to be nothing of its own; then what is due comes after all.
    const claiming = next() ?? (this.#putOff.hint(from) ? next() : null);
    if (!claiming) return this.#rest.begin(from);
    this.#claiming = true;
    const hinted = this.#hinted;
    this.#hinted = false;
    try {
      const found = await this.#received(claiming, terms, from);
      if (hinted && found === 0) this.#ground.hintMissed(this.queue);
      this.#backoff.reset();
      this.#ground.wakeups.found(this.queue, found);
      if (found >= limit) this.#rest.rise();
    } catch (error) {
      this.#ground.trouble(`claiming from ${this.queue}`, error);
      this.#rest.until(this.#backoff.nextMs());
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
    if (ordered) this.#sawOrdered(jobs.length, terms.limit);
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
      trusted: this.#runs.trusted,
    };
  }

  #receive(jobs: HeldJob[], ordered: boolean): void {
    this.#hand.take(jobs);
    this.#runs.expect(jobs.length);
    const suspects: Suspect[] = [];
    for (const job of jobs) {
      job.inLine = ordered;
      this.#ahead.sawPayload(job.row.payload.length);
    }
    for (const run of ordered ? runsOf(jobs) : jobs.map((job) => [job])) {
      // Claimed before a suspect was found elsewhere in this process: not beside it.
      const wanted = !this.#stopping && !this.#ground.isolation.holds;
      const suspect = run.findIndex(hasCrashed);
      const rest = suspect < 0 ? [] : run.splice(suspect);
      if (suspect === 0 && !this.#stopping) suspects.push(this.#suspect(rest.shift() as HeldJob));
      if (run.length > 0 && wanted) this.#runs.add(run);
      else this.#runs.handBack(run);
      this.#runs.handBack(rest);
    }
    if (suspects.length > 0) this.#ground.isolation.add(suspects);
  }

  #suspect(held: HeldJob): Suspect {
    const { engine, context, trouble } = this.#ground;
    const ground = { engine, names: context.names, trouble, hand: this.#hand, runs: this.#runs };
    return suspectOf(ground, held);
  }

  /** What stands behind a run can start when the last of it is settled, and nobody tells of that. */
  #ended(last: HeldJob): void {
    if (this.#goesRound && this.#runs.waiting > 0) return;
    void last.left().then(() => {
      if (!last.how || !FREES.includes(last.how)) return;
      const { partitionBucket } = last.row;
      if (this.#goesRound) this.#passed.add(partitionBucket);
      else this.#putOff.freed(partitionBucket);
    });
  }

  /** There are plenty of ordered jobs, and they are read soon: a key that is free takes its turn with the others. */
  get #goesRound(): boolean {
    if (!this.#plenty || this.#rest.asleep) return false;
    return this.#sources.idleMs(performance.now(), true) <= SOON_MS;
  }

  #sawOrdered(found: number, limit: number): void {
    this.#plenty = found * 2 >= limit;
    // When that is over, those are looked for that were free too late for the claim which said so.
    if (!this.#goesRound) for (const bucket of this.#passed) this.#putOff.freed(bucket);
    this.#passed.clear();
  }

  handBack(): void {
    this.#runs.handBackWaiting();
  }

  /** The keeper could not renew these. */
  lose(jobs: readonly { id: string; generation: number }[]): void {
    for (const held of this.#hand.find(jobs)) this.#hand.lose(held);
    this.#runs.dropLost();
  }

  /** This incarnation is dead, and with it everything it held. */
  loseAll(workerId: string): void {
    for (const held of this.#hand.values()) {
      if (held.workerId === workerId) this.#hand.lose(held);
    }
    this.#runs.dropLost();
  }

  /** No new claims; waits for running handlers, then aborts and releases what is left. True: all gone. */
  async drain(graceMs: number): Promise<boolean> {
    this.#stopping = true;
    this.#rest.end();
    this.#putOff.end();
    this.#ground.settler.hurry();
    this.#runs.stop();
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
}

/** So it leaves its key to the next. */
const FREES: readonly Ended[] = ['completed', 'buried', 'cancelled'];

const hasCrashed = ({ row }: HeldJob) => row.crashes > 0;

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
