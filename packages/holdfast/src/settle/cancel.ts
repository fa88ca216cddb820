/**
 * Cancelling by the owner: the handler found that the work is no longer wanted. The job goes to the
 * archive as `cancelled` with the reason; it is neither completed nor a dead letter.
 */
import { ALL_FENCED, archived, CANCELLED_TOLD, KEEPS_EFFECTS } from '../postgres/fragments.js';
import { statement, uuid } from '../postgres/statement.js';
import { byId, fact, fence, idsOf, type Settle, type Settled } from './settled.js';

export interface Cancellation extends Settled {
  readonly reason: string;
}

export const cancelOwnJobs = statement({
  name: 'cancel_own',
  text: `
WITH gone AS (
  DELETE FROM holdfast.inbox AS i
  WHERE ${ALL_FENCED}
  RETURNING i.*, ${fact('reason')} AS reason
), ${KEEPS_EFFECTS}
${archived('cancelled', { lastError: 'reason' })}
WHERE ${CANCELLED_TOLD}
RETURNING id`,
  columns: { id: uuid },
});

export const cancelOwn: Settle<Cancellation> = async (db, names, workerId, jobs) => {
  const facts = byId(jobs, ({ reason }) => ({ reason }));
  return idsOf(await db.run(cancelOwnJobs, names, [...fence(workerId, jobs), facts]));
};
