/** The filter on the command line: the same options for every list and every verb over many jobs. */
import { ARCHIVED_STATUSES } from '../../inspect/job/archive.js';
import { type JobFilter, LIVE_STATUSES } from '../../inspect/job/filter.js';
import type { Priority } from '../../job/job.js';
import { durationMs } from '../../job/options/duration.js';
import { nearest } from '../../job/options/nearest.js';
import type { Given, Options } from '../command.js';
import { UsageError } from '../failures.js';

export const FILTERS: Options = {
  type: {
    type: 'string',
    multiple: true,
    value: 'TYPE',
    help: 'jobs of this type; may be repeated',
  },
  'partition-key': { type: 'string', value: 'KEY', help: 'jobs of this partition key' },
  queue: {
    type: 'string',
    multiple: true,
    value: 'NAME',
    help: 'only this queue; may be repeated; default: all',
  },
  older: { type: 'string', value: 'AGE', help: 'at least so old, such as 30s, 15m, 2h, 7d' },
  newer: { type: 'string', value: 'AGE', help: 'at most so old' },
  error: {
    type: 'string',
    value: 'TEXT',
    help: 'whose last error holds this text, in upper or lower case',
  },
};

export const STATUS: Options = {
  status: {
    type: 'string',
    multiple: true,
    value: 'STATUS',
    help: 'pending, processing, dead_letter; or completed, cancelled, discarded (archive); may be repeated',
  },
};

const ageMs = (text: string | undefined, what: string) =>
  text === undefined ? undefined : durationMs(text, what);

function statusesOf(given: Given): string[] | undefined {
  const asked = given.texts('status')?.flatMap((word) => word.split(','));
  const known: readonly string[] = [...LIVE_STATUSES, ...ARCHIVED_STATUSES];
  for (const word of asked ?? []) {
    if (known.includes(word)) continue;
    throw new UsageError(
      `There is no status "${word}".${nearest(word, known)} Known: ${known.join(', ')}.`,
    );
  }
  return asked;
}

/** An empty text would be found in everything. */
function notEmpty(text: string | undefined, option: string): string | undefined {
  if (text === '') throw new UsageError(`${option} is empty; nothing was done.`);
  return text;
}

export function filterOf(given: Given): JobFilter {
  return {
    statuses: statusesOf(given),
    types: given.texts('type'),
    key: notEmpty(given.text('partition-key'), '--partition-key'),
    olderMs: ageMs(given.text('older'), '--older'),
    newerMs: ageMs(given.text('newer'), '--newer'),
    error: notEmpty(given.text('error'), '--error'),
  };
}

/** In the queue, or in the archive: one list shows one of them. */
export function placeOf(filter: JobFilter): 'live' | 'archive' {
  const statuses = filter.statuses ?? [];
  const archived = statuses.filter((one) => ARCHIVED_STATUSES.some((other) => other === one));
  if (archived.length === 0) return 'live';
  if (archived.length === statuses.length) return 'archive';
  throw new UsageError(
    `One list shows the queue or the archive: ask for ${archived.join(', ')} in a list of its own.`,
  );
}

export function countOption(given: Given, name: string, fallback: number): number {
  const text = given.text(name);
  if (text === undefined) return fallback;
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw new UsageError(`--${name} must be a whole number of at least 1, not "${text}".`);
}

/** A number that is none is refused by what it is passed to. */
export const priorityOption = (given: Given) => countOption(given, 'priority', 2) as Priority;

/** `--run-at` or `--delay`; that only one of them may be given is checked where they are used. */
export function dueOptions(given: Given): { readonly runAt?: Date; readonly delay?: number } {
  const [delay, at] = [given.text('delay'), given.text('run-at')];
  return {
    ...(delay !== undefined && { delay: durationMs(delay, '--delay') }),
    ...(at !== undefined && { runAt: timeOf(at) }),
  };
}

function timeOf(text: string): Date {
  const at = new Date(text);
  if (/^\d{4}-\d\d-\d\d/.test(text) && !Number.isNaN(at.getTime())) return at;
  throw new UsageError(`--run-at takes a time such as 2026-01-31T09:00:00Z, not "${text}".`);
}
