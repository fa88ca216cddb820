/**
 * The lines of a queue that is read by time, as one worker remembers them: a cursor for each type, version and priority.
 *
 * After a claim that came to the end of a line its cursor stands a little behind the clock, so that rows which commit a
 * little late are still ahead of it. Otherwise it stands at the last job that was taken of the line. A line is read when
 * a hint names its type, while there is more in it, and at every poll. What lies further behind is found by scans from the
 * front (scan-timer.ts).
 */
import { CHECK_MS, FEW_READ, MOST_READ } from '../pace.js';
import { ScanTimer } from '../scan-timer.js';
import type { ClaimedJob, Versions } from '../take.js';
import type { LineRequest, TimeClaim } from './claim.js';

/** Enqueues that commit within this time are never behind the cursor. */
export const LAG_MS = CHECK_MS / 4;
export const PRIORITIES = [1, 2, 3, 4];

export interface Cursor {
  readonly afterAt: string;
  readonly afterPosition: number;
}

const FRONT: Cursor = { afterAt: '-infinity', afterPosition: 0 };

export interface Line extends Cursor {
  readonly type: string;
  readonly version: number;
  readonly priority: number;
  /** There may be something behind the cursor. */
  readonly wanted: boolean;
  /** So many rows are read next, if the last claim was full or cut short. */
  readonly rows: number | null;
}

/** Timestamps sort as text, and -infinity before all of them. */
const isBefore = (a: Cursor, b: Cursor) =>
  a.afterAt < b.afterAt || (a.afterAt === b.afterAt && a.afterPosition < b.afterPosition);

export const keyOf = ({ type, version, priority }: Pick<Line, 'type' | 'version' | 'priority'>) =>
  `${type} ${version} ${priority}`;

/** Every version up to the newest, or those that are named, and every priority. */
export function linesOf(versions: Versions, priorities: readonly number[]): Line[] {
  return Object.entries(versions).flatMap(([type, of]) =>
    (typeof of === 'number' ? upTo(of) : of).flatMap((version) =>
      priorities.map((priority) => ({
        ...{ type, version, priority, ...FRONT, wanted: true, rows: null },
      })),
    ),
  );
}

const upTo = (newest: number) => Array.from({ length: newest }, (_, n) => n + 1);

/** Every line from the front, for one claim without a memory. */
export const frontLines = (versions: Versions, rows: number): LineRequest[] =>
  linesOf(versions, PRIORITIES).map((line) => ({ ...line, rows }));

export class Lines {
  readonly #scan = new ScanTimer();
  readonly #lines = new Map<string, Line>();
  /** Those that the claim in flight reads. */
  #taken: readonly Line[] = [];
  #scanning = false;
  /** How long the scan that is under way has taken; null: there is none. It may take several claims. */
  #scanMs: number | null = null;
  /** Another scan was asked for meanwhile: this one may have read there before. */
  #scanAgain = false;
  /** How far back a hint has asked for since the claim in flight was sent. */
  readonly #rewinds = new Map<string, Cursor>();

  constructor(versions: Versions) {
    for (const line of linesOf(versions, PRIORITIES)) this.#lines.set(keyOf(line), line);
  }

