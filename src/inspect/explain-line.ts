/** What stands before a job: in its key, by time, or among the suspects. */
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
SELECT h.id, h.status::text AS status, h.attempts, h.max_attempts, h.crashes,
  h.available_at, h.claimed_by, h.lease_expires_at, left(h.last_error, 500) AS last_error,
  (SELECT count(*) FROM (
    SELECT FROM holdfast.inbox AS i
    WHERE i.partition_bucket = $1::integer AND i.partition_key COLLATE "C" = $2::text
      AND NOT i.parked AND i.position < $3::bigint
    ORDER BY i.position LIMIT ${MAX_LINE}) AS line) AS ahead
FROM holdfast.inbox AS h
WHERE h.partition_bucket = $1::integer AND h.partition_key COLLATE "C" = $2::text
  AND NOT h.parked AND h.position < $3::bigint
ORDER BY h.partition_key COLLATE "C", h.position
LIMIT 1`,
  columns: {
    id: uuid,
    status: text,
    attempts: int4,
    max_attempts: int4,
    crashes: int4,
    available_at: instant,
    claimed_by: text.orNull,
    lease_expires_at: instant,
    last_error: text.orNull,
    ahead: int8,
  },
});

export type KeyHead = Row<typeof findKeyHead.columns>;

/** Of a queue that is read by key: the first job of the key; null if it is this one. */
export async function keyHead(db: Executor, names: Names, job: ShownJob): Promise<KeyHead | null> {
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
    AND NOT i.parked AND i.position > $3::bigint
  ORDER BY i.position LIMIT ${MAX_LINE}
) AS line`,
  columns: { jobs: int8 },
});

/** Of a queue that is read by key: how many jobs of the key stand behind it. */
export async function behind(db: Executor, names: Names, job: ShownJob): Promise<number> {
  const place = [job.partitionBucket, job.partitionKey, job.position];
  const [row] = await db.run(countBehind, names, place);
  return row?.jobs ?? 0;
}

export const countAhead = statement({
  name: 'explain_ahead',
  text: `
SELECT (SELECT count(*) FROM (
    SELECT FROM holdfast.inbox AS i
    WHERE i.priority = $1::smallint AND (i.available_at, i.position) < ($2::timestamptz, $3::bigint)
      AND i.crashes < 2 AND i.status = 'pending'
    ORDER BY i.available_at, i.position LIMIT ${MAX_LINE}) AS line) AS older,
  (SELECT count(*) FROM (
    SELECT FROM generate_series(1, $1::smallint - 1) AS p(priority)
    CROSS JOIN LATERAL (
      SELECT FROM holdfast.inbox AS i
      WHERE i.priority = p.priority::smallint AND i.available_at <= now()
        AND i.crashes < 2 AND i.status = 'pending'
      ORDER BY i.available_at, i.position LIMIT ${MAX_LINE}
    ) AS due
    LIMIT ${MAX_LINE}) AS line) AS more_urgent`,
  columns: { older: int8, more_urgent: int8 },
});

/** Due jobs that are claimed before it: older ones of its priority, and all of a lower number. */
export type Ahead = Row<typeof countAhead.columns>;

/** Of a queue that is read by time. */
export async function ahead(db: Executor, names: Names, job: ShownJob): Promise<Ahead> {
  const [row] = await db.run(countAhead, names, [job.priority, job.availableAt, job.position]);
  return row as Ahead;
}

export const countSuspects = statement({
  name: 'explain_suspects',
  text: `
SELECT count(*) FILTER (WHERE s.running) AS running,
  (array_agg(s.claimed_by) FILTER (WHERE s.running))[1] AS worker,
  count(*) FILTER (WHERE NOT s.running AND (s.crashes, s.id) < ($1::integer, $2::uuid)) AS before
FROM (
  SELECT i.id, i.crashes, i.claimed_by, i.status = 'processing' AS running
  FROM holdfast.inbox AS i
  WHERE i.crashes > 1 AND (i.status = 'processing' AND i.lease_expires_at > now()
    OR i.status = 'pending' AND i.available_at <= now())
) AS s`,
  columns: { running: int8, worker: text.orNull, before: int8 },
});

/** The group of suspects that runs now, on `worker`, and how many suspects come before this one. */
export type Suspects = Row<typeof countSuspects.columns>;

export async function suspects(db: Executor, names: Names, job: ShownJob): Promise<Suspects> {
  const [row] = await db.run(countSuspects, names, [job.crashes, job.id]);
  return row as Suspects;
}
