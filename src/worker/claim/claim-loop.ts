/**
 * The claim loop of one queue. One claim is in flight at a time.
 *
 * A free handler claims; while all are busy, the next jobs are claimed a little ahead (prefetch.ts). When to
 * claim is decided in claim-schedule.ts, what a claim reads in claim-reader.ts. Hints that come in quick succession
 * share a claim.
 */

import type { Hint } from '../../claim/source.js';
import type { QueueNews } from '../../claim/take.js';
import type { LimitedTypes } from '../../fleet/registry.js';
import { UNIT_MS } from '../../job/duration.js';
import type { Ordering } from '../../job/order.js';
import type { LeasedJob } from '../run/leased-job.js';
import { CHECK_MS, type Timer } from '../time.js';
import { ClaimReader, type ClaimReaderDeps } from './claim-reader.js';
import { ClaimSchedule } from './claim-schedule.js';

/** How producers are asked for hints; see wakeups.ts. */
export interface Hints {
  listening(): boolean;
  getsHints(queue: string): boolean;
  isQuiet(queue: string): boolean;
  want(queue: string, wanted: boolean | null): void;
}

export interface ClaimLoopDeps extends ClaimReaderDeps {
  readonly queue: string;
  readonly wakeups: Hints;
  /** False while this worker may have been declared dead, is held, or stops. */
  readonly mayClaim: () => boolean;
  /** How many jobs there is room for; 0: none, for now. */
  readonly room: () => number;
  /** A handler waits for a job. */
  readonly free: () => boolean;
  /** A claim is over, whatever it brought. */
  readonly ended: () => void;
  readonly recordRound: (agoMs: number | null) => void;
  readonly reportError: (what: string, error: unknown) => void;
}

/** A queue in which nothing was found for so long needs no locks of its own. */
const QUIET_MS = 30 * CHECK_MS;

export class ClaimLoop {
  readonly #deps: ClaimLoopDeps;
  readonly #reader: ClaimReader;
  readonly #schedule: ClaimSchedule;
  #claiming = false;
  #stopped = false;
  #timer: Timer | null = null;
  #timerAt = Number.POSITIVE_INFINITY;
  /** When a claim last found a job. */
  #busyAt = Number.NEGATIVE_INFINITY;

  constructor(deps: ClaimLoopDeps) {
    this.#deps = deps;
    const schedule = new ClaimSchedule(deps.settings.pollMs, deps.time);
    const receive: ClaimLoopDeps['receive'] = (batch) => {
      schedule.answered();
      deps.receive(batch);
    };
    this.#schedule = schedule;
    this.#reader = new ClaimReader({ ...deps, receive });
  }

  get claiming(): boolean {
    return this.#claiming;
  }

  get owned(): number {
    return this.#reader.owned;
  }

  /** How the queue is read, and which buckets this worker reads first. */
  assign(ordering: Ordering, buckets: readonly number[]): void {
    this.#reader.assign(ordering, buckets);
    this.wake();
  }

