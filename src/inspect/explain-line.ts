/** What stands before a job: the head of its key if it is ordered, the due jobs of its bucket if it is not. */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { int4, int8, type Row, statement, text, uuid } from '../postgres/statement.js';
import { instant } from './columns.js';
import type { ShownJob } from './show.js';

/** Lines longer than this are not counted to their end. */
export const MAX_LINE = 1_000;

export const findKeyHead = statement({
  name: 'explain_key_head',
  text: `
SELECT h.id, h.status::text AS status, h.ordering::text AS ordering, h.attempts, h.max_attempts,
  h.available_at, h.claimed_by, h.lease_expires_at, left(h.last_error, 500) AS last_error,
  (SELECT count(*) FROM (
    SELECT FROM holdfast.inbox AS i
    WHERE i.partition_bucket = $1::integer AND i.partition_key COLLATE "C" = $2::text
      AND i.ordering IN ('key', 'key_strict') AND i.position < $3::bigint
    LIMIT ${MAX_LINE}) AS line) AS ahead
FROM holdfast.inbox AS h
WHERE h.partition_bucket = $1::integer AND h.partition_key COLLATE "C" = $2::text
  AND h.ordering IN ('key', 'key_strict') AND h.position < $3::bigint
ORDER BY h.partition_key COLLATE "C", h.position
LIMIT 1`,
  columns: {
    id: uuid,
    status: text,
    ordering: text,
    attempts: int4,
    max_attempts: int4,
    available_at: instant,
    claimed_by: text.orNull,
    lease_expires_at: instant,
    last_error: text.orNull,
    ahead: int8,
  },
});

export type KeyHead = Row<typeof findKeyHead.columns>;

/** The job that its key waits for, with how many stand before; null: the job is the first of its key. */
export async function keyHead(db: Executor, names: Names, job: ShownJob): Promise<KeyHead | null> {
  if (job.ordering !== 'key' && job.ordering !== 'key_strict') return null;
  const place = [job.partitionBucket, job.partitionKey, job.position];
  const [head] = await db.run(findKeyHead, names, place);
  return head ?? null;
}

export const countBehind = statement({
  name: 'explain_key_behind',
  text: `
SELECT count(*) AS jobs FROM (
  SELECT FROM holdfast.inbox AS i
  WHERE i.partition_bucket = $1::integer AND i.partition_key COLLATE "C" = $2::text
    AND i.ordering IN ('key', 'key_strict') AND i.position > $3::bigint
  LIMIT ${MAX_LINE}
) AS line`,
  columns: { jobs: int8 },
});

/** How many jobs of its key stand behind it. */
export async function behind(db: Executor, names: Names, job: ShownJob): Promise<number> {
  const place = [job.partitionBucket, job.partitionKey, job.position];
  const [row] = await db.run(countBehind, names, place);
  return row?.jobs ?? 0;
}

export const countAhead = statement({
  name: 'explain_bucket_ahead',
  text: `
SELECT count(*) AS jobs FROM (
  SELECT FROM holdfast.inbox AS i
  WHERE i.priority = $1::smallint AND i.partition_bucket = $2::integer
    AND i.ordering IN ('none', 'parked')
    AND (i.available_at, i.position) < ($3::timestamptz, $4::bigint)
    AND i.status = 'pending'
  LIMIT ${MAX_LINE}
) AS line`,
  columns: { jobs: int8 },
});

/** How many due jobs of its bucket and priority are claimed before it. */
export async function ahead(db: Executor, names: Names, job: ShownJob): Promise<number> {
  const place = [job.priority, job.partitionBucket, job.availableAt, job.position];
  const [row] = await db.run(countAhead, names, place);
  return row?.jobs ?? 0;
}
