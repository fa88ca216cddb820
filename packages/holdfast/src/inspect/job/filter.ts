/**
 * Which jobs: the filter of every list, count and bulk verb. A part that is left out travels as NULL and does not filter.
 * Age counts from the enqueue for jobs in a queue, and from their end in the archive. The error text is searched for as
 * it is, wherever it stands, in upper or lower case.
 */
import { type Param, plainArray, textArray } from '../../postgres/statement.js';

export interface JobFilter {
  readonly statuses?: readonly string[] | undefined;
  readonly types?: readonly string[] | undefined;
  readonly key?: string | undefined;
  /** At least so old. */
  readonly olderMs?: number | undefined;
  /** At most so old. */
  readonly newerMs?: number | undefined;
  readonly error?: string | undefined;
}

/** What stands in the queue table; the other statuses are those of its archive. */
export const LIVE_STATUSES = ['pending', 'processing', 'dead_letter'] as const;

/** The condition on the rows of `alias`, as $1 to $6; `time` is the column from which age counts. */
export function filterText(alias: string, time: 'created_at' | 'completed_at'): string {
  return `($1::text[] IS NULL OR ${alias}.status::text = ANY ($1::text[]))
  AND ($2::text[] IS NULL OR ${alias}.type = ANY ($2::text[]))
  AND ($3::text IS NULL OR ${alias}.partition_key = $3::text)
  AND ($4::bigint IS NULL OR ${alias}.${time} <= now() - $4::bigint * interval '1 millisecond')
  AND ($5::bigint IS NULL OR ${alias}.${time} >= now() - $5::bigint * interval '1 millisecond')
  AND ($6::text IS NULL OR strpos(lower(${alias}.last_error), lower($6::text)) > 0)`;
}

export function filterParams(filter: JobFilter): Param[] {
  return [
    filter.statuses ? plainArray(filter.statuses) : null,
    filter.types ? textArray(filter.types) : null,
    filter.key ?? null,
    filter.olderMs ?? null,
    filter.newerMs ?? null,
    filter.error ?? null,
  ];
}

export function only(filter: JobFilter, status: string): boolean {
  return filter.statuses?.length === 1 && filter.statuses[0] === status;
}

export function isEmpty(filter: JobFilter): boolean {
  return Object.values(filter).every((part) => part === undefined);
}
