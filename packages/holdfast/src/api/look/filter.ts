/**
 * Which jobs, as a program says it. Every part is checked: a misspelt one would match all jobs, and a filter also
 * decides what is discarded.
 */
import { ARCHIVED_STATUSES } from '../../inspect/job/archive.js';
import { type JobFilter, LIVE_STATUSES } from '../../inspect/job/filter.js';
import { invalid, shown } from '../../job/errors/holdfast-error.js';
import { type Duration, durationMs } from '../../job/options/duration.js';
import type { JobState } from '../../job/states.js';

/** Of dead letters. A part that is left out does not filter. */
export interface DeadLetterFilter {
  /** One type or several. */
  readonly type?: string | readonly string[];
  /** The partition key. */
  readonly partitionKey?: string;
  /** At least so old. */
  readonly older?: Duration;
  /** At most so old. */
  readonly newer?: Duration;
  /** Whose last error holds this text, in upper or lower case. */
  readonly error?: string;
}

/** Which jobs. A part that is left out does not filter. */
export interface JobsFilter extends DeadLetterFilter {
  /** Jobs in the queue (`pending`, `processing`, `dead_letter`) or in its archive (the others), not both. */
  readonly status?: JobState | readonly JobState[];
}

const STATUSES: readonly string[] = [...LIVE_STATUSES, ...ARCHIVED_STATUSES];
/** Of a filter. */
export const PARTS = ['type', 'partitionKey', 'older', 'newer', 'error'] as const;

const refused = (problem: string) => invalid(`${problem} Nothing was done.`);

function texts(value: unknown, what: string): string[] | undefined {
  if (value === undefined) return undefined;
  const list: unknown = typeof value === 'string' ? [value] : value;
  if (Array.isArray(list) && list.length > 0 && list.every((one) => typeof one === 'string'))
    return list;
  throw refused(`${what} must be a text or a list of texts, not ${shown(value)}.`);
}

function text(value: unknown, what: string): string | undefined {
  if (value === undefined || (typeof value === 'string' && value !== '')) return value;
  throw refused(`${what} must be a text that is not empty, not ${shown(value)}.`);
}

const age = (value: Duration | undefined, what: string) =>
  value === undefined ? undefined : durationMs(value, what);

function checkParts(filter: unknown, known: readonly string[]): void {
  if (typeof filter !== 'object' || filter === null)
    throw refused(`The filter must be an object, not ${shown(filter)}.`);
  const wrong = Object.keys(filter).find((part) => !known.includes(part));
  if (wrong === undefined) return;
  throw refused(`A filter has no part ${shown(wrong)}; it has ${known.join(', ')}.`);
}

function partsOf(filter: DeadLetterFilter): JobFilter {
  return {
    types: texts(filter.type, 'filter.type'),
    key: text(filter.partitionKey, 'filter.partitionKey'),
    olderMs: age(filter.older, 'filter.older'),
    newerMs: age(filter.newer, 'filter.newer'),
    error: text(filter.error, 'filter.error'),
  };
}

export function deadLetterFilter(filter: DeadLetterFilter): JobFilter {
  checkParts(filter, PARTS);
  return { ...partsOf(filter), statuses: ['dead_letter'] };
}

export interface PlacedFilter {
  readonly filter: JobFilter;
  readonly place: 'queue' | 'archive';
}

export function jobsFilter(filter: JobsFilter): PlacedFilter {
  checkParts(filter, ['status', ...PARTS]);
  const statuses = texts(filter.status, 'filter.status');
  const unknown = statuses?.find((status) => !STATUSES.includes(status));
  if (unknown !== undefined)
    throw refused(`There is no status ${shown(unknown)}; there are ${STATUSES.join(', ')}.`);
  const archived = (statuses ?? []).filter((one) =>
    (ARCHIVED_STATUSES as readonly string[]).includes(one),
  );
  if (archived.length > 0 && archived.length < (statuses ?? []).length) {
    throw refused(
      `One list shows the queue or the archive: ask for ${archived.join(', ')} in a call of its own.`,
    );
  }
  return {
    filter: { ...partsOf(filter), statuses },
    place: archived.length > 0 ? 'archive' : 'queue',
  };
}
