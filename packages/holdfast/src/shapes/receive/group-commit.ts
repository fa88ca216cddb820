/**
 * Enqueues that arrive together share a commit, and each hears of its own. While a few commits are under way, what arrives
 * waits for the next one. What fails together and not for the sake of the database is tried one by one, so that an event
 * that cannot be written fails alone.
 */
import type { Enqueued } from '../../enqueue/enqueue.js';
import type { EnqueueItem } from '../../job/job.js';
import { isOutage } from '../../postgres/connect/transient.js';
import { Refused } from './delivery.js';

/** Two: one that waits for a lock does not hold up all others. */
const LANES = 2;
const MOST_ITEMS = 200;
const MOST_BYTES = 4 * 1024 * 1024;
const MOST_WAITING_BYTES = 64 * 1024 * 1024;

interface Waiting {
  readonly item: EnqueueItem;
  readonly bytes: number;
  /** By `performance.now()`: then its sender is answered that it was not accepted. */
  readonly deadline: number;
  readonly resolve: (enqueued: Enqueued) => void;
  readonly reject: (error: unknown) => void;
}

type Write = (items: readonly EnqueueItem[]) => Promise<Enqueued[]>;

/** The answer is 503. */
export const busy = (reason: string) => new Refused(reason, 503);

export class GroupCommit {
  readonly #write: Write;
  #waiting: Waiting[] = [];
  #bytes = 0;
  #lanes = 0;

  constructor(write: Write) {
    this.#write = write;
  }

  /** Resolves when the item is committed. */
  add(item: EnqueueItem, bytes: number, deadline: number): Promise<Enqueued> {
    if (this.#bytes + bytes > MOST_WAITING_BYTES)
      return Promise.reject(busy('too many events wait to be written'));
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, bytes, deadline, resolve, reject });
      this.#bytes += bytes;
      this.#next();
    });
  }

  #next(): void {
    while (this.#lanes < LANES && this.#waiting.length > 0) {
      this.#lanes++;
      void this.#send(this.#take()).finally(() => {
        this.#lanes--;
        this.#next();
      });
    }
  }

  /** The oldest ones. An item whose sender was answered already is left out. */
  #take(): Waiting[] {
    let bytes = 0;
    let count = 0;
    for (const one of this.#waiting.slice(0, MOST_ITEMS)) {
      if (count > 0 && bytes + one.bytes > MOST_BYTES) break;
      bytes += one.bytes;
      count++;
    }
    const taken = this.#waiting.splice(0, count);
    this.#bytes -= bytes;
    const now = performance.now();
    for (const late of taken.filter(({ deadline }) => deadline <= now))
      late.reject(busy('the event was not written in time'));
    return taken.filter(({ deadline }) => deadline > now);
  }

  async #send(waiting: readonly Waiting[]): Promise<void> {
    if (waiting.length === 0) return;
    try {
      const written = await this.#write(waiting.map(({ item }) => item));
      for (const [at, one] of waiting.entries()) one.resolve(written[at] as Enqueued);
    } catch (error) {
      if (waiting.length === 1 || isOutage(error)) for (const { reject } of waiting) reject(error);
      else await Promise.all(waiting.map((one) => this.#send([one])));
    }
  }
}
