/**
 * A completion with children: the job leaves the queue and its children enter it in one transaction.
 */
import { writeJobs } from '../enqueue/enqueue.js';
import type { NewJob } from '../enqueue/insert.js';
import { withTransaction } from '../postgres/pool.js';
import { executor } from '../postgres/queryable.js';
import { complete } from '../settle/complete.js';
import type { ContextGround } from './context.js';
import type { HeldJob } from './held.js';

/** False: the lease was lost, and neither the completion nor a child was written. */
export async function completeWithChildren(
  ground: ContextGround,
  held: HeldJob,
  children: readonly NewJob[],
): Promise<boolean> {
  const { names, maxPayloadBytes } = ground;
  return withTransaction(ground.pool, async (client) => {
    const db = executor(client);
    const moved = await complete(db, names, held.workerId, [held]);
    if (moved.length === 0) return false;
    await writeJobs(db, names, children, { maxPayloadBytes, onMismatch: 'error' });
    return true;
  });
}