  /** What the next claim reads of the types that `open` lets through. `all`: not only those that are wanted. */
  take(now: number, limit: number, open: (type: string) => boolean, all: boolean): LineRequest[] {
    if (this.#scanMs === null && this.#scan.due(now)) {
      this.#scanMs = 0;
      for (const line of this.#lines.values()) this.#set(line, FRONT, true);
    }
    // Still so after a claim that failed.
    this.#scanning = this.#scanMs === 0;
    this.#rewinds.clear();
    const lines = [...this.#lines.values()].filter(({ type }) => open(type));
    const wanted = lines.filter((line) => line.wanted);
    this.#taken = all || wanted.length === 0 ? lines : wanted;
    return this.#taken.map((line) => ({ ...line, rows: line.rows ?? limit + FEW_READ }));
  }

  /** There may be more of types that `open` lets through. */
  wants(open: (type: string) => boolean): boolean {
    return [...this.#lines.values()].some(({ wanted, type }) => wanted && open(type));
  }

  /** The claim that was taken last begins a scan. It reads every line, also those whose types are not open now. */
  get scanning(): boolean {
    return this.#scanning;
  }

  record(claim: TimeClaim, limit: number, now: number, tookMs: number): void {
    const { jobs, found, seen, cut, seenUntil, refused } = claim;
    const full = found >= limit;
    // What no limit allows keeps its place before the cut: the scan comes no further.
    const goesOn = !full && cut !== null && !((this.#taken[cut.line]?.type ?? '') in refused);
    this.#recordScan(!goesOn, now, tookMs);
    const last = new Map<string, { job: ClaimedJob; jobs: number }>();
    for (const job of jobs)
      last.set(keyOf(job), { job, jobs: (last.get(keyOf(job))?.jobs ?? 0) + 1 });
    for (const [nth, line] of this.#taken.entries()) {
      const { job, jobs: count = 0 } = last.get(keyOf(line)) ?? {};
      const more = seen.has(nth) && (full || cut !== null || line.type in refused);
      if (!more) {
        // Of what was not taken some may be of this line.
        const left = found > jobs.length && seen.has(nth);
        const end = { afterAt: seenUntil, afterPosition: 0 };
        this.#set(line, left ? atJob(job, seenUntil) : end, false, null);
        continue;
      }
      // What no limit allows keeps its place before the cut.
      const isCut = !full && cut?.line === nth && !(line.type in refused);
      const to = isCut ? { afterAt: cut.at, afterPosition: cut.position } : atJob(job, seenUntil);
      // So near to the clock those that were taken are read again.
      const near = job !== undefined && job.cursorAt >= seenUntil;
      const rows = (full || cut) && !near ? nextRows(line, count, isCut, limit) : null;
      this.#set(line, to, true, rows);
    }
    // The claim may have read there before their jobs were there.
    for (const [key, back] of this.#rewinds) this.#rewind(key, back);
  }

  /** `over`: it came to its end, or no further. */
  #recordScan(over: boolean, now: number, tookMs: number): void {
    if (this.#scanMs === null) return;
    this.#scanMs += tookMs;
    if (!over) return;
    this.#scan.record(now, this.#scanMs);
    if (this.#scanAgain) this.#scan.hasten(now);
    this.#scanMs = null;
    this.#scanAgain = false;
  }

  /** Jobs of these types that are due since this time were written; null: of any type, or jobs of any age came back. */
  hint(since: Date | null, types: readonly string[] | null, now: number): void {
    if (since === null) {
      this.#scan.hasten(now);
      this.#scanAgain = this.#scanMs !== null;
      return;
    }
    const afterAt = since.toISOString().replace('T', ' ').replace('Z', '+00');
    for (const [key, { type }] of this.#lines)
      if (types === null || types.includes(type)) this.#rewind(key, { afterAt, afterPosition: 0 });
  }

  /** This job waits again. */
  returned(job: ClaimedJob): void {
    this.#rewind(keyOf(job), { afterAt: job.cursorAt, afterPosition: job.cursorPosition - 1 });
  }

  #rewind(key: string, back: Cursor): void {
    const line = this.#lines.get(key);
    if (!line) return;
    const before = this.#rewinds.get(key);
    if (!before || isBefore(back, before)) this.#rewinds.set(key, back);
    this.#lines.set(key, { ...line, ...(isBefore(back, line) ? back : {}), wanted: true });
  }

  /** Moves the cursor of a line; null: it stays. Only a scan moves it back. */
  #set(line: Line, to: Cursor | null, wanted: boolean, rows = line.rows): void {
    const moves = to !== null && (to === FRONT || !isBefore(to, line));
    this.#lines.set(keyOf(line), { ...line, ...(moves ? to : {}), wanted, rows });
  }
}

/** A cursor behind a job, but not so near to the clock that a late row would be missed. */
function atJob(job: ClaimedJob | undefined, seenUntil: string): Cursor | null {
  if (!job) return null;
  if (job.cursorAt >= seenUntil) return { afterAt: seenUntil, afterPosition: 0 };
  return { afterAt: job.cursorAt, afterPosition: job.cursorPosition };
}

/** About as many as were taken of it last time: most of what is read is taken then. */
function nextRows(line: Line, taken: number, isCut: boolean, limit: number): number {
  // Those in front may be running.
  const most = limit + FEW_READ;
  if (taken === 0 && isCut) return Math.min(2 * (line.rows ?? most), MOST_READ);
  return Math.min(Math.ceil(1.25 * taken) + 2, most);
}
