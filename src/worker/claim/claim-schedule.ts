/**
 * When the next claim of a queue is due.
 *
 * After a claim that took all it asked for there is more, so the next one follows at once. After one that came to
 * the end, the loop waits for a hint, for the time at which the next job is due, or for the poll. A worker that
 * always finds more jobs than it takes asks producers for no hints. Hints do not cut a backoff short.
 */
import type { QueueNews } from '../../claim/claim.js';
import { Backoff } from '../../postgres/backoff.js';
import { jittered, type Time } from '../time.js';

/** Claims that bring little follow each other no faster than this. */
const PACE_MS = 4;
/** How often a claim asks for more than jobs; and after how long of full claims hints are switched off. */
const NEWS_MS = 500;
/** Without notifications, a claim that found something is followed by another after this time. */
const SOON_MS = 20;
/** A worker that gets hints polls half as often. */
const LISTENING_POLL = 2;

export class ClaimSchedule {
  readonly #pollMs: number;
  readonly #time: Time;
  readonly #backoff: Backoff;
  /** When to claim although there is no hint. */
  #pollAt = Number.NEGATIVE_INFINITY;
  #hinted = false;
  #sentAt = Number.NEGATIVE_INFINITY;
  #foundLittle = false;
  #idleMs = SOON_MS;
  #newsAt = Number.NEGATIVE_INFINITY;
  #dueAt = Number.POSITIVE_INFINITY;
  #fullSince = Number.POSITIVE_INFINITY;

  constructor(pollMs: number, time: Time) {
    this.#pollMs = pollMs;
    this.#time = time;
    this.#backoff = new Backoff(time.random);
  }

  hint(): void {
    this.#hinted = true;
  }

  /** A job has become due: the next claim also asks when the one after it is. */
  jobIsDue(): void {
    this.#newsAt = Number.NEGATIVE_INFINITY;
    this.#hinted = true;
  }

  /** `readerAt`: when the reader itself has something to read. */
  nextAt(now: number, readerAt: number): number {
    if (this.#backoff.failing) return this.#pollAt;
    const soonest = Math.min(this.#pollAt, this.#dueAt, readerAt);
    const wantedAt = this.#hinted ? now : Math.max(now, soonest);
    return this.#foundLittle ? Math.max(wantedAt, this.#sentAt + PACE_MS) : wantedAt;
  }

  /** A claim is sent now. Returns whether it is to ask for news of the queue. */
  begin(now: number): boolean {
    this.#hinted = false;
    this.#sentAt = now;
    if (now >= this.#dueAt) {
      // This claim takes what is due now, and says when the next one is.
      this.#dueAt = Number.POSITIVE_INFINITY;
      this.#newsAt = Number.NEGATIVE_INFINITY;
    }
    return now >= this.#newsAt;
  }

  record({ dueInMs }: QueueNews): void {
    const now = this.#time.now();
    this.#newsAt = now + NEWS_MS;
    if (dueInMs !== null) this.#dueAt = now + dueInMs + 1;
  }

  /** Returns whether producers should send hints; null: as before. */
  succeeded(found: number, limit: number, getsHints: boolean): boolean | null {
    const now = this.#time.now();
    this.#backoff.reset();
    this.#foundLittle = found * 2 < limit;
    if (found >= limit) {
      this.#pollAt = now;
      this.#idleMs = SOON_MS;
      this.#fullSince = Math.min(this.#fullSince, now);
      return now - this.#fullSince > NEWS_MS ? false : null;
    }
    this.#fullSince = Number.POSITIVE_INFINITY;
    this.#idleMs = found > 0 ? SOON_MS : Math.min(this.#idleMs * 2, this.#pollMs);
    const idleMs = getsHints ? this.#pollMs * LISTENING_POLL : Math.min(this.#idleMs, this.#pollMs);
    this.#pollAt = now + jittered(idleMs, this.#time);
    return true;
  }

  failed(): void {
    this.#pollAt = this.#time.now() + this.#backoff.nextMs();
  }
}
