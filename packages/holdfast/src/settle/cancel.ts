/**
 * Cancelling by the owner: the handler found that the work is no longer wanted. The job goes to the
 * archive as `cancelled` with the reason; it is neither completed nor a dead letter.
 */
import { fencedIn, KEEPS_EFFECTS } from '../postgres/fragments.js';
import { statement, textArray, uuid } from '../postgres/statement.js';
import { fence, idsOf, type Settle, type Settled } from './settled.js';

export interface Cancellation extends Settled {
  readonly reason: string;
}

export const cancelOwnJobs = statement({
  name: 'cancel_own',
  text: `
WITH gone AS (
  DELETE FROM holdfast.inbox AS i
  USING unnest($2::uuid[], $3::bigint[], $4::text[]) AS cancelled(id, generation, reason)
  WHERE ${fencedIn('cancelled')}
  RETURNING i.*, cancelled.reason
), ${KEEPS_EFFECTS}
INSERT INTO holdfast.inbox_archive (id, created_at, claimed_at, completed_at, lease_generation,
  partition_bucket, attempts, max_attempts, version, status, priority, type, partition_key,
  payload, headers, idempotency_key, claimed_by, last_error, history, group_key)
SELECT id, created_at, claimed_at, now(), lease_generation, partition_bucket, attempts, max_attempts,
  version, 'cancelled', priority, type, partition_key, payload, headers, idempotency_key,
  claimed_by, reason, history, group_key
FROM gone
RETURNING id`,
  columns: { id: uuid },
});

export const cancelOwn: Settle<Cancellation> = async (db, names, workerId, jobs) => {
  const reasons = textArray(jobs.map((job) => job.reason));
  return idsOf(await db.run(cancelOwnJobs, names, [...fence(workerId, jobs), reasons]));
};
