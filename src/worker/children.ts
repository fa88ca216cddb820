/**
 * A completion with children: the job leaves the queue and its children enter it in one transaction.
 */
import { writeJobs } from '../enqueue/enqueue.js';
import type { NewJob } from '../enqueue/insert.js';
import { withTransaction } from '../postgres/pool.js';
import { executor } from '../postgres/queryable.js';
import { complete } from '../settle/complete.js';
import { type ContextGround, leaseLost } from './context.js';
import type { HeldJob } from './held.js';

/** Throws LEASE_LOST when the lease was lost; then neither the completion nor a child is written. */
export async function completeWithChildren(
  ground: ContextGround,
  held: HeldJob,
  children: readonly NewJob[],
): Promise<void> {
  const { names, maxPayloadBytes } = ground;
  return withTransaction(ground.house, async (client) => {
    const db = executor(client);
    // The children first: the completion locks the row, and from then on the transaction should be short.
    await writeJobs(db, names, children, { maxPayloadBytes, onMismatch: 'error' });
    const moved = await complete(db, names, held.workerId, [held]);
    if (moved.length === 0) throw leaseLost(held.id, 'the completion');
  });
}
