/**
 * When the next claim of a queue is due. After a claim that took all it asked for, the next one follows at once. After one
 * that came to the end, the loop waits for a hint, for the time at which the next job is due, or for the poll; and where
 * Postgres is slow, at least as long as that claim took. Hints do not cut a backoff short, and a worker that always finds
 * more jobs than it takes asks producers for none.
 *
 * All workers get a producer's hint, and one is enough. So a worker whose answer found nothing answers the next hints later
 * and later, up to a bound. If it then finds a job that was left lying, those that are quicker are busy or gone: it answers
 * at once again. A worker whose handlers are all busy leaves the answer to others.
 */
import { LATEST_MS, laterThan } from '../../claim/pace.js';
import type { Found } from '../../claim/source.js';
import type { QueueNews } from '../../claim/take.js';
import { Backoff } from '../../postgres/connect/backoff.js';
import { CHECK_MS, jittered, PACE_MS, SOON_MS, type Time } from '../time.js';

/** How often a claim asks for more than jobs; and after how long of full claims hints are switched off. */
const NEWS_MS = CHECK_MS / 2;

export class ClaimSchedule {
  readonly #pollMs: number;
  readonly #time: Time;
  readonly #backoff: Backoff;
  /** When to claim although there is no hint; never after a claim that found nothing, if idle-poll.ts has the polls. */
  #pollAt = Number.NEGATIVE_INFINITY;
  #hinted = false;
  #begunAt = Number.NEGATIVE_INFINITY;
  /** When the last answer of the claim came. */
  #answeredAt: number | null = null;
  #restsUntil = Number.NEGATIVE_INFINITY;
  /** When to claim because of a producer's hint. */
  #answerAt = Number.POSITIVE_INFINITY;
  /** The claim in flight answers one. */
  #answering = false;
  #answerMs = 0;
  #idleMs = SOON_MS;
  #newsAt = Number.NEGATIVE_INFINITY;
  /** When the next job is due; and what was said of that since the last claim was sent. */
  #dueAt = Number.POSITIVE_INFINITY;
  #dueSince = Number.POSITIVE_INFINITY;
  #fullSince = Number.POSITIVE_INFINITY;

  constructor(pollMs: number, time: Time) {
    this.#pollMs = pollMs;
    this.#time = time;
    this.#backoff = new Backoff(time.random);
  }

  /** There is something to read here. `ask`: the next claim is to ask for news of the queue. */
  hint(ask = false): void {
    this.#hinted = true;
    if (ask) this.#newsAt = Number.NEGATIVE_INFINITY;
  }

  /** There is something to read, for whoever is the first. */
  sharedHint(): void {
    this.#answerAt = Math.min(this.#answerAt, this.#time.now() + this.#answerMs);
  }

  /** A job becomes due at this time. */
  due(at: number): void {
    this.#dueAt = Math.min(at, this.#dueAt);
    this.#dueSince = Math.min(at, this.#dueSince);
  }

  /** Nothing is read until there is a hint, or idle-poll.ts says so. Not of interest while a claim is under way. */
  get idle(): boolean {
    return this.#pollAt === Number.POSITIVE_INFINITY;
  }

  /** The last claim failed; the next one comes after a pause. */
  get failing(): boolean {
    return this.#backoff.failing;
  }

  /** `readerAt`: when the reader itself has something to read. `free`: a handler waits for a job. */
  nextAt(now: number, readerAt: number, free: boolean): number {
    if (this.#backoff.failing) return this.#pollAt;
    const answerAt = free ? this.#answerAt : Number.POSITIVE_INFINITY;
    const soonest = Math.min(this.#pollAt, this.#dueAt, readerAt, answerAt);
    return Math.max(now, this.#restsUntil, this.#hinted ? now : soonest);
  }

  /** A claim is sent now. Returns whether it is to ask for news of the queue. */
  begin(now: number): boolean {
    this.#begunAt = this.#time.now();
    this.#answeredAt = null;
    this.#hinted = false;
    this.#answering = this.#answerAt < Number.POSITIVE_INFINITY;
    this.#answerAt = Number.POSITIVE_INFINITY;
    this.#dueSince = Number.POSITIVE_INFINITY;
    if (now >= this.#dueAt) {
      // This claim takes what is due now, and says when the next one is.
      this.#dueAt = Number.POSITIVE_INFINITY;
      this.#newsAt = Number.NEGATIVE_INFINITY;
    }
    return now >= this.#newsAt;
  }

  /** The database has answered; handlers start now, and may take their time. */
  answered(): void {
    this.#answeredAt = this.#time.now();
  }

  record({ dueInMs }: QueueNews): void {
    const now = this.#time.now();
    this.#newsAt = now + NEWS_MS;
    const dueAt = dueInMs === null ? Number.POSITIVE_INFINITY : now + dueInMs + 1;
    // The claim may not have seen what was written meanwhile.
    this.#dueAt = Math.min(dueAt, this.#dueSince);
  }

  /** Returns whether producers should send hints; null: as before. */
  succeeded(
    { jobs: found, waitedMs, goesOn }: Omit<Found, 'news'>,
    limit: number,
    getsHints: boolean,
  ): boolean | null {
    const now = this.#time.now();
    this.#backoff.reset();
    // A job that was due for longer was left lying.
    if (found > 0 && waitedMs >= Math.min(2 * PACE_MS, this.#answerMs)) this.#answerMs = 0;
    if (found === 0 && this.#answering) this.#answerMs = laterThan(this.#answerMs);
    if (found >= limit) {
      this.#pollAt = now;
      this.#idleMs = SOON_MS;
      this.#fullSince = Math.min(this.#fullSince, now);
      return now - this.#fullSince > NEWS_MS ? false : null;
    }
    this.#fullSince = Number.POSITIVE_INFINITY;
    const tookMs = (this.#answeredAt ?? now) - this.#begunAt;
    if (!goesOn && tookMs > PACE_MS) this.#restsUntil = now + Math.min(tookMs, LATEST_MS);
    // Without notifications, a claim that found something is soon followed by another.
    this.#idleMs = found > 0 ? SOON_MS : Math.min(this.#idleMs * 2, this.#pollMs);
    const idleMs = getsHints ? this.#pollMs : this.#idleMs;
    if (goesOn) this.#pollAt = now;
    else if (found === 0 && idleMs >= this.#pollMs) this.#pollAt = Number.POSITIVE_INFINITY;
    else this.#pollAt = now + jittered(idleMs, this.#time);
    return true;
  }

  failed(): void {
    this.#pollAt = this.#time.now() + this.#backoff.nextMs();
  }
}
