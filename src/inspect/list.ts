/**
 * Lists of jobs in a queue, a page at a time, by id and so by the time at which they were made.
 *
 * One page reads at most `scan` rows, however rare the jobs are that the filter wants. A page that found
 * fewer than were asked for says in `next` where the search goes on, and null when it has seen all; so a
 * page costs the same at any backlog, and a search over millions is a loop that can be interrupted.
 * Dead letters are read from their own index. The jobs of one key have an index only where the queue is read
 * by key; elsewhere they are searched for among all.
 */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { bool, int4, int8, type Row, statement, text, uuid } from '../postgres/statement.js';
import { instant, JOB, moment } from './columns.js';
import { filterParams, filterText, type JobFilter, onlyDeadLetters } from './filter.js';

export type Order = 'newest' | 'oldest';
type Source = 'every' | 'dead' | 'key';

export const SCAN_ROWS = 10_000;
const COUNT_ROWS = 50_000;
/** A key with more jobs is not read as a whole to bring them into the order of their ids. */
const MAX_KEY_ROWS = 20_000;

const LISTED = {
  ...JOB,
  attempts: int4,
  max_attempts: int4,
  created_at: moment,
  available_at: instant,
  claimed_by: text.orNull,
  lease_expires_at: instant,
  /** The beginning of it. */
  last_error: text.orNull,
} as const;

export type ListedJob = Row<typeof LISTED>;

/** The rows of a source on the far side of $7, at most $8 of them, in the order of their ids. */
function rowsOf(source: Source, order: Order): string {
  const beyond =
    order === 'newest'
      ? "id < coalesce($7::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')"
      : "id > coalesce($7::uuid, '00000000-0000-0000-0000-000000000000')";
  const direction = order === 'newest' ? 'DESC' : 'ASC';
  if (source !== 'key') {
    const dead = source === 'dead' ? " AND i.available_at = 'infinity'" : '';
    return `SELECT i.* FROM holdfast.inbox AS i
  WHERE i.${beyond}${dead} ORDER BY i.id ${direction} LIMIT $8::integer`;
  }
  return `SELECT k.* FROM (
    SELECT i.* FROM holdfast.inbox AS i
    WHERE i.partition_bucket = holdfast.bucket_of($3::text) AND i.partition_key COLLATE "C" = $3::text
      AND NOT i.parked
    UNION ALL
    SELECT i.* FROM holdfast.inbox AS i
    WHERE i.available_at = 'infinity' AND i.parked AND i.partition_key = $3::text
  ) AS k
  WHERE k.${beyond} ORDER BY k.id ${direction} LIMIT $8::integer`;
}

const FILTER = filterText('j', 'created_at');

const pageOf = (source: Source, order: Order) =>
  statement({
    name: `list_${source}_${order}`,
    text: `
SELECT j.id, j.status::text AS status, j.type, j.version, j.partition_key, j.partition_bucket,
  j.priority::integer AS priority, j.attempts, j.max_attempts,
  j.created_at, j.available_at, j.claimed_by, j.lease_expires_at, left(j.last_error, 500) AS last_error
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

export const lists = { every: both('every'), dead: both('dead'), key: both('key') };

export const keySize = statement({
  name: 'key_size',
  text: `
SELECT q.ordering <> 'none' AS keyed, CASE WHEN q.ordering <> 'none' THEN (
  SELECT count(*) FROM (
    SELECT FROM holdfast.inbox AS i
    WHERE i.partition_bucket = holdfast.bucket_of($1::text) AND i.partition_key COLLATE "C" = $1::text
      AND NOT i.parked
    ORDER BY i.position LIMIT $2::integer
  ) AS k) ELSE 0 END AS rows
FROM holdfast.queues AS q
WHERE q.name = 'inbox'`,
  columns: { keyed: bool, rows: int8 },
});

async function sourceFor(db: Executor, names: Names, filter: JobFilter): Promise<Source> {
  if (onlyDeadLetters(filter)) return 'dead';
  if (filter.key === undefined) return 'every';
  const [key] = await db.run(keySize, names, [filter.key, MAX_KEY_ROWS]);
  return key?.keyed && key.rows < MAX_KEY_ROWS ? 'key' : 'every';
}

export interface PageRequest {
  /** The `next` of the page before. */
  readonly after?: string | null | undefined;
  readonly limit: number;
  readonly order?: Order | undefined;
  readonly scan?: number | undefined;
}

export interface JobPage {
  readonly jobs: readonly ListedJob[];
  /** Where the search goes on; null: there is nothing further. */
  readonly next: string | null;
}

export async function listJobs(
  db: Executor,
  names: Names,
  filter: JobFilter,
  request: PageRequest,
): Promise<JobPage> {
  const { after = null, limit, order = 'newest', scan = SCAN_ROWS } = request;
  const { page, count } = lists[await sourceFor(db, names, filter)][order];
  const params = [...filterParams(filter), after, scan];
  const jobs = await db.run(page, names, [...params, limit]);
  if (jobs.length === limit) return { jobs, next: jobs.at(-1)?.id ?? null };
  const [seen] = await db.run(count, names, params);
  return { jobs, next: seen && seen.scanned >= scan ? seen.edge : null };
}

export interface CountStep {
  readonly matched: number;
  readonly next: string | null;
}

/** How many of the next `scan` rows match; the sum over all steps is the count. */
export async function countJobs(
  db: Executor,
  names: Names,
  filter: JobFilter,
  after: string | null = null,
  scan = COUNT_ROWS,
): Promise<CountStep> {
  const { count } = lists[await sourceFor(db, names, filter)].oldest;
  const [seen] = await db.run(count, names, [...filterParams(filter), after, scan]);
  if (!seen) return { matched: 0, next: null };
  return { matched: seen.matched, next: seen.scanned >= scan ? seen.edge : null };
}
