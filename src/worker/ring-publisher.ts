/**
 * Publishes the owners of a queue's buckets, for inserts to find whom to wake.
 *
 * Every worker does so after a change of the fleet, and the first one for an epoch is enough. One
 * statement per queue is under way at a time; of several rings that wait, only the newest is sent. A
 * failure is told, and made up for after a while, or when the fleet is next read.
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
  /** After a failure. */
  readonly retryMs?: number;
}

/** Rare: a role that may not publish fails every time, and polling finds the jobs meanwhile. */
const RETRY_MS = 10_000;

export class RingPublisher {
  readonly #ground: PublisherGround;
  /** By queue, the epoch that is known to be published. */
  readonly #published = new Map<string, number>();
  readonly #latest = new Map<string, Ring>();
  readonly #retries = new Map<string, NodeJS.Timeout>();
  #stopped = false;

  constructor(ground: PublisherGround) {
    this.#ground = ground;
  }

  publish(queue: string, epoch: number, groups: readonly OwnersOfTypes[]): void {
    if (this.#stopped || (this.#published.get(queue) ?? 0) >= epoch) return;
    const idle = !this.#latest.has(queue);
    this.#latest.set(queue, { epoch, groups });
    clearTimeout(this.#retries.get(queue));
    if (idle) void this.#send(queue);
  }

  stop(): void {
    this.#stopped = true;
    for (const timer of this.#retries.values()) clearTimeout(timer);
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
        await publishRing(db, { schema, queue }, ring.epoch, simplified(ring.groups));
        this.#published.set(queue, ring.epoch);
      } catch (error) {
        if (this.#stopped) return;
        trouble(`publishing the ring of ${queue}`, error);
        this.#planRetry(queue, ring);
      }
    }
    this.#latest.delete(queue);
  }

  #planRetry(queue: string, { epoch, groups }: Ring): void {
    const { retryMs = RETRY_MS } = this.#ground;
    clearTimeout(this.#retries.get(queue));
    const again = () => this.publish(queue, epoch, groups);
    this.#retries.set(queue, setTimeout(again, retryMs * (0.75 + Math.random() * 0.5)));
  }
}

/** If everybody runs everything, an insert need not look at types. */
function simplified(groups: readonly OwnersOfTypes[]): readonly OwnersOfTypes[] {
  const [only, ...others] = groups;
  return only && others.length === 0 ? [{ types: null, owners: only.owners }] : groups;
}
