/** Options that several commands share, and the filter: the same for every list and every verb over many jobs. */
import { ARCHIVED_STATUSES } from '../../inspect/job/archive.js';
import { type JobFilter, LIVE_STATUSES } from '../../inspect/job/filter.js';
import { flag, type Given, type Options, text, texts } from '../command.js';
import { UsageError } from '../failures.js';
import { durationOption, wordsOption } from './values.js';

export const QUEUE: Options = {
  queue: texts('NAME', 'only this queue; may be repeated; default: all'),
};

export const FILTERS: Options = {
  type: texts('TYPE', 'jobs of this type; may be repeated'),
  'partition-key': text('KEY', 'jobs of this partition key'),
  ...QUEUE,
  older: text('AGE', 'at least so old, such as 30s, 15m, 2h, 7d'),
  newer: text('AGE', 'at most so old'),
  error: text('TEXT', 'whose last error holds this text, in upper or lower case'),
};

export const STATUS: Options = {
  status: texts(
    'STATUS',
    'pending, processing, dead_letter; or completed, cancelled, discarded (archive); may be repeated',
  ),
};

export const LIST: Options = {
  limit: { ...text('N', 'at most so many; default 50'), short: 'n' },
  after: text('PLACE', 'go on where an earlier list ended'),
  all: flag('to the end, however long it takes'),
};

export const REASON: Options = { reason: text('TEXT', 'why; kept in the audit') };

export const YES: Options = { yes: { ...flag('do not ask'), short: 'y' } };

/** Of what asks before it acts. */
export const ASKING: Options = { ...YES, 'dry-run': flag('only say how many') };

export const ACT: Options = {
  all: flag('all of them, without a filter'),
  ...ASKING,
  batch: text('N', 'so many in one statement; default 1000'),
  ...REASON,
};

export const BULK =
  'By id, or by a filter. Many jobs go in batches that commit one by one: it can be interrupted at any\n' +
  'time, and the same command goes on with the rest.';

/** An empty text would be found in everything. */
function notEmpty(given: Given, name: string): string | undefined {
  const value = given.text(name);
  if (value === '') throw new UsageError(`--${name} is empty; nothing was done.`);
  return value;
}

export function filterOf(given: Given): JobFilter {
  return {
    statuses: wordsOption(given, 'status', [...LIVE_STATUSES, ...ARCHIVED_STATUSES]),
    types: given.texts('type'),
    key: notEmpty(given, 'partition-key'),
    olderMs: durationOption(given, 'older'),
    newerMs: durationOption(given, 'newer'),
    error: notEmpty(given, 'error'),
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
