/** What stands before a job and behind it: in its key, or among the suspects. By time: ahead.ts. */
import type { Names } from '../../../postgres/names.js';
import type { Executor } from '../../../postgres/queryable.js';
import { int4, int8, type Row, statement, text, uuid } from '../../../postgres/statement.js';
import { runs } from '../../../postgres/taken.js';
import type { Versions } from '../../fleet/workers.js';
import type { ShownJob } from '../../job/show.js';
import { instant } from '../../reading/columns.js';

/** Lines longer than this are not counted to their end. */
export const MAX_LINE = 1_000;

export const findKeyHead = statement({
  name: 'explain_key_head',
  text: `
SELECT h.id, h.status::text AS status, h.type, h.version, h.attempts, h.max_attempts, h.crashes,
  h.available_at AS run_at, h.claimed_by, h.claimed_at, h.lease_expires_at, left(h.last_error, 500) AS last_error,
  h.history #>> '{-1,outcome}' AS last_outcome,
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
    type: text,
    version: int4,
    attempts: int4,
    max_attempts: int4,
    crashes: int4,
    run_at: instant,
    claimed_by: text.orNull,
    claimed_at: instant,
    lease_expires_at: instant,
    last_error: text.orNull,
    last_outcome: text.orNull,
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

export const findBehind = statement({
  name: 'explain_key_behind',
  text: `
SELECT count(*) AS jobs, (array_agg(line.id ORDER BY line.position))[1] AS next,
  (array_agg(line.id ORDER BY line.position) FILTER (WHERE line.runs))[1] AS running,
  (array_agg(line.claimed_by ORDER BY line.position) FILTER (WHERE line.runs))[1] AS worker
FROM (
  SELECT i.id, i.position, i.claimed_by,
    ${runs('i')} AS runs
  FROM holdfast.inbox AS i
  WHERE i.partition_bucket = $1::integer AND i.partition_key COLLATE "C" = $2::text
    AND NOT i.parked AND i.position > $3::bigint
  ORDER BY i.position LIMIT ${MAX_LINE}
) AS line`,
  columns: { jobs: int8, next: uuid.orNull, running: uuid.orNull, worker: text.orNull },
});

/** How many jobs of the key stand behind it, the first of them, and one that runs all the same. */
export type Behind = Row<typeof findBehind.columns>;

/** Of a queue that is read by key. */
export async function behind(db: Executor, names: Names, job: ShownJob): Promise<Behind> {
  const place = [job.partitionBucket, job.partitionKey, job.position];
  const [row] = await db.run(findBehind, names, place);
  return row as Behind;
}

export const countSuspects = statement({
  name: 'explain_suspects',
  text: `
SELECT count(*) FILTER (WHERE s.running) AS running,
  (array_agg(s.claimed_by) FILTER (WHERE s.running))[1] AS worker,
  min(s.claimed_at) FILTER (WHERE s.running) AS since,
  -- Claims pass over what none of the workers handles.
  count(*) FILTER (WHERE NOT s.running AND s.version <= ($3::text::jsonb ->> s.type)::integer
    AND (s.crashes, s.id) < ($1::integer, $2::uuid)) AS before
FROM (
  SELECT i.id, i.type, i.version, i.crashes, i.claimed_by, i.claimed_at, i.status = 'processing' AS running
  FROM holdfast.inbox AS i
  WHERE i.crashes > 1 AND (${runs('i')}
    OR i.status = 'pending' AND i.available_at <= now())
) AS s`,
  columns: { running: int8, worker: text.orNull, since: instant, before: int8 },
});

/** The group of suspects that runs now, on `worker`, and how many suspects come before this one. */
export type Suspects = Row<typeof countSuspects.columns>;

/** `versions`: what the workers handle that can run it. */
export async function suspects(
  db: Executor,
  names: Names,
  job: ShownJob,
  versions: Versions,
): Promise<Suspects> {
  const [row] = await db.run(countSuspects, names, [job.crashes, job.id, JSON.stringify(versions)]);
  return row as Suspects;
}
