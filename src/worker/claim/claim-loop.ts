/**
 * The loop of one queue: when to claim, and how much.
 *
 * One claim is in flight at a time. A free handler claims at once; while all are busy, the next jobs are
 * claimed a little ahead (prefetch.ts). After a claim that took all it asked for there is more, and the next
 * one follows as soon as there is room. After one that came to the end, the loop waits: for a hint of a
 * producer, for the time at which the next job is due, or for the poll. Hints that come in quick succession
 * share a claim.
 */
import { claim, type QueueNews } from '../../claim/claim.js';
import { claimKeyed, type WalkStop } from '../../claim/claim-keyed.js';
import { claimSuspects } from '../../claim/claim-suspects.js';
import type { ClaimedJob, ClaimTerms } from '../../claim/taking.js';
import type { Ordering } from '../../job/order.js';
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { releaseClaims } from '../../settle/release.js';
import { Backoff } from '../backoff.js';
import type { Settings } from '../options.js';
import { jittered, type Time, type Timer } from '../time.js';
import { ClaimLedger } from './claim-ledger.js';
import { DueReader, LAG_MS } from './due-reader.js';
import { KeyReader } from './key-reader.js';

/** Claims that bring little follow each other no faster than this. */
const PACE_MS = 4;
/** How often a claim asks for more than jobs. */
const ASK_MS = 500;
/** Without notifications, a claim that found something is followed by another after this time. */
const SOON_MS = 20;
/** A worker that finds no end of jobs for so long needs no hints. */
const SATURATED_MS = 250;
/** Hints reach so far ahead. Polls may be more frequent than looks, so they alone do not find what is due. */
const NEAR_MS = 5_000;
/** A worker that is told of new jobs polls a little more rarely. */
const LISTENING_POLL = 1.25;

/** What a claim brought into this process. */
export interface ClaimBatch {
  readonly jobs: readonly ClaimedJob[];
  readonly workerId: string;
  readonly number: number;
  /** The database's time of the claim. */
  readonly clock: number;
  /** When it was sent. */
  readonly sentAt: number;
  /** Jobs of one key stand together and run one after the other; at most so many of a key were asked for. */
  readonly run: number | null;
  /** Where a walk ended before the end: it may have cut the run of this key short. */
  readonly stop: WalkStop | null;
  /** A suspect that must be the only job of its process. */
  readonly alone: boolean;
}

/** How producers are asked for hints; see wakeups.ts. */
export interface Hints {
  listening(): boolean;
  hears(queue: string): boolean;
  want(queue: string, wanted: boolean): void;
}

export interface ClaimLoopDeps {
  readonly queue: string;
  readonly names: Names;
  readonly engine: Executor;
  readonly settings: Settings;
  readonly versions: Readonly<Record<string, number>>;
  readonly wakeups: Hints;
  readonly time: Time;
  readonly workerId: () => string;
  /** False while this worker may have been declared dead, is held, or stops. */
  readonly mayClaim: () => boolean;
  /** How many jobs there is room for; 0: none, for now. */
  readonly room: () => number;
  /** How many jobs of one key to take in a row. */
  readonly run: () => number;
  /** From when on suspects may be claimed. */
  readonly suspectsAt: () => number;
  readonly receive: (batch: ClaimBatch) => void;
  /** A claim is over, whatever it brought. */
  readonly ended: () => void;
  readonly sawEpoch: (epoch: number) => void;
  readonly sawMaintained: (agoMs: number | null) => void;
  readonly took: (ms: number) => void;
  readonly reportError: (what: string, error: unknown) => void;
}

export class ClaimLoop {
  readonly ledger = new ClaimLedger();
  readonly #deps: ClaimLoopDeps;
  readonly #due = new DueReader();
  readonly #keys: KeyReader;
  readonly #backoff: Backoff;
  #ordering: Ordering = 'none';
  #claiming = false;
  #stopped = false;
  /** When to read although nobody says anything; the last claim came to the end. */
  #readAt = Number.NEGATIVE_INFINITY;
  #hinted = false;
  #sentAt = Number.NEGATIVE_INFINITY;
  #foundLittle = false;
  #idleMs = SOON_MS;
  #askAt = Number.NEGATIVE_INFINITY;
  #dueAt = Number.POSITIVE_INFINITY;
  #fullSince = Number.POSITIVE_INFINITY;
  #suspects = false;
  /** What the database's clock is ahead of this process' monotonic one. */
  #clockOffset: number | null = null;
  #timer: Timer | null = null;
  #timerAt = Number.POSITIVE_INFINITY;

  constructor(deps: ClaimLoopDeps) {
    this.#deps = deps;
    this.#keys = new KeyReader(deps.settings.pollMs, deps.time.random);
    this.#backoff = new Backoff(deps.time.random);
  }

  get claiming(): boolean {
    return this.#claiming;
  }

  get keyed(): boolean {
    return this.#ordering !== 'none';
  }

