/**
 * From wall-clock times to instants, through the changes of a zone's clock. A time that a clock jumps over happens as much
 * later as the clock jumped: 02:30 is 03:30 on that day. A time that a clock shows twice happens at the first of the two; a
 * cron line that names no hours goes on through the second as well. The rules of the zones are those of this Node.
 */
import { HoldfastError } from '../job/errors/errors.js';
import { shown } from '../job/errors/holdfast-error.js';
import type { CronLine } from './cron.js';

const HOUR_MS = 3_600_000;
/** No clock is changed by more than this, nor twice within it. */
const WINDOW_MS = 3 * HOUR_MS;
/** No zone is further from UTC. */
const FAR_MS = 15 * HOUR_MS;
const formats = new Map<string, Intl.DateTimeFormat>();

/** Throws OPTION_INVALID. */
export function checkZone(zone: unknown, undone: string): string {
  try {
    if (typeof zone === 'string' && zone !== '' && formatOf(zone)) return zone;
  } catch {
    // Intl does not know it.
  }
  throw new HoldfastError(
    'OPTION_INVALID',
    `There is no timezone ${shown(zone)}. ${undone} Write a name such as "Europe/Lisbon" or "UTC".`,
  );
}

function formatOf(zone: string): Intl.DateTimeFormat {
  const found = formats.get(zone);
  if (found) return found;
  const made = new Intl.DateTimeFormat('en-US', {
    ...{ timeZone: zone, hourCycle: 'h23', calendar: 'gregory', numberingSystem: 'latn' },
    ...{ year: 'numeric', month: 'numeric', day: 'numeric' },
    ...{ hour: 'numeric', minute: 'numeric', second: 'numeric' },
  } as const);
  formats.set(zone, made);
  return made;
}

/** A window in which the clock of a zone is not changed has one offset; null: it is changed, and instants are asked. */
const MAX_WINDOWS = 10_000;
const windows = new Map<string, Map<number, number | null>>();

/** How far the wall clock of a zone is ahead of UTC at an instant. Asking Intl costs as much as all the rest of a tick. */
export function offsetAt(zone: string, at: number): number {
  const kept = windows.get(zone);
  const known = kept && kept.size < MAX_WINDOWS ? kept : new Map<number, number | null>();
  if (known !== kept) windows.set(zone, known);
  const window = Math.floor(at / WINDOW_MS);
  let offset = known.get(window);
  if (offset === undefined) {
    const first = askOffset(zone, window * WINDOW_MS);
    offset = first === askOffset(zone, (window + 1) * WINDOW_MS) ? first : null;
    known.set(window, offset);
  }
  return offset ?? askOffset(zone, at);
}

function askOffset(zone: string, at: number): number {
  if (zone === 'UTC') return 0;
  const second = Math.floor(at / 1000) * 1000;
  const [month, day, year, hour, minute, sec] = (
    formatOf(zone).format(second).match(/\d+/g) as string[]
  ).map(Number) as [number, number, number, number, number, number];
  return Date.UTC(year, month - 1, day, hour, minute, sec) - second;
}

/** The first instant after `after` at which the line matches in the zone; null: there is none. */
export function nextInZone(line: CronLine, zone: string, after: number): number | null {
  const before = offsetAt(zone, after - WINDOW_MS);
  const later = offsetAt(zone, after + WINDOW_MS);
  if (before !== later) return nextNearChange(line, zone, after, { before, later });
  const wall = line.next(after + later);
  return wall === null ? null : firstInstant(zone, wall);
}

/** A wall-clock time as an instant: the first of two, and one that is jumped over so much later. */
function firstInstant(zone: string, wall: number): number {
  const before = offsetAt(zone, wall - FAR_MS);
  const later = offsetAt(zone, wall + FAR_MS);
  const early = wall - before;
  if (before === later || offsetAt(zone, early) === before) return early;
  const late = wall - later;
  return offsetAt(zone, late) === later ? late : early;
}

/** The clock is changed within hours: the line is asked on either side of the change. */
function nextNearChange(
  line: CronLine,
  zone: string,
  after: number,
  { before, later }: { before: number; later: number },
): number | null {
  const change = changeBetween(zone, after - WINDOW_MS, after + WINDOW_MS);
  const found: number[] = [];
  const wall = line.next(after + before);
  // Until the change by the old offset; and what the clock jumps over, so much later.
  if (wall !== null && wall < change + Math.max(before, later)) {
    const at = wall - before;
    if (at < change || later > before) found.push(at);
  }
  // What the clock repeats belongs to lines that name no hours.
  const from = change + (line.everyHour ? later : Math.max(before, later));
  const after2 = line.next(Math.max(after + later, from - 1));
  if (after2 !== null) {
    const at = after2 - later;
    found.push(at < after + WINDOW_MS ? at : firstInstant(zone, after2));
  }
  return found.length === 0 ? null : Math.min(...found);
}

/** The instant at which the offset becomes another one, to the second. */
function changeBetween(zone: string, from: number, to: number): number {
  const old = offsetAt(zone, from);
  let [low, high] = [Math.floor(from / 1000), Math.ceil(to / 1000)];
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (offsetAt(zone, middle * 1000) === old) low = middle;
    else high = middle;
  }
  return high * 1000;
}
