/**
 * Where the next claim of a queue that is read by time begins: a cursor for each priority.
 *
 * After a claim that took all it was asked for, the cursor stands at its last job. After one that came to the
 * end, it stands a little behind the clock, so that rows which commit a little late are still ahead of it.
 * What lies further behind is found by looks from the front (look-timer.ts).
 */
import type { ClaimedByTime, DueCursor } from '../../claim/claim.js';
import type { DuePlace } from '../../claim/claim-limited.js';
import type { ClaimedJob } from '../../claim/taking.js';
import { LookTimer } from './look-timer.js';

/** Enqueues that commit within this time are never behind the cursor. */
export const LAG_MS = 250;
export const PRIORITIES = [1, 2, 3, 4];

export const fromFront = (priority: number): DueCursor => ({
  ...{ priority, afterAt: '-infinity', afterPosition: 0 },
});

/** Timestamps sort as text, and -infinity before all of them. */
const isBefore = (a: DueCursor, b: DueCursor) =>
  a.afterAt < b.afterAt || (a.afterAt === b.afterAt && a.afterPosition < b.afterPosition);

export class DueReader {
  readonly #look = new LookTimer();
  #cursors = PRIORITIES.map(fromFront);
  #looking = false;
  /** By priority, how far back a hint has asked for since the claim in flight was sent. */
  readonly #rewinds = new Map<number, DueCursor>();

  /** From where the next claim reads. */
  take(now: number): readonly DueCursor[] {
    this.#looking = this.#look.due(now);
    if (this.#looking) this.#cursors = PRIORITIES.map(fromFront);
    this.#rewinds.clear();
    return this.#cursors;
  }

  record(
    claimed: Pick<ClaimedByTime, 'seenUntil'> & { readonly jobs: readonly DuePlace[] },
    limit: number,
    now: number,
    tookMs: number,
  ): void {
    const { jobs, seenUntil } = claimed;
    if (this.#looking) this.#look.record(now, tookMs);
    const last = jobs.length >= limit ? jobs.at(-1) : undefined;
    this.#cursors = this.#cursors.map((cursor) => {
      if (last && cursor.priority > last.priority) return cursor;
      const inside = last?.priority === cursor.priority && last.cursorAt < seenUntil;
      const at = inside ? last.cursorAt : seenUntil;
      if (at < cursor.afterAt) return cursor;
      return { ...cursor, afterAt: at, afterPosition: inside ? last.cursorPosition : 0 };
    });
    // The claim may have read there before their jobs were there.
    for (const back of this.#rewinds.values()) this.#rewind(back);
  }

  /** Jobs that are due since this time were written; null: jobs of any age came back. */
  hint(since: Date | null, now: number): void {
    if (since === null) {
      this.#look.hasten(now);
      return;
    }
    const afterAt = since.toISOString().replace('T', ' ').replace('Z', '+00');
    for (const priority of PRIORITIES) this.#rewind({ priority, afterAt, afterPosition: 0 });
  }

  /** Read everything once more, whatever that costs. */
  restart(): void {
    for (const cursor of PRIORITIES.map(fromFront)) this.#rewind(cursor);
  }

  /** This job waits again. */
  returned({ priority, cursorAt, cursorPosition }: ClaimedJob): void {
    this.#rewind({ priority, afterAt: cursorAt, afterPosition: cursorPosition - 1 });
  }

  #rewind(back: DueCursor): void {
    const { priority } = back;
    const before = this.#rewinds.get(priority);
    if (!before || isBefore(back, before)) this.#rewinds.set(priority, back);
    this.#cursors = this.#cursors.map((cursor) =>
      cursor.priority === priority && isBefore(back, cursor) ? back : cursor,
    );
  }
}
