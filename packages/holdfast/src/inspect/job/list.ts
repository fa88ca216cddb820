/**
 * Lists of jobs in a queue, a page at a time, by id and so by the time at which they were made. A page reads at most `scan`
 * rows, however rare the jobs are that the filter wants; `next` says where the search goes on, null: it has seen all. So a
 * page costs the same at any backlog, and a search over millions can be interrupted. Where rows come from: list-sources.ts.
 */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { int4, int8, type Row, statement, text, uuid } from '../../postgres/statement.js';
import { instant, JOB, moment, recorded } from '../reading/columns.js';
import { filterParams, filterText, type JobFilter } from './filter.js';
import { ORDERS, type Order, rowsOf, type Source, sourceFor } from './list-sources.js';

export { ORDERS, type Order };

export const SCAN_ROWS = 10_000;
const COUNT_ROWS = 50_000;

const LISTED = {
  ...JOB,
  attempts: int4,
  max_attempts: int4,
  created_at: moment,
  run_at: instant,
  claimed_by: text.orNull,
  lease_expires_at: instant,
  /** Of a dead letter: when it became one. */
  died_at: recorded,
  last_error: text.orNull,
} as const;

export type ListedJob = Row<typeof LISTED>;

const FILTER = filterText('j', 'created_at');

const pageOf = (source: Source, order: Order) =>
  statement({
    name: `list_${source}_${order}`,
    text: `
SELECT j.id, j.status::text AS status, j.type, j.version, j.partition_key, j.partition_bucket,
  j.priority::integer AS priority, j.attempts, j.max_attempts,
  j.created_at, j.available_at AS run_at, j.claimed_by, j.lease_expires_at,
  CASE j.status WHEN 'dead_letter' THEN j.history #>> '{-1,at}' END AS died_at,
  left(j.last_error, 500) AS last_error
FROM (
  ${rowsOf(source, order)}
) AS j
WHERE ${FILTER}
ORDER BY j.id ${order === 'newest' ? 'DESC' : 'ASC'}
LIMIT $9::integer`,
    columns: LISTED,
  });

const countOf = (source: Source, order: Order) =>
  statement({
    name: `count_${source}_${order}`,
    text: `
SELECT count(*) FILTER (WHERE ${FILTER}) AS matched, count(*) AS scanned,
  ${order === 'newest' ? 'min' : 'max'}(j.id::text)::uuid AS edge
FROM (
  ${rowsOf(source, order)}
) AS j`,
    columns: { matched: int8, scanned: int8, edge: uuid.orNull },
  });

const both = (source: Source) => ({
  newest: { page: pageOf(source, 'newest'), count: countOf(source, 'newest') },
  oldest: { page: pageOf(source, 'oldest'), count: countOf(source, 'oldest') },
});

export const lists = {
  every: both('every'),
  dead: both('dead'),
  held: both('held'),
  key: both('key'),
  own: both('own'),
};

export interface PageRequest {
  readonly after?: string | null | undefined;
  readonly limit: number;
  readonly order?: Order | undefined;
  readonly scan?: number | undefined;
  /** Find jobs that run by claims: quick in a queue of any size, but without those that somebody claimed by hand in SQL. */
  readonly byClaims?: boolean | undefined;
}

export interface JobPage {
  readonly jobs: readonly ListedJob[];
  /** Where the search goes on; null: there is nothing further. */
  readonly next: string | null;
}

/** It asks twice, and must see the same rows both times: what ends in between would move the edge past rows unread. */
export async function listJobs(
  db: Executor,
  names: Names,
  filter: JobFilter,
  request: PageRequest,
): Promise<JobPage> {
  const { after = null, limit, order = 'newest', scan = SCAN_ROWS, byClaims = false } = request;
  const { page, count } = lists[await sourceFor(db, names, filter, byClaims)][order];
  const params = [...filterParams(filter), after, scan];
  const jobs = await db.run(page, names, [...params, limit]);
  if (jobs.length === limit) return { jobs, next: jobs.at(-1)?.id ?? null };
  const [seen] = await db.run(count, names, params);
  return { jobs, next: seen && seen.scanned >= scan ? seen.edge : null };
}

/** How many of the next `scan` rows match; the sum over all steps is the count. */
export async function countJobs(
  db: Executor,
  names: Names,
  filter: JobFilter,
  after: string | null = null,
  scan = COUNT_ROWS,
) {
  const { count } = lists[await sourceFor(db, names, filter, false)].oldest;
  const [seen] = await db.run(count, names, [...filterParams(filter), after, scan]);
  if (!seen) return { matched: 0, next: null };
  return { matched: seen.matched, next: seen.scanned >= scan ? seen.edge : null };
}
