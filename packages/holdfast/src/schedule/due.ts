/**
 * Which ticks of a schedule that is due become jobs, and when it is due next.
 *
 * A tick that is at most ten seconds late always becomes a job. So does each that was at most ten seconds late when the
 * work on the present backlog began: it is late because the workers are busy, not because nobody was there. One that is
 * later was missed: `none` drops it, `last` writes the newest of them if no tick is fresh, `all` writes each, in steps.
 */
import { delayOf, nextInstant, type Timing } from './instants.js';

/** Which missed ticks become jobs after an outage: none, the last, or all. */
export type CatchUp = 'none' | 'last' | 'all';

export interface DueSchedule extends Timing {
  readonly name: string;
  readonly jitterMs: number;
  readonly catchUp: CatchUp;
  readonly nextInstant: number;
}

export interface Ticks {
  /** The instants that become jobs, in their order. */
  readonly instants: readonly number[];
  /** How many were dropped; at least so many after a long outage. */
  readonly missed: number;
  /** The next instant, which may have passed already; null: there is none any more. */
  readonly next: number | null;
  /** When that is due; not before now, so that one that catches up does not come before all others again. */
  readonly nextAt: number | null;
}

export const FRESH_MS = 10_000;
/** So many of a schedule are written in one step; the next step goes on. */
export const MAX_STEP = 100;
/** So many missed ticks of a cron line are counted one by one. */
const MAX_COUNTED = 50;

/** `since`: when the work on what is due now began; null: with this look. */
export function ticksOf(schedule: DueSchedule, now: number, since: number | null = null): Ticks {
  const delay = delayOf(schedule.name, schedule.jitterMs);
  const until = now - delay;
  const stale = Math.min(now, since ?? now) - FRESH_MS - delay;
  const { instants, missed, next } =
    schedule.catchUp === 'all' ? everyTick(schedule, until) : newest(schedule, until, stale);
  return { instants, missed, next, nextAt: next === null ? null : Math.max(next + delay, now) };
}

type Found = Omit<Ticks, 'nextAt'>;

function everyTick(schedule: DueSchedule, until: number): Found {
  const { found, next } = walk(schedule, schedule.nextInstant, until, MAX_STEP);
  return { instants: found, missed: 0, next };
}

function newest(schedule: DueSchedule, until: number, stale: number): Found {
  const first = schedule.nextInstant;
  const start = first >= stale ? first : nextInstant(schedule, stale - 1);
  const { found, next } = walk(schedule, start, until, MAX_STEP);
  if (first >= stale) return { instants: found, missed: 0, next };
  const missed = countBefore(schedule, stale);
  if (found.length > 0 || schedule.catchUp === 'none') return { instants: found, missed, next };
  return { instants: [lastBefore(schedule, stale)], missed: missed - 1, next };
}

/** The instants from `start` to `until`, and the one after them. */
function walk(timing: Timing, start: number | null, until: number, most: number) {
  const found: number[] = [];
  let next = start;
  while (next !== null && next <= until && found.length < most) {
    found.push(next);
    next = nextInstant(timing, next);
  }
  return { found, next };
}

/** How many instants from the next one on lie before `end`. */
function countBefore(schedule: DueSchedule, end: number): number {
  const { everyMs, nextInstant: first } = schedule;
  if (everyMs !== null) return Math.ceil((end - first) / everyMs);
  return walk(schedule, first, end - 1, MAX_COUNTED).found.length;
}

/** The last instant before `end`; there is one. The look back doubles until it finds one. */
function lastBefore(schedule: DueSchedule, end: number): number {
  const { nextInstant: first } = schedule;
  let low = first;
  for (let back = 60_000; end - back > first; back *= 2) {
    const at = nextInstant(schedule, end - back);
    if (at !== null && at < end) {
      low = at;
      break;
    }
  }
  // Between a known instant and the end: the latest time after which another one comes.
  let high = end;
  while (high - low > 1_000) {
    const middle = Math.floor((low + high) / 2);
    const at = nextInstant(schedule, middle);
    if (at !== null && at < end) low = at;
    else high = middle;
  }
  for (let at: number | null = low; at !== null && at < end; at = nextInstant(schedule, at))
    low = at;
  return low;
}
