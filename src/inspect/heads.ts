/**
 * What is in flight and what has waited longest, at a backlog too large to read.
 *
 * Jobs are claimed in the order of their index, so what is in flight lies at the start of each bucket
 * (of each key, if jobs are ordered) and the oldest that waits comes right behind it. These statements read
 * the first rows of each, and further only where all of those were in flight. A group with a
 * worker's name is what that worker holds; the group without a name are the heads that wait, of which
 * only the oldest is of interest. What lies further back is not seen: the answers are near, not exact.
 */
import { BUCKETS } from '../job/key.js';
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { int4, int8, type Row, statement, text } from '../postgres/statement.js';
import { instant } from './columns.js';
import { keyHeads } from './key-heads.js';

const FIRST = 4;
const FURTHER = 32;
const FURTHEST = 1_000;
const GROUPED = {
  claimed_by: text.orNull,
  jobs: int8,
  expired: int8,
  oldest_due: instant,
  oldest_claim: instant,
  /** Buckets that were looked at, of 1024. */
  buckets: int4,
} as const;

export type Head = Row<typeof GROUPED>;

/** Rows of the bucket and priority of `range` in the order of claims, from one rank to another. */
const dueRows = (range: string, from: number, to: number) => `
    SELECT i.claimed_by, i.lease_expires_at, i.available_at, i.claimed_at
    FROM holdfast.inbox AS i
    WHERE i.priority = ${range}.priority AND i.partition_bucket = ${range}.bucket
      AND i.ordering IN ('none', 'parked') AND i.available_at <= now()
    ORDER BY i.available_at, i.position
    OFFSET ${from} LIMIT ${to - from}`;

/** The ranges of which all rows in `cte` are claimed, so that there may be more. */
const full = (cte: string, rows: number) => `(
    SELECT c.priority, c.bucket FROM ${cte} AS c
    GROUP BY c.priority, c.bucket HAVING count(c.claimed_by) = ${rows})`;

export const bucketHeads = statement({
  name: 'bucket_heads',
  text: `
WITH range AS MATERIALIZED (
  SELECT p.priority, b.bucket
  FROM generate_series(1, 4) AS p(priority)
  -- Only the priorities that are used; with a LIMIT, so that it cannot be planned as a join of all rows.
  CROSS JOIN LATERAL (
    SELECT FROM holdfast.inbox AS i
    WHERE i.priority = p.priority AND i.ordering IN ('none', 'parked')
    ORDER BY i.partition_bucket, i.available_at LIMIT 1
  ) AS used
  CROSS JOIN generate_series(0, ${BUCKETS - 1}) AS b(bucket)
), first AS MATERIALIZED (
  SELECT r.priority, r.bucket, h.* FROM range AS r
  CROSS JOIN LATERAL (${dueRows('r', 0, FIRST)}) AS h
), further AS MATERIALIZED (
  SELECT r.priority, r.bucket, h.* FROM ${full('first', FIRST)} AS r
  CROSS JOIN LATERAL (${dueRows('r', FIRST, FURTHER)}) AS h
), furthest AS MATERIALIZED (
  SELECT r.priority, r.bucket, h.* FROM ${full('further', FURTHER - FIRST)} AS r
  CROSS JOIN LATERAL (${dueRows('r', FURTHER, FURTHEST)}) AS h
)
SELECT seen.claimed_by, count(*) AS jobs,
  count(*) FILTER (WHERE seen.lease_expires_at <= now()) AS expired,
  min(seen.available_at) AS oldest_due, min(seen.claimed_at) AS oldest_claim, ${BUCKETS} AS buckets
FROM (
  SELECT * FROM first UNION ALL SELECT * FROM further UNION ALL SELECT * FROM furthest
) AS seen
GROUP BY seen.claimed_by`,
  columns: GROUPED,
});

export async function heads(db: Executor, names: Names, ordered: boolean): Promise<Head[]> {
  const free = await db.run(bucketHeads, names, []);
  if (!ordered) return free;
  return [...free, ...(await db.run(keyHeads, names, []))];
}
