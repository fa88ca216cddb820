/**
 * Limits of a whole fleet: how many jobs of a type or a queue run at once, and how many start in a time. Checked when they
 * are declared. The database starts one job every `perMs / limit` milliseconds, and up to `burst` at once after a pause.
 */
import { HoldfastError, invalid, shown } from './errors/holdfast-error.js';
import { checkKey } from './key.js';
import { type Duration, durationMs } from './options/duration.js';
import { checkKnown, type Known } from './options/known-options.js';

/** How many jobs start in a time. */
export interface RateOptions {
  /** At most so many jobs start within `per`. */
  readonly limit: number;
  /** The time of the rate, such as `'1m'`: 1 ms to a year. */
  readonly per: Duration;
  /** How many may start at once after a pause. Default: a tenth of `limit`, at least 2; 1 if `limit` is 1. */
  readonly burst?: number;
}

/** The rate of a job type. */
export interface JobRate<Input> extends RateOptions {
  /** Gives each key a rate of its own, such as `(payload) => payload.tenant`. Default: one rate for the type. */
  readonly key?: (payload: Input) => string;
}

/**
 * How many jobs run at once and how many start in a time, across the fleet.
 * @example job('send_mail', { limit: { concurrency: 20, rate: { limit: 100, per: '1m' } } });
 */
export interface LimitOptions {
  /** At most so many jobs run at once, 1 to 1,000,000. Default: any number. */
  readonly concurrency?: number;
  /** At most so many jobs start in a time. Default: no rate. */
  readonly rate?: RateOptions;
}

/** The limit of a job type, for the whole fleet. */
export interface JobLimit<Input> extends LimitOptions {
  /** At most so many jobs start in a time. Default: no rate. */
  readonly rate?: JobRate<Input>;
}

/** As the database has it. */
export interface Limit {
  /** Jobs that may run at once; null: any number. */
  readonly concurrency: number | null;
  /** Null: no rate. */
  readonly rate: Rate | null;
}

/** A rate in force: `limit` starts in `perMs`, and `burst` at once. */
export interface Rate {
  readonly limit: number;
  readonly perMs: number;
  readonly burst: number;
}

const LIMIT = { concurrency: true, rate: true } as const satisfies Known<LimitOptions>;
const RATE = {
  ...{ limit: true, per: true, burst: true, key: true },
} as const satisfies Known<JobRate<unknown>>;

export const MAX_LIMIT = 1_000_000;
const YEAR_MS = 365 * 86_400_000;
/** A database of one server starts no more, and a time of microseconds could not keep them apart. */
const MAX_PER_SECOND = 100_000;
/** A burst comes back one start after the other; times of the database reach only so far. */
const MAX_REFILL_MS = 3_650 * 86_400_000;

const refused = (where: string, problem: string, undone: string) =>
  invalid(`${where}: ${problem}. ${undone}`);

/** `where` names what is limited, such as `Job "send"`; `undone` says what was not done, as a sentence. */
export function checkLimit(given: unknown, where: string, undone: string): Limit {
  const options = given as LimitOptions;
  if (typeof given !== 'object' || given === null)
    throw refused(where, `limit must be an object, not ${shown(given)}`, undone);
  checkKnown(options, LIMIT, `limit of ${where}`, undone);
  const { concurrency, rate } = options;
  if (concurrency === undefined && rate === undefined)
    throw refused(where, 'a limit has a concurrency, a rate, or both', undone);
  return {
    concurrency:
      concurrency === undefined ? null : whole(concurrency, 'limit.concurrency', where, undone),
    rate: rate === undefined ? null : checkRate(rate, where, undone),
  };
}

function checkRate(rate: JobRate<never>, where: string, undone: string): Rate {
  if (typeof rate !== 'object' || rate === null)
    throw refused(where, `limit.rate must be an object, not ${shown(rate)}`, undone);
  checkKnown(rate, RATE, `limit.rate of ${where}`, undone);
  const limit = whole(rate.limit, 'limit.rate.limit', where, undone);
  const perMs = perOf(rate.per, where, undone);
  if ((limit / perMs) * 1_000 > MAX_PER_SECOND) {
    const problem = `limit.rate is more than ${MAX_PER_SECOND.toLocaleString('en')} jobs a second, which no fleet on one database starts; leave it out`;
    throw refused(where, problem, undone);
  }
  // With a burst of 1 whatever a start is late is lost.
  const usual = limit === 1 ? 1 : Math.max(2, Math.floor(limit / 10));
  const burst =
    rate.burst === undefined ? usual : whole(rate.burst, 'limit.rate.burst', where, undone);
  if ((burst * perMs) / limit > MAX_REFILL_MS) {
    const problem = `limit.rate.burst is ${burst.toLocaleString('en')}, and at this rate so many starts take more than 3,650 days; give a smaller burst`;
    throw refused(where, problem, undone);
  }
  if (rate.key !== undefined && typeof rate.key !== 'function') {
    const problem = `limit.rate.key must be a function from a payload to a text, not ${shown(rate.key)}`;
    throw refused(where, problem, undone);
  }
  return { limit, perMs, burst };
}

function perOf(per: unknown, where: string, undone: string): number {
  try {
    const bounds = { min: 1, max: YEAR_MS };
    // Half a millisecond would be rounded up to one.
    if (typeof per === 'number' && per < 1) return durationMs(Number.NaN, 'limit.rate.per', bounds);
    return durationMs(per as Duration, 'limit.rate.per', bounds);
  } catch (cause) {
    const problem = `limit.rate.per must be a duration from 1 ms to 365 days, such as '1m', not ${shown(per)}`;
    throw invalid(`${where}: ${problem}. ${undone}`, { cause });
  }
}

function whole(value: unknown, what: string, where: string, undone: string): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= MAX_LIMIT)
    return value;
  const most = MAX_LIMIT.toLocaleString('en');
  throw refused(
    where,
    `${what} must be a whole number from 1 to ${most}, not ${shown(value)}`,
    undone,
  );
}

/** The key of a payload; what a key function throws is the caller's to see. */
export function limitKeyOf<Input>(
  type: string,
  key: (payload: Input) => unknown,
  payload: Input,
): string {
  const found = key(payload);
  if (typeof found === 'string' && found !== '') return checkKey(found, 'The key of limit.rate');
  throw new HoldfastError(
    'KEY_INVALID',
    `limit.rate.key of job "${type}" returned ${shown(found)} for this payload, and a key is a text of 1 to 512 bytes. ` +
      'Nothing was enqueued. Return a text for every payload.',
  );
}
