/**
 * A completion with children: the job leaves the queue and its children enter it in one transaction.
 */
import { writeJobs } from '../../enqueue/enqueue.js';
import type { NewJob } from '../../enqueue/insert.js';
import { withTransaction } from '../../postgres/pool.js';
import { executor, type Queryable } from '../../postgres/queryable.js';
import { complete } from '../../settle/complete.js';
import { type ContextDeps, leaseLost } from '../run/handler-context.js';
import type { LeasedJob } from '../run/leased-job.js';
import { enqueuedEvents } from './enqueued.js';

/** What a completion takes along. */
export interface Completed {
  readonly children: readonly NewJob[];
  readonly result: string | null;
}

/** Throws LEASE_LOST when the lease was lost; then neither the completion nor a child is written. */
export async function completeWithChildren(
  deps: ContextDeps,
  held: LeasedJob,
  { children, result }: Completed,
): Promise<void> {
  const { names, maxPayloadBytes } = deps;
  const write = async (client: Queryable) => {
    const db = executor(client);
    // The children first: the completion locks the row, and from then on the transaction should be short.
    const limits = { maxPayloadBytes, onMismatch: 'error' } as const;
    const enqueued = await writeJobs(db, names, children, limits);
    const { id, generation, after } = held;
    const moved = await complete(db, names, held.workerId, [{ id, generation, after, result }]);
    if (moved.length === 0) throw leaseLost(held.id, 'the completion');
    return enqueued;
  };
  const written = await withTransaction(deps.ownPool, write, deps.begin);
  for (const event of enqueuedEvents(names.queue, children, written)) deps.emit(event);
}
