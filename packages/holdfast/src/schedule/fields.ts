/**
 * Cron lines of five or six plain fields (numbers, names, lists, ranges and steps), as bit masks. Nearly all lines are of
 * this form: croner needs half a millisecond and 80 kB for each, this microseconds and 100 bytes. Whatever is not read
 * here (L, W, #, years, a mistake) is croner's; a test compares the two on random lines.
 */

interface Fields {
  readonly second: readonly number[];
  readonly minute: readonly number[];
  readonly hour: readonly number[];
  /** Bit n: day n of the month, month n (from 0), weekday n (0 is Sunday). */
  readonly days: number;
  readonly months: number;
  readonly weekdays: number;
  /** With both given, either fires. */
  readonly eitherDay: boolean;
}

interface Part {
  readonly from: number;
  readonly to: number;
  readonly names?: readonly string[];
}

const MONTHS = ['', ...'jan feb mar apr may jun jul aug sep oct nov dec'.split(' ')];
const WEEKDAYS = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];
const SIXTY: Part = { from: 0, to: 59 };
const HOURS: Part = { from: 0, to: 23 };
const DAYS: Part = { from: 1, to: 31 };
const MONTH: Part = { from: 1, to: 12, names: MONTHS };
const WEEKDAY: Part = { from: 0, to: 6, names: WEEKDAYS };
const DAY_MS = 86_400_000;
/** The 29th of February is at most eight years away. */
const MAX_MONTHS = 8 * 12;

/** The first match after a time, both as if in UTC; null: the line never fires. Null: the line is croner's to read. */
export function plainLine(text: string): ((wallMs: number) => number | null) | null {
  const fields = parse(text);
  return fields && ((wallMs) => next(fields, wallMs));
}

function parse(text: string): Fields | null {
  const parts = text.trim().split(/\s+/);
  if (parts.length === 5) parts.unshift('0');
  if (parts.length !== 6) return null;
  const [sec, min, hr, dom, mon, dow] = parts as [string, string, string, string, string, string];
  const second = values(sec, SIXTY);
  const minute = values(min, SIXTY);
  const hour = values(hr, HOURS);
  const [days, months, weekdays] = [values(dom, DAYS), values(mon, MONTH), values(dow, WEEKDAY)];
  if (!second || !minute || !hour || !days || !months || !weekdays) return null;
  const eitherDay = dom !== '*' && dow !== '*';
  return {
    ...{ second, minute, hour, eitherDay },
    days: mask(days),
    months: mask(months) >>> 1,
    weekdays: mask(weekdays),
  };
}

/** Thousands of lines are made of the same fields. */
const MAX_KEPT = 1_000;
const kept = new Map<Part, Map<string, number[] | null>>();

/** In their order; null: not plain, or wrong. */
function values(text: string, part: Part): number[] | null {
  const known = kept.get(part) ?? new Map<string, number[] | null>();
  const found = known.get(text);
  if (found !== undefined) return found;
  const read = readValues(text, part);
  if (known.size >= MAX_KEPT) known.clear();
  kept.set(part, known.set(text, read));
  return read;
}

function readValues(text: string, part: Part): number[] | null {
  const found = new Set<number>();
  for (const one of text.split(',')) {
    const match = /^(?:(\*)|(\w+)(?:-(\w+))?)(?:\/(\d+))?$/.exec(one);
    if (!match) return null;
    const [, star, first, last, stepText] = match;
    // A step needs a star or a range before it.
    if (stepText !== undefined && star === undefined && last === undefined) return null;
    const step = Number(stepText ?? 1);
    const low = star ? part.from : numberOf(first as string, part, false);
    const high = star ? part.to : last === undefined ? low : numberOf(last, part, true);
    if (low === null || high === null || low > high) return null;
    if (step < 1 || step > part.to - part.from + 1) return null;
    // 7 is Sunday too.
    for (let at = low; at <= high; at += step) found.add(part === WEEKDAY ? at % 7 : at);
  }
  return [...found].sort((a, b) => a - b);
}

function numberOf(text: string, part: Part, ends: boolean): number | null {
  const named = part.names && text.length === 3 ? part.names.indexOf(text.toLowerCase()) : -1;
  // A range ends with Sunday and does not begin with it.
  if (named >= 0) return ends && part === WEEKDAY && named === 0 ? 7 : named;
  if (!/^\d{1,2}$/.test(text)) return null;
  const value = Number(text);
  const most = part === WEEKDAY ? 7 : part.to;
  return value >= part.from && value <= most ? value : null;
}

function mask(numbers: readonly number[]): number {
  return numbers.reduce((bits, one) => bits | (1 << one), 0);
}

function next(fields: Fields, wallMs: number): number | null {
  const start = (Math.floor(wallMs / 1_000) + 1) * 1_000;
  const from = new Date(start);
  const [year, month] = [from.getUTCFullYear(), from.getUTCMonth()];
  for (let m = month; m <= month + MAX_MONTHS; m++) {
    if (!(fields.months & (1 << (m % 12)))) continue;
    const first = Date.UTC(year, m, 1) / DAY_MS;
    const length = Date.UTC(year, m + 1, 1) / DAY_MS - first;
    for (let d = m === month ? from.getUTCDate() : 1; d <= length; d++) {
      const day = first + d - 1;
      if (!matchesDay(fields, day, d)) continue;
      const second = timeOfDay(fields, Math.max(0, start / 1_000 - day * 86_400));
      if (second !== null) return day * DAY_MS + second * 1_000;
    }
  }
  return null;
}

/** January 1 of 1970 was a Thursday. */
function matchesDay({ days, weekdays, eitherDay }: Fields, day: number, ofMonth: number): boolean {
  const inMonth = (days & (1 << ofMonth)) !== 0;
  const inWeek = (weekdays & (1 << ((day + 4) % 7))) !== 0;
  return eitherDay ? inMonth || inWeek : inMonth && inWeek;
}

/** The first second of a day that matches, from `since` on. */
function timeOfDay({ hour, minute, second }: Fields, since: number): number | null {
  const from = { h: Math.floor(since / 3_600), m: Math.floor(since / 60) % 60, s: since % 60 };
  for (const h of hour) {
    if (h < from.h) continue;
    for (const m of minute) {
      if (h === from.h && m < from.m) continue;
      const least = h === from.h && m === from.m ? from.s : 0;
      const s = second.find((one) => one >= least);
      if (s !== undefined) return h * 3_600 + m * 60 + s;
    }
  }
  return null;
}