  /** Which types of the queue are limited. */
  limit(limited: LimitedTypes): void {
    if (this.#reader.limit(limited)) this.wake();
  }

  isLimited(type: string): boolean {
    return this.#reader.isLimited(type);
  }

  /** It waits for a hint, and leaves its polls to others. */
  get idle(): boolean {
    return this.#schedule.idle && !this.#claiming;
  }

  /** What was found of an idle queue. */
  record(news: QueueNews): void {
    this.#reader.record(news);
    if (this.#deps.time.now() - this.#busyAt > QUIET_MS)
      this.#deps.wakeups.want(this.#deps.queue, null);
    if (news.suspects || (news.dueInMs ?? Number.POSITIVE_INFINITY) <= 0) this.wake();
    else if (news.dueInMs !== null) this.dueIn(news.dueInMs, null);
  }

  /** Jobs were written. */
  hint(hint: Hint): void {
    const inMs = this.#reader.msUntil(hint.since);
    if (inMs > 0) {
      // Hints carry tenths of a second, rounded down: the claim at that time says how long it really is.
      this.dueIn(inMs, hint.buckets);
      return;
    }
    this.#reader.hint(hint);
    if (hint.since === null) this.#schedule.hint();
    // The buckets of a queue that is read by key have an owner, who answers first: its reader knows when.
    else if (!this.#reader.keyed) this.#schedule.sharedHint();
    this.pump();
  }

  /** Hints arrive from now on; read what was written just before, and ask when the next job is due. */
  listening(): void {
    this.#reader.later(null, this.#deps.time.now());
    this.#schedule.hint(true);
    this.pump();
  }

  /** A job becomes due after this time. */
  dueIn(ms: number, buckets: readonly number[] | null): void {
    const at = this.#deps.time.now() + Math.max(0, ms) + 1;
    this.#reader.later(buckets, at);
    if (!this.#reader.keyed) this.#schedule.due(at);
    this.pump();
  }

  /** A job has left this worker: its key may be free, or it waits again. */
  left(held: LeasedJob): void {
    const blind = !this.#deps.wakeups.listening();
    if (this.#reader.left(held, blind)) this.wake();
  }

  /** These were claimed too late to be run: nobody here holds them. */
  missed(jobs: readonly LeasedJob[]): void {
    for (const job of jobs) this.#reader.left(job, false);
  }

  /** Under a new registration. */
  restart(): void {
    this.#reader.ledger.reset();
    this.hint({ since: null, buckets: null, types: null });
  }

  /** Read as soon as there is room. */
  wake(): void {
    this.#schedule.hint();
    this.pump();
  }

  /** Claims if there is room and something to read; otherwise sees to it that it is called again. */
  pump(): void {
    if (this.#claiming || this.#stopped || !this.#deps.mayClaim()) return;
    const now = this.#deps.time.now();
    if (this.#reader.mustPublish && !this.#schedule.failing) {
      void this.#exclusively('telling the permits of', () => this.#reader.publish());
      return;
    }
    if (this.#deps.room() <= 0) return;
    const at = this.#schedule.nextAt(
      now,
      this.#reader.readAt(now, this.#schedule.idle),
      this.#deps.free(),
    );
    if (at > now) this.#wait(at, now);
    else
      void this.#exclusively('claiming from', async () => {
        try {
          await this.#read(now);
        } catch (error) {
          this.#schedule.failed();
          throw error;
        }
      });
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
  }

  #wait(at: number, now: number): void {
    if (this.#timer && this.#timerAt <= at && this.#timerAt > now) return;
    this.#timer?.cancel();
    this.#timer = null;
    // Until a hint, or what the polls of idle queues find.
    if (at === Number.POSITIVE_INFINITY) return;
    this.#timerAt = at;
    this.#timer = this.#deps.time.after(Math.min(at - now, UNIT_MS.d), () => {
      this.#timer = null;
      this.pump();
    });
  }

  /** One statement of the queue's claims is under way at a time. */
  async #exclusively(what: string, run: () => Promise<void>): Promise<void> {
    const { queue, reportError, ended } = this.#deps;
    this.#claiming = true;
    try {
      await run();
    } catch (error) {
      reportError(`${what} ${queue}`, error);
    } finally {
      this.#claiming = false;
    }
    ended();
    this.pump();
  }

  async #read(now: number): Promise<void> {
    const { queue, wakeups, recordRound } = this.#deps;
    const limit = this.#deps.room();
    if (limit <= 0) return;
    const ask = this.#schedule.begin(now);
    const found = await this.#reader.read(limit, ask);
    if (found.news) {
      this.#schedule.record(found.news);
      recordRound(found.news.maintainedMs);
    }
    const wanted = this.#schedule.succeeded(found, limit, wakeups.getsHints(queue));
    // A worker that only answers hints of others stays quiet.
    if (wanted !== null && (found.jobs > 0 || !wakeups.isQuiet(queue))) wakeups.want(queue, wanted);
    if (found.jobs > 0) this.#busyAt = this.#deps.time.now();
  }
}
