/**
 * Starting, for a job that crashed before: the row says that its handler is about to be called.
 *
 * A claim takes more jobs than run at once. If the process dies, what still waited in it was not the cause, and
 * must not become a suspect for it. Only jobs that crashed before are marked: a first crash changes nothing, so
 * all others need no statement to start.
 */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { statement, uuid } from '../postgres/statement.js';
import type { Lease } from './renew.js';

export const markStartedJob = statement({
  name: 'mark_started',
  text: `
UPDATE holdfast.inbox AS i
SET started = true
WHERE i.id = $2::uuid
  AND i.lease_generation = $3::bigint
  AND i.claimed_by = $1::text
  AND i.status = 'processing'
  AND i.lease_expires_at > statement_timestamp()
RETURNING i.id`,
  columns: { id: uuid },
});

/** False: the lease is lost. */
export async function markStarted(
  db: Executor,
  names: Names,
  workerId: string,
  job: Lease,
): Promise<boolean> {
  const rows = await db.run(markStartedJob, names, [workerId, job.id, job.generation]);
  return rows.length === 1;
}
