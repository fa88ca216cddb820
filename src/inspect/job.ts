/** One job, wherever it is: in the queue, or in its archive. */
import { checkId } from '../job/id.js';
import { inQueue } from '../postgres/in-queue.js';
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { int4, int8, json, type Row, statement, text, timestamp } from '../postgres/statement.js';
import { JOB } from './columns.js';

export const findJobRow = statement({
  name: 'find_job',
  text: `
SELECT i.id, i.status::text AS status, i.type, i.version, i.partition_key, i.partition_bucket,
  i.priority::integer AS priority, i.attempts, i.max_attempts, i.lease_generation, i.crashes,
  i.claimed_by, i.claimed_at, i.lease_expires_at, i.available_at, i.created_at,
  i.completed_at, i.last_error, i.history, i.payload, i.headers, i.idempotency_key
FROM holdfast.inbox AS i
WHERE i.id = $1::uuid
UNION ALL
SELECT a.id, a.status::text, a.type, a.version, a.partition_key, a.partition_bucket,
  a.priority::integer, a.attempts, a.max_attempts, a.lease_generation, 0,
  a.claimed_by, a.claimed_at, NULL, NULL, a.created_at,
  a.completed_at, a.last_error, a.history, a.payload, a.headers, a.idempotency_key
FROM holdfast.inbox_archive AS a
WHERE a.id = $1::uuid
LIMIT 1`,
  columns: {
    ...JOB,
    attempts: int4,
    max_attempts: int4,
    lease_generation: int8,
    crashes: int4,
    claimed_by: text.orNull,
    claimed_at: timestamp.orNull,
    lease_expires_at: timestamp.orNull,
    available_at: timestamp.orNull,
    created_at: timestamp,
    completed_at: timestamp.orNull,
    last_error: text.orNull,
    history: json.orNull,
    payload: json,
    headers: json.orNull,
    idempotency_key: text.orNull,
  },
});

export type JobRow = Row<typeof findJobRow.columns>;

export async function findJob(db: Executor, names: Names, id: string): Promise<JobRow | null> {
  const [row] = await inQueue(names, db.run(findJobRow, names, [checkId(id)]));
  return row ?? null;
}