  /** Of a queue that is read by key: how many buckets the ring prefers this worker for. */
  get owned(): number {
    return this.keyed ? this.#keys.owned : 0;
  }

  /** How the queue is read, and which buckets this worker reads first. */
  assign(ordering: Ordering, buckets: readonly number[]): void {
    this.#ordering = ordering;
    this.#keys.own(buckets);
    this.wake();
  }

  /** Jobs were written that are due from this time on, in these buckets if that is known. */
  hint(since: Date | null, buckets: readonly number[] | null): void {
    const now = this.#deps.time.now();
    const offset = this.#clockOffset;
    const inMs = since === null || offset === null ? 0 : since.getTime() - (now + offset);
    if (inMs > 0) {
      // Hints carry tenths of a second, rounded down: the claim at that time says how long it really is.
      this.dueIn(inMs, buckets);
      return;
    }
    if (this.keyed) this.#keys.hint(buckets, now);
    else this.#due.hint(since, now);
    this.wake();
  }

  /** Hints are heard from now on; what came just before was not told of. */
  listening(): void {
    if (this.keyed) this.#keys.hint(null, this.#deps.time.now());
    this.wake();
  }

  /** What is due within this time is remembered; the next polls find the rest. */
  get #nearMs(): number {
    return Math.max(NEAR_MS, 3 * this.#deps.settings.pollMs);
  }

  /** A job becomes due after this time; the poll finds what is further away. */
  dueIn(ms: number, buckets: readonly number[] | null): void {
    if (ms > this.#nearMs) return;
    const due = () => {
      if (this.keyed) this.#keys.hint(buckets, this.#deps.time.now());
      this.#askAt = Number.NEGATIVE_INFINITY;
      this.wake();
    };
    this.#deps.time.after(Math.max(0, ms) + 1, due, true);
  }

  /** The last job of a run has left, and its key is free. */
  freed(bucket: number, claimedAt: number, more: boolean): void {
    const blind = !this.#deps.wakeups.listening();
    this.#keys.freed(bucket, claimedAt, more || blind);
    if (this.#keys.readAt(0) === 0) this.wake();
  }

  /** This job was released, and waits again where this worker has read already. */
  returned(job: ClaimedJob): void {
    if (this.keyed) return;
    this.#due.returned(job);
    this.wake();
  }

  /** A group of suspects has left; perhaps there are more. */
  suspectsLeft(): void {
    this.#suspects = true;
    this.wake();
  }

  /** Read as soon as there is room. */
  wake(): void {
    this.#hinted = true;
    this.pump();
  }

  /** Claims if there is room and something to read; otherwise sees to it that it is called again. */
  pump(): void {
    if (this.#claiming || this.#stopped || !this.#deps.mayClaim()) return;
    const limit = this.#deps.room();
    if (limit <= 0) return;
    const now = this.#deps.time.now();
    const at = this.#nextAt(now);
    if (at > now) this.#wait(at, now);
    else void this.#claim(limit, now);
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
  }

  /** Hints do not cut a backoff short, nor a claim that has just found little. */
  #nextAt(now: number): number {
    if (this.#backoff.failing) return this.#readAt;
    const soonest = Math.min(this.#readAt, this.#dueAt, this.#keysAt(now), this.#suspectsAt());
    const wantedAt = this.#hinted ? now : Math.max(now, soonest);
    return Math.max(wantedAt, this.#foundLittle ? this.#sentAt + PACE_MS : wantedAt);
  }

  #keysAt(now: number): number {
    return this.keyed ? this.#keys.readAt(now) : Number.POSITIVE_INFINITY;
  }

  #suspectsAt(): number {
    return this.#suspects ? this.#deps.suspectsAt() : Number.POSITIVE_INFINITY;
  }

  #wait(at: number, now: number): void {
    if (this.#timer && this.#timerAt <= at && this.#timerAt > now) return;
    this.#timer?.cancel();
    this.#timerAt = at;
    this.#timer = this.#deps.time.after(Math.max(0, at - now), () => {
      this.#timer = null;
      this.pump();
    });
  }

  async #claim(limit: number, now: number): Promise<void> {
    const { reportError, queue } = this.#deps;
    this.#claiming = true;
    this.#hinted = false;
    this.#sentAt = now;
    if (now >= this.#dueAt) {
      // This claim takes what is due now, and says when the next one is.
      this.#dueAt = Number.POSITIVE_INFINITY;
      this.#askAt = Number.NEGATIVE_INFINITY;
    }
    try {
      await this.#releaseUnknown();
      const found = await this.#read(limit, now);
      this.#backoff.reset();
      this.#plan(found, limit);
    } catch (error) {
      reportError(`claiming from ${queue}`, error);
      this.#readAt = this.#deps.time.now() + this.#backoff.nextMs();
    } finally {
      this.#claiming = false;
    }
    this.#deps.ended();
    this.pump();
  }

