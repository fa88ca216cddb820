/**
 * Cancelling by the owner: the handler found that the work is no longer wanted. The job goes to the
 * archive as `cancelled` with the reason; it is neither completed nor a dead letter.
 */
import { archived, CANCELLED_TOLD, fencedIn, KEEPS_EFFECTS } from '../postgres/fragments.js';
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
${archived('cancelled', { lastError: 'reason' })}
WHERE ${CANCELLED_TOLD}
RETURNING id`,
  columns: { id: uuid },
});

export const cancelOwn: Settle<Cancellation> = async (db, names, workerId, jobs) => {
  const reasons = textArray(jobs.map((job) => job.reason));
  return idsOf(await db.run(cancelOwnJobs, names, [...fence(workerId, jobs), reasons]));
};
