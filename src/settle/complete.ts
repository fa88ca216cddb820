/**
 * Completing: finished jobs leave the queue and enter the archive, in one statement.
 *
 * Fenced by owner, generation, state and a live lease. A job that is not returned was not completed by
 * this call: somebody else owns it now, or the lease ran out.
 */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { plainArray, statement, uuid } from '../postgres/statement.js';

export interface Settled {
  readonly id: string;
  readonly generation: number;
}

export const completeJobs = statement({
  name: 'complete',
  text: `
WITH gone AS (
  DELETE FROM holdfast.inbox AS i
  USING unnest($2::uuid[], $3::bigint[]) AS done(id, generation)
  WHERE i.id = done.id
    AND i.lease_generation = done.generation
    AND i.claimed_by = $1::text
    AND i.status = 'processing'
    AND i.lease_expires_at > statement_timestamp()
  RETURNING i.*
)
INSERT INTO holdfast.inbox_archive (id, created_at, claimed_at, completed_at, lease_generation,
  partition_bucket, attempts, max_attempts, version, status, priority, type, partition_key,
  payload, headers, idempotency_key, claimed_by, last_error, history)
SELECT id, created_at, claimed_at, now(), lease_generation, partition_bucket, attempts, max_attempts,
  version, 'completed', priority, type, partition_key, payload, headers, idempotency_key,
  claimed_by, last_error, history
FROM gone
RETURNING id`,
  columns: { id: uuid },
});

export async function complete(
  db: Executor,
  names: Names,
  workerId: string,
  jobs: readonly Settled[],
): Promise<string[]> {
  const rows = await db.run(completeJobs, names, [
    workerId,
    plainArray(jobs.map((job) => job.id)),
    plainArray(jobs.map((job) => job.generation)),
  ]);
  return rows.map((row) => row.id);
}

export const findCompleted = statement({
  name: 'find_completed',
  text: `
SELECT a.id
FROM unnest($2::uuid[], $3::bigint[]) AS done(id, generation)
JOIN holdfast.inbox_archive AS a
  ON a.id = done.id AND a.lease_generation = done.generation AND a.claimed_by = $1::text`,
  columns: { id: uuid },
});

/** After a completion whose answer was lost with the connection: which of the jobs it did complete. */
export async function completedBefore(
  db: Executor,
  names: Names,
  workerId: string,
  jobs: readonly Settled[],
): Promise<string[]> {
  const rows = await db.run(findCompleted, names, [
    workerId,
    plainArray(jobs.map((job) => job.id)),
    plainArray(jobs.map((job) => job.generation)),
  ]);
  return rows.map((row) => row.id);
}
