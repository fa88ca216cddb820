/**
 * The queues that a worker has seen. Handlers name queues for their children; a name that is not known yet is looked up
 * once. It does not promise that the queue is still there when the child is written.
 */
import { HoldfastError } from '../job/errors/holdfast-error.js';
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { queueSettings } from './registry.js';

export class KnownQueues {
  readonly #seen = new Set<string>();

  /** Rejects with QUEUE_UNKNOWN where the queue of a child of this type is not there. */
  async check(db: Executor, { schema, queue }: Names, type: string): Promise<void> {
    if (this.#seen.has(queue)) return;
    try {
      const all = await queueSettings(db, { schema, queue: 'inbox' });
      for (const { name } of all) this.#seen.add(name);
    } catch {
      // The database did not answer, so nothing is known: writing the child will say.
      return;
    }
    if (this.#seen.has(queue)) return;
    throw new HoldfastError(
      'QUEUE_UNKNOWN',
      `There is no queue "${queue}" in schema "${schema}", so ctx.enqueue() was refused and the child "${type}" was not enqueued. ` +
        'Check the name, or make it with createQueue().',
    );
  }

  /** It may have been dropped meanwhile. */
  remove(queue: string): void {
    this.#seen.delete(queue);
  }
}
