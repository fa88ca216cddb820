/**
 * What the row of a job says that took its process along before: that its handler was called, and that it runs alone. A
 * claim takes more jobs than run at once; what still waited when the process died was not the cause. Only jobs that crashed
 * before are marked as started: a first crash changes nothing, so all others need no statement to start.
 *
 * If the process dies while a suspect runs alone, nothing else can have been the cause, and the attempt counts; without
 * the mark it does not. The mark is taken back before anything else is started beside it, or after it lost its lease; that
 * needs no live lease, as it can only spare the job an attempt.
 */
import { fenced } from '../postgres/fragments.js';
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { statement, uuid } from '../postgres/statement.js';
import type { Lease } from './renew.js';

export const markStartedJob = statement({
  name: 'mark_started',
  text: `
UPDATE holdfast.inbox AS i
SET started = true
WHERE ${fenced('$2::uuid', '$3::bigint')}
RETURNING i.id`,
  columns: { id: uuid },
});

/** False: the lease is lost. */
export async function markStarted(db: Executor, names: Names, workerId: string, job: Lease) {
  const rows = await db.run(markStartedJob, names, [workerId, job.id, job.generation]);
  return rows.length === 1;
}

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
