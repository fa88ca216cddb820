/** What a migration is. Numbered, forward-only, never edited once released. */
import type { Ordering } from '../job/order.js';

export interface Migration {
  readonly id: number;
  readonly name: string;
  /**
   * The oldest code that may go on working beside this migration: code that knows migrations up to
   * `breaksBefore` or later continues, older code refuses. It lets old and new workers share a deploy.
   */
  readonly breaksBefore: number;
  /** Run once for the schema. */
  readonly common: string;
  /**
   * Run for every queue that exists, each in a transaction of its own, and again for each queue created later. A new
   * queue gets its row in `queues`, and with it its claim index, after the last of these.
   */
  readonly perQueue: string;
  /** Run for every queue after that, outside a transaction. */
  readonly online?: readonly OnlineStep[];
}

/**
 * An index that is made or dropped without locking the queue. A new queue, which nobody uses yet, gets it in the
 * transaction that makes the queue.
 */
export interface OnlineStep {
  /** `CREATE INDEX CONCURRENTLY IF NOT EXISTS inbox_…_idx ON …` or `DROP INDEX CONCURRENTLY IF EXISTS holdfast.inbox_…_idx`. */
  readonly text: string;
  /** Only for queues of these orderings. The function `queue_ordered` must do the same for a new queue. */
  readonly orderings?: readonly Ordering[];
  /** Not while a worker lives whose program knows fewer migrations than this. The next `migrate` tries again. */
  readonly unlessOlderThan?: number;
  /** Runs in a transaction once the index is there, for as long as the index `drops` is there, which it drops. */
  readonly swap?: { readonly drops: string; readonly text: string };
}
