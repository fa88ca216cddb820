/**
 * A completion with children: the job leaves the queue and its children enter it in one transaction.
 */
import { writeJobs } from '../enqueue/enqueue.js';
import type { NewJob } from '../enqueue/insert.js';
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
  const { names } = ground;
  const client = await ground.pool.connect();
  let broken: Error | undefined;
  try {
    await client.query('BEGIN');
    const db = executor(client);
    const moved = await complete(db, names, held.workerId, [held]);
    if (moved.length === 1) {
      const limits = { maxPayloadBytes: ground.maxPayloadBytes, onMismatch: 'error' } as const;
      await writeJobs(db, names, children, limits);
    }
    await client.query('COMMIT');
    return moved.length === 1;
  } catch (error) {
    await client.query('ROLLBACK').catch((failed: Error) => {
      broken = failed;
    });
    throw error;
  } finally {
    client.release(broken);
  }
}
