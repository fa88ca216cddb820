/**
 * Publishes the owners of a queue's buckets, for inserts to find whom to wake.
 *
 * Every worker does so after a change of the fleet, and the first one for an epoch is enough. One
 * statement per queue is under way at a time; of several rings that wait, only the newest is sent. A
 * failure is told, and made up for when the fleet is next read.
 */
import { type OwnersOfTypes, publishRing } from '../fleet/wake.js';
import type { Executor } from '../postgres/queryable.js';

interface Ring {
  readonly epoch: number;
  readonly groups: readonly OwnersOfTypes[];
}

export interface PublisherGround {
  readonly db: Executor;
  readonly schema: string;
  readonly trouble: (what: string, error: unknown) => void;
}

export class RingPublisher {
  readonly #ground: PublisherGround;
  /** By queue, the epoch that is known to be published. */
  readonly #published = new Map<string, number>();
  readonly #latest = new Map<string, Ring>();
  #stopped = false;

  constructor(ground: PublisherGround) {
    this.#ground = ground;
  }

  publish(queue: string, epoch: number, groups: readonly OwnersOfTypes[]): void {
    if (this.#stopped || (this.#published.get(queue) ?? 0) >= epoch) return;
    const idle = !this.#latest.has(queue);
    this.#latest.set(queue, { epoch, groups: simplified(groups) });
    if (idle) void this.#send(queue);
  }

  stop(): void {
    this.#stopped = true;
  }

  async #send(queue: string): Promise<void> {
    const { db, schema, trouble } = this.#ground;
    let sent: Ring | undefined;
    for (
      let ring = this.#latest.get(queue);
      ring && ring !== sent;
      ring = this.#latest.get(queue)
    ) {
      sent = ring;
      try {
        await publishRing(db, { schema, queue }, ring.epoch, ring.groups);
        this.#published.set(queue, ring.epoch);
      } catch (error) {
        if (!this.#stopped) trouble(`publishing the ring of ${queue}`, error);
      }
    }
    this.#latest.delete(queue);
  }
}

/** If everybody runs everything, an insert need not look at types. */
function simplified(groups: readonly OwnersOfTypes[]): readonly OwnersOfTypes[] {
  const [only, ...others] = groups;
  return only && others.length === 0 ? [{ types: null, owners: only.owners }] : groups;
}
