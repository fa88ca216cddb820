/**
 * Jobs that wait because more urgent ones keep coming.
 *
 * A claim that comes back full has not read the priorities after its last job. While that is so, about once a second
 * (more rarely where it is dear) a worker first reads those for jobs that have been due for longer than the queue allows.
 * They get a quarter of what it takes, so that they do not starve the urgent ones either; and while there are more of
 * them, they get it of every claim. A worker whose claims come to the end has read everything, and sends none of this.
 */
import { ScanTimer } from '../scan-timer.js';
import type { Versions } from '../take.js';
import type { TimeClaim } from './claim.js';
import { type Cursor, keyOf, linesOf, PRIORITIES } from './lines.js';

/** Of so many jobs one may be an aged one. */
const SHARE = 4;

export class AgedLines {
  readonly #scan = new ScanTimer();
  readonly #versions: Versions;
  /** By line, where the last aged job stood that was taken since the last scan. */
  readonly #cursors = new Map<string, Cursor>();
  /** Priorities that the last claim did not come to. */
  #unread: readonly number[] = [];
  /** So many other jobs come first. */
  #owed = 0;
  /** The last share was used up. */
  #more = false;
  #scanning = false;

  constructor(versions: Versions) {
    this.#versions = versions;
  }

  /** What an aged claim asks for; null: nothing is to be read now. `room`: for how many jobs there is room in all. */
  take(now: number, room: number, open: (type: string) => boolean) {
    if (this.#unread.length === 0 || this.#owed > 0) return null;
    this.#scanning = this.#scan.due(now);
    if (!this.#scanning && !this.#more) return null;
    if (this.#scanning) this.#cursors.clear();
    const limit = Math.max(1, Math.floor(room / SHARE));
    const lines = linesOf(this.#versions, this.#unread).filter(({ type }) => open(type));
    return {
      limit,
      lines: lines.map((line) => ({ ...line, ...this.#cursors.get(keyOf(line)), rows: limit + 1 })),
    };
  }

  record({ jobs, found }: TimeClaim, limit: number, now: number, tookMs: number): void {
    if (this.#scanning) this.#scan.record(now, tookMs);
    this.#more = found >= limit;
    this.#owed = jobs.length * (SHARE - 1);
    for (const job of jobs)
      this.#cursors.set(keyOf(job), { afterAt: job.cursorAt, afterPosition: job.cursorPosition });
  }

  /** A claim of all priorities, in their order, brought these. */
  recordOrdinary({ jobs, found }: TimeClaim, limit: number): void {
    const last = found < limit ? Number.POSITIVE_INFINITY : (jobs.at(-1)?.priority ?? 0);
    this.#unread = PRIORITIES.filter((priority) => priority > last);
    this.#owed = Math.max(0, this.#owed - jobs.length);
  }
}
