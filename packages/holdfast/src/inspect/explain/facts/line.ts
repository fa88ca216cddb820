/** What stands before a job and behind it. A bounded number of rows is read: what lies beyond is not counted, and said. */

import { int4, int8, text, uuid } from '../../../postgres/statement.js';
import { runs } from '../../../postgres/taken.js';
import type { Versions } from '../../fleet/workers.js';
import type { ShownJob } from '../../job/show.js';
import { type Answer, asks, asksOne } from '../../reading/asks.js';
import { instant } from '../../reading/columns.js';
import { inLines, LINES } from '../../reading/lines.js';

/** Lines longer than this are not counted to their end. */
export const MAX_LINE = 1_000;

const placeOf = ({ partitionBucket, partitionKey, position }: ShownJob) => [
  partitionBucket,
  partitionKey,
  position,
];

/** Of a queue that is read by key: the first job of the key; null if it is this one. */
export const keyHead = asks({
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
  params: placeOf,
});

export type KeyHead = Answer<typeof keyHead>;

export const behind = asksOne({
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
  params: placeOf,
});

/** How many jobs of the key stand behind it, the first of them, and one that runs all the same. */
export type Behind = Answer<typeof behind>;

/** `versions`: what the workers handle that can run it. */
export const suspects = asksOne({
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
  params: ({ crashes, id }: ShownJob, versions: Versions) => [
    crashes,
    id,
    JSON.stringify(versions),
  ],
});

/** The group of suspects that runs now, on `worker`, and how many suspects come before this one. */
export type Suspects = Answer<typeof suspects>;

/** Of its priority, and of those before it, so many rows are read. */
export const MAX_AHEAD = 10_000;

/** $4: by type, the newest version that one of its workers handles. */
const COUNTS = (which: string, when: string) => `
  SELECT count(*) FILTER (WHERE r.status = 'pending' AND r.version <= ($4::text::jsonb ->> r.type)::integer) AS jobs,
    count(*) AS rows
  FROM (
    SELECT * FROM (${inLines({
      columns: 'i.status, i.type, i.version',
      which: `${which} AND l.version <= ($4::text::jsonb ->> l.type)::integer`,
      ...{ when, most: `${MAX_AHEAD}` },
    })}
    ) AS r LIMIT ${MAX_AHEAD}
  ) AS r`;

/** `versions`: what the workers handle that can run it, but for types that they do not claim now. */
export const ahead = asksOne({
  name: 'explain_ahead',
  text: `
WITH RECURSIVE ${LINES}
SELECT o.jobs AS older, o.rows AS older_read, u.jobs AS more_urgent, u.rows AS more_urgent_read
FROM (${COUNTS('l.priority = $1::smallint', '(i.available_at, i.position) < ($2::timestamptz, $3::bigint)')}
) AS o
CROSS JOIN (${COUNTS('l.priority < $1::smallint', 'i.available_at <= now()')}
) AS u`,
  columns: { older: int8, older_read: int8, more_urgent: int8, more_urgent_read: int8 },
  params: ({ priority, runAt, position }: ShownJob, versions: Versions) => [
    ...[priority, runAt, position],
    JSON.stringify(versions),
  ],
});

export type Ahead = Answer<typeof ahead>;

/** The first of these that was claimed. */
const FIRST = (of: string) =>
  `(array_agg(${of} ORDER BY h.claimed_at, h.id) FILTER (WHERE h.of_key))[1]`;

/** Where keys take turns. It counts as a claim does: by the claims of the workers. */
export const keyWindow = asksOne({
  name: 'explain_window',
  text: `
SELECT count(*) FILTER (WHERE h.of_key) AS key_jobs, count(*) FILTER (WHERE h.of_group) AS group_jobs,
  ${FIRST('h.id')} AS longest, ${FIRST('h.claimed_by')} AS worker, ${FIRST('h.claimed_at')} AS since,
  (SELECT count(*) FROM (
    SELECT FROM holdfast.inbox AS i
    WHERE i.partition_bucket = $1::integer AND coalesce(i.group_key, '') COLLATE "C" = $2::text
      AND i.partition_key COLLATE "C" = $3::text AND NOT i.parked AND i.crashes < 2
      AND (i.available_at, i.position) < ($4::timestamptz, $5::bigint) AND i.status = 'pending'
    LIMIT ${MAX_LINE}) AS line) AS before,
  (SELECT w.per_key FROM holdfast.key_windows AS w WHERE w.queue = 'inbox' AND w.key = $3::text) AS own
FROM (
  SELECT DISTINCT i.id, i.claimed_by, i.claimed_at, i.in_group AND i.partition_key = $3::text AS of_key,
    i.in_group AND $2::text <> '' AS of_group
  FROM holdfast.inbox_claims AS c
  CROSS JOIN LATERAL unnest(c.jobs) AS j(id)
  -- With a LIMIT, so that it cannot be planned as a join of all rows.
  CROSS JOIN LATERAL (
    SELECT i.id, i.claimed_by, i.claimed_at, i.partition_key, coalesce(i.group_key, '') = $2::text AS in_group
    FROM holdfast.inbox AS i
    WHERE i.id = j.id AND i.status = 'processing' LIMIT 1
  ) AS i
) AS h`,
  columns: {
    key_jobs: int8,
    group_jobs: int8,
    /** Of its key, the one that is held for longest. */
    longest: uuid.orNull,
    worker: text.orNull,
    since: instant,
    /** Of its key, so many wait that were due before it. */
    before: int8,
    /** The key has a window of its own. */
    own: int4.orNull,
  },
  params: ({ partitionBucket, groupKey, partitionKey, runAt, position }: ShownJob) => [
    partitionBucket,
    groupKey ?? '',
    partitionKey,
    runAt,
    position,
  ],
});

export type Window = Answer<typeof keyWindow>;
