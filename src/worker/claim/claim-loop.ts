/**
 * The claim loop of one queue. One claim is in flight at a time.
 *
 * A free handler claims at once; while all are busy, the next jobs are claimed a little ahead (prefetch.ts). When to
 * claim is decided in claim-schedule.ts, what a claim reads in claim-reader.ts. Hints that come in quick succession
 * share a claim.
 */
import type { Ordering } from '../../job/order.js';
import type { LeasedJob } from '../run/leased-job.js';
import type { Timer } from '../time.js';
import { ClaimReader, type ClaimReaderDeps } from './claim-reader.js';
import { ClaimSchedule } from './claim-schedule.js';

/** How producers are asked for hints; see wakeups.ts. */
export interface Hints {
  listening(): boolean;
  getsHints(queue: string): boolean;
  want(queue: string, wanted: boolean): void;
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

export class ClaimLoop {
  readonly #deps: ClaimLoopDeps;
  readonly #reader: ClaimReader;
  readonly #schedule: ClaimSchedule;
  #claiming = false;
  #stopped = false;
  #timer: Timer | null = null;
  #timerAt = Number.POSITIVE_INFINITY;

  constructor(deps: ClaimLoopDeps) {
    this.#deps = deps;
    this.#reader = new ClaimReader(deps);
    this.#schedule = new ClaimSchedule(deps.settings.pollMs, deps.time);
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

  /** Jobs were written that are due from this time on, in these buckets if that is known. */
  hint(since: Date | null, buckets: readonly number[] | null): void {
    const inMs = this.#reader.msUntil(since);
    if (inMs > 0) {
      // Hints carry tenths of a second, rounded down: the claim at that time says how long it really is.
      this.dueIn(inMs, buckets);
      return;
    }
    this.#reader.hint(since, buckets);
    // The buckets of a queue that is read by key have an owner, who answers first.
    if (this.#reader.keyed || since === null) this.#schedule.hint();
    else this.#schedule.sharedHint();
    this.pump();
  }

  /** Hints arrive from now on; read what was written just before, and ask when the next job is due. */
  listening(): void {
    if (this.#reader.keyed) this.#reader.hint(null, null);
    this.#schedule.hint(true);
    this.pump();
  }

  /** A job becomes due after this time. */
  dueIn(ms: number, buckets: readonly number[] | null): void {
    const at = this.#deps.time.now() + Math.max(0, ms) + 1;
    if (this.#reader.keyed) this.#reader.later(buckets, at);
    else this.#schedule.due(at);
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
    this.hint(null, null);
  }

  /** Read as soon as there is room. */
  wake(): void {
    this.#schedule.hint();
    this.pump();
  }

  /** Claims if there is room and something to read; otherwise sees to it that it is called again. */
  pump(): void {
    if (this.#claiming || this.#stopped || !this.#deps.mayClaim()) return;
    const limit = this.#deps.room();
    if (limit <= 0) return;
    const now = this.#deps.time.now();
    const at = this.#schedule.nextAt(now, this.#reader.readAt(now), this.#deps.free());
    if (at > now) this.#wait(at, now);
    else void this.#claim(limit, now);
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
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
    const { queue, wakeups, recordRound, reportError, ended } = this.#deps;
    this.#claiming = true;
    try {
      const ask = this.#schedule.begin(now);
      const { jobs, waitedMs, news } = await this.#reader.read(limit, ask);
      if (news) {
        this.#schedule.record(news);
        recordRound(news.maintainedMs);
      }
      const wanted = this.#schedule.succeeded(jobs, waitedMs, limit, wakeups.getsHints(queue));
      if (wanted !== null) wakeups.want(queue, wanted);
    } catch (error) {
      reportError(`claiming from ${queue}`, error);
      this.#schedule.failed();
    } finally {
      this.#claiming = false;
    }
    ended();
    this.pump();
  }
}
