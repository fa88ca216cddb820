/**
 * Jobs that wait because more urgent ones keep coming.
 *
 * A claim that comes back full has not read the priorities after its last job. While that is so, about once a second
 * (more rarely where it is dear, look-timer.ts) a worker first reads those for jobs that have been due for longer than
 * the queue allows. They get a quarter of what it takes, so that they do not starve the urgent ones either; and as long
 * as there are more of them, they get it of every claim. Priorities take turns in coming first. A worker whose claims
 * come to the end of the queue sends none of this: it has read everything.
 */
import type { DueCursor } from '../../claim/claim.js';
import type { ClaimedJob } from '../../claim/taking.js';
import { fromFront, PRIORITIES } from './due-reader.js';
import { LookTimer } from './look-timer.js';

/** Of so many jobs one may be an aged one. */
const SHARE = 4;

export class AgedReader {
  readonly #look = new LookTimer();
  /** By priority, the last aged job that was taken since the last look. */
  readonly #cursors = new Map<number, DueCursor>();
  /** Priorities that the last claim did not come to. */
  #unread: readonly number[] = [];
  /** So many other jobs come first. */
  #owed = 0;
  /** The last share was used up. */
  #more = false;
  #looking = false;
  #turn = 0;

  /** What an aged claim asks for; null: nothing is to be read now. `room`: for how many jobs there is room in all. */
  take(room: number, now: number) {
    const { length } = this.#unread;
    if (length === 0 || this.#owed > 0) return null;
    this.#looking = this.#look.due(now);
    if (!this.#looking && !this.#more) return null;
    if (this.#looking) this.#cursors.clear();
    const first = this.#turn++ % length;
    const order = [...this.#unread.slice(first), ...this.#unread.slice(0, first)];
    return {
      cursors: order.map((priority) => this.#cursors.get(priority) ?? fromFront(priority)),
      limit: Math.max(1, Math.floor(room / SHARE)),
    };
  }

  record(jobs: readonly ClaimedJob[], limit: number, now: number, tookMs: number): void {
    if (this.#looking) this.#look.record(now, tookMs);
    this.#more = jobs.length >= limit;
    this.#owed = jobs.length * (SHARE - 1);
    for (const { priority, cursorAt, cursorPosition } of jobs)
      this.#cursors.set(priority, { priority, afterAt: cursorAt, afterPosition: cursorPosition });
  }

  /** A claim of all priorities, in their order, brought these. */
  recordOrdinary(jobs: readonly ClaimedJob[], limit: number): void {
    const last = jobs.length < limit ? Number.POSITIVE_INFINITY : (jobs.at(-1)?.priority ?? 0);
    // The last one first.
    this.#unread = PRIORITIES.filter((priority) => priority > last).reverse();
    this.#owed = Math.max(0, this.#owed - jobs.length);
  }
}
