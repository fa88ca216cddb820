/**
 * The ring as an observer asks for it: the fleet's own function over the live workers that handle the
 * queue. The registry is read a moment after the workers read it, so while the fleet changes, this picture
 * and theirs may differ.
 */
import { ringOwners } from '../../fleet/ring.js';
import type { RingOwner } from '../../inspect/explain/facts/situation.js';
import type { WorkerRow } from '../../inspect/fleet/workers.js';

/** The ids of the workers that handle anything of the queue. */
export function membersOf(workers: readonly WorkerRow[], queue: string): string[] {
  return workers
    .filter(({ handles }) => queue in ((handles ?? {}) as Record<string, object>))
    .map(({ id }) => id);
}

export const ringOwner: RingOwner = (workers, { queue, bucket }) =>
  ringOwners(membersOf(workers, queue))[bucket] ?? null;