  /** A claim whose answer was lost may hold jobs that nobody here knows of. */
  async #releaseUnknown(): Promise<void> {
    const { unknown } = this.ledger;
    if (unknown.length === 0) return;
    const numbers = [...unknown];
    const { engine, names, workerId } = this.#deps;
    await releaseClaims(engine, names, workerId(), numbers);
    this.ledger.released(numbers);
  }

  /** How many jobs were found; the limit itself means that there are more. */
  async #read(limit: number, now: number): Promise<number> {
    if (now >= this.#suspectsAt()) {
      this.#suspects = false;
      const { alone } = await this.#sent(limit, (terms) =>
        claimSuspects(this.#deps.engine, this.#deps.names, terms).then((claimed) => ({
          ...claimed,
          run: null,
          stop: null,
        })),
      );
      // Nothing may run beside it; the rest is read when it has left.
      if (alone) return limit;
    }
    return this.keyed ? this.#readKeys(limit, now) : this.#readDue(limit, now);
  }

  async #readDue(limit: number, now: number): Promise<number> {
    const { engine, names } = this.#deps;
    const ask = now >= this.#askAt;
    const cursors = this.#due.take(now);
    const { jobs, news } = await this.#sent(limit, async (terms) => {
      const claimed = await claim(engine, names, { ...terms, cursors, lagMs: LAG_MS, ask });
      const end = this.#deps.time.now();
      this.#due.record(claimed, limit, end, end - now);
      return { ...claimed, run: null, stop: null, alone: false };
    });
    this.#hear(news);
    return jobs.length;
  }

  async #readKeys(limit: number, now: number): Promise<number> {
    const { engine, names } = this.#deps;
    const ask = now >= this.#askAt;
    const stretches = this.#keys.take(now);
    if (stretches.length === 0) return 0;
    const run = Math.min(limit, this.#deps.run());
    try {
      const { jobs, news, wanted } = await this.#sent(limit, async (terms) => {
        const claimed = await claimKeyed(engine, names, {
          ...{ ...terms, stretches, run, ask },
          soonMs: this.#nearMs,
        });
        const end = this.#deps.time.now();
        this.#keys.record(claimed, limit, end, end - now);
        // Heads that wait for their time are read again then.
        for (const { inMs, bucket } of claimed.due) this.dueIn(inMs, [bucket]);
        return { ...claimed, run, alone: false };
      });
      this.#hear(news);
      return Math.max(jobs.length, Math.min(wanted, limit - 1));
    } catch (error) {
      this.#keys.failed();
      throw error;
    }
  }

  /** Sends a claim and hands on what it brought. */
  async #sent<C extends Omit<ClaimBatch, 'number' | 'workerId' | 'sentAt'> & { epoch: number }>(
    limit: number,
    send: (terms: ClaimTerms) => Promise<C>,
  ): Promise<C> {
    const { settings, versions, sawEpoch, receive, took } = this.#deps;
    const workerId = this.#deps.workerId();
    const sentAt = this.#deps.time.now();
    const { number, finished } = this.ledger.begin();
    const terms = { workerId, leaseMs: settings.leaseMs, number, finished, limit, versions };
    let claimed: C;
    try {
      claimed = await send(terms);
    } catch (error) {
      this.ledger.failed(number, finished);
      throw error;
    }
    this.ledger.took(number, claimed.jobs.length);
    const now = this.#deps.time.now();
    this.#clockOffset = claimed.clock - (sentAt + now) / 2;
    took(now - sentAt);
    sawEpoch(claimed.epoch);
    receive({ ...claimed, workerId, number, sentAt });
    return claimed;
  }

  #hear(news: QueueNews | null): void {
    if (!news) return;
    const now = this.#deps.time.now();
    this.#askAt = now + ASK_MS;
    this.#suspects = news.suspects;
    if (news.dueInMs !== null) this.#dueAt = now + news.dueInMs + 1;
    this.#deps.sawMaintained(news.maintainedMs);
  }

  /** When to read next, and whether producers should send hints. */
  #plan(found: number, limit: number): void {
    const { settings, wakeups, queue, time } = this.#deps;
    const now = this.#deps.time.now();
    this.#foundLittle = found * 2 < limit;
    if (found >= limit) {
      this.#readAt = now;
      this.#idleMs = SOON_MS;
      this.#fullSince = Math.min(this.#fullSince, now);
      if (now - this.#fullSince > SATURATED_MS) wakeups.want(queue, false);
      return;
    }
    this.#fullSince = Number.POSITIVE_INFINITY;
    wakeups.want(queue, true);
    if (wakeups.hears(queue)) this.#readAt = now + jittered(settings.pollMs * LISTENING_POLL, time);
    else {
      this.#idleMs = found > 0 ? SOON_MS : Math.min(this.#idleMs * 2, settings.pollMs);
      this.#readAt = now + jittered(Math.min(this.#idleMs, settings.pollMs), time);
    }
  }
}
