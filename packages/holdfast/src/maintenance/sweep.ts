/**
 * Sweeping the registry: workers that missed their heartbeats are declared dead, and the rows of those
 * that have been dead for a week are removed. A server that was itself away less than a TTL ago declares
 * nobody dead: while it was away no heartbeat could arrive. A worker that has sent none since it registered is still
 * starting, perhaps on a busy machine: it has a minute at least, unless it holds jobs of the queue.
 */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { statement, text } from '../postgres/statement.js';

export const sweepWorkers = statement({
  name: 'sweep_workers',
  text: `
UPDATE holdfast.workers AS w
SET status = 'dead'
WHERE w.status IN ('alive', 'draining')
  AND w.id <> $2::text
  -- Its own TTL may be longer than that of the one who judges.
  AND w.last_seen_at < now() - interval '1 millisecond' * greatest($1::integer,
    CASE WHEN jsonb_typeof(w.metadata -> 'ttlMs') = 'number'
      THEN least((w.metadata ->> 'ttlMs')::numeric, 86400000) END,
    CASE WHEN w.last_seen_at = w.started_at
      AND NOT EXISTS (SELECT FROM holdfast.inbox_claims AS c WHERE c.worker_id = w.id) THEN 60000 END)
  AND pg_postmaster_start_time() < now() - $1::integer * interval '1 millisecond'
RETURNING w.id`,
  columns: { id: text },
});

/** Returns the ids that were declared dead by this call. Whoever sweeps is alive. */
export async function sweepDeadWorkers(db: Executor, names: Names, sweeper: string, ttlMs: number) {
  const rows = await db.run(sweepWorkers, names, [ttlMs, sweeper]);
  return rows.map((row) => row.id);
}

export const forgetWorkers = statement({
  name: 'forget_workers',
  text: `
WITH permits AS (
  DELETE FROM holdfast.permits AS p
  WHERE NOT EXISTS (SELECT FROM holdfast.workers AS w WHERE w.id = p.worker_id AND w.status <> 'dead')
    OR NOT EXISTS (SELECT FROM holdfast.limits AS l WHERE l.id = p.limit_id)
)
DELETE FROM holdfast.workers AS w
WHERE w.status = 'dead' AND w.last_seen_at < now() - interval '7 days'
RETURNING w.id`,
  columns: { id: text },
});

/** The registry keeps a week of the dead, which is longer than any lease. What they held of limits counts no more. */
export async function forgetDeadWorkers(db: Executor, names: Names): Promise<number> {
  return (await db.run(forgetWorkers, names, [])).length;
}
