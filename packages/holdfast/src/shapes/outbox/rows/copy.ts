/**
 * Copies of published events. A copy is a new job with the key, the headers and the data of the first one, and has the
 * first one's id in its payload. Copies are not copied again: the first ones are in the same archive. The order is that of
 * the enqueues, as far as the archive knows it: by time, then by id.
 */
import type { Names } from '../../../postgres/names.js';
import type { Executor } from '../../../postgres/queryable.js';
import { int8, statement, text } from '../../../postgres/statement.js';

export interface EventRange {
  readonly from: string;
  readonly to: string;
  readonly key: string | null;
  readonly type: string | null;
}

/** As $1 to $4. What was written later has ended later: the archive is read from there only. */
const RANGE = `a.status = 'completed' AND a.type = 'event' AND NOT a.payload ? 'id'
    AND a.created_at >= $1::timestamptz AND a.completed_at >= $1::timestamptz
    AND a.created_at < $2::timestamptz
    AND ($3::text IS NULL OR a.partition_key = $3::text)
    AND ($4::text IS NULL OR a.payload ->> 'type' = $4::text)`;

export const outboxCopy = statement({
  name: 'outbox_copy',
  text: `
WITH found AS MATERIALIZED (
  SELECT a.id, a.version, a.partition_key, a.partition_bucket, a.payload, a.headers, a.priority,
    a.max_attempts, a.created_at
  FROM holdfast.inbox_archive AS a
  WHERE ${RANGE}
    AND ($5::timestamptz IS NULL OR (a.created_at, a.id) > ($5::timestamptz, $6::uuid))
  ORDER BY a.created_at, a.id
  LIMIT $7::integer
), written AS (
  INSERT INTO holdfast.inbox (type, version, partition_key, partition_bucket, payload, headers,
    priority, max_attempts, parked)
  SELECT 'event', f.version, f.partition_key, f.partition_bucket,
    f.payload || jsonb_build_object('id', f.id,
      'occurredAt', coalesce(f.payload ->> 'occurredAt',
        to_char(f.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))),
    f.headers, f.priority, f.max_attempts, false
  FROM found AS f
  ORDER BY f.created_at, f.id
  RETURNING id
)
SELECT (SELECT count(*) FROM written) AS copied, l.created_at::text AS at, l.id::text AS id
FROM (SELECT) AS one LEFT JOIN LATERAL (
  SELECT f.created_at, f.id FROM found AS f ORDER BY f.created_at DESC, f.id DESC LIMIT 1
) AS l ON true`,
  columns: { copied: int8, at: text.orNull, id: text.orNull },
});

export const outboxCount = statement({
  name: 'outbox_count',
  text: `
SELECT count(*) AS events FROM holdfast.inbox_archive AS a
  WHERE ${RANGE}`,
  columns: { events: int8 },
});

export const outboxNow = statement({
  name: 'outbox_now',
  text: `
SELECT clock_timestamp()::text AS now FROM holdfast.queues AS q WHERE q.name = 'inbox'`,
  columns: { now: text },
});

export interface CopyStep {
  readonly copied: number;
  /** Where the next step begins; null: nothing was found. */
  readonly last: { readonly at: string; readonly id: string } | null;
}

export async function copyEvents(
  db: Executor,
  names: Names,
  range: EventRange,
  after: CopyStep['last'],
  limit: number,
): Promise<CopyStep> {
  const place = [after?.at ?? null, after?.id ?? null];
  const [row] = await db.run(outboxCopy, names, [...paramsOf(range), ...place, limit]);
  const last = row?.at != null && row.id != null ? { at: row.at, id: row.id } : null;
  return { copied: row?.copied ?? 0, last };
}

export async function countEvents(db: Executor, names: Names, range: EventRange): Promise<number> {
  const [row] = await db.run(outboxCount, names, paramsOf(range));
  return row?.events ?? 0;
}

/** By the database's clock. */
export async function now(db: Executor, names: Names): Promise<string> {
  const [row] = await db.run(outboxNow, names, []);
  return row?.now ?? 'infinity';
}

const paramsOf = ({ from, to, key, type }: EventRange) => [from, to, key, type];
