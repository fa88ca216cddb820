/**
 * Isolating: before a suspect runs alone in its process, the row says so.
 *
 * A suspect is a job whose owner vanished while holding it. If the process dies again while the mark
 * stands, nothing else can have been the cause, and the attempt counts; without the mark it does not.
 * The mark is taken back before anything else is started beside a suspect that runs for long, or after
 * one that lost its lease; that needs no live lease, as it can only spare the job an attempt.
 */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { statement, uuid } from '../postgres/statement.js';
import type { Lease } from './renew.js';

export const isolateJob = statement({
  name: 'isolate',
  text: `
UPDATE holdfast.inbox AS i
SET isolated = $4::boolean
WHERE i.id = $2::uuid
  AND i.lease_generation = $3::bigint
  AND i.claimed_by = $1::text
  AND i.status = 'processing'
  AND (i.lease_expires_at > statement_timestamp() OR NOT $4::boolean)
RETURNING i.id`,
  columns: { id: uuid },
});

/** False: the lease is lost and the job must not be run. */
export async function isolate(
  db: Executor,
  names: Names,
  workerId: string,
  job: Lease,
  alone = true,
): Promise<boolean> {
  const rows = await db.run(isolateJob, names, [workerId, job.id, job.generation, alone]);
  return rows.length === 1;
}
