/**
 * Back-pressure: how many jobs of a queue wait, and how many may. Counting at every enqueue would be too dear, so a producer
 * or worker that finds the figure old counts anew, outside of any caller's transaction: about once a second in the whole
 * database, and more rarely where it takes long. At most the limit and one are counted. Columns are text, because a
 * caller's client asks too.
 */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { statement, text } from '../postgres/statement.js';

export const askPressure = statement({
  name: 'ask_pressure',
  text: `
SELECT q.max_pending::text AS max_pending, coalesce(q.waiting, 0)::text AS waiting,
  -- What was never counted, or not with this limit, is as old as can be.
  coalesce(extract(epoch FROM clock_timestamp() - CASE WHEN q.waiting IS NOT NULL THEN q.waiting_at END) * 1000,
    1e12)::bigint::text AS age_ms,
  (q.max_pending IS NOT NULL AND coalesce(q.recount_at <= clock_timestamp(), true))::text AS recount
FROM holdfast.queues AS q
WHERE q.name = 'inbox'`,
  columns: { max_pending: text.orNull, waiting: text, age_ms: text, recount: text },
});

export const countWaitingJobs = statement({
  name: 'count_waiting',
  text: 'SELECT holdfast.inbox_count_waiting()::text AS waiting',
  columns: { waiting: text.orNull },
});

export interface Pressure {
  /** Null: there is no limit. */
  readonly maxPending: number | null;
  readonly waiting: number;
  /** How long ago they were counted. */
  readonly ageMs: number;
  /** It is time to count again. */
  readonly recount: boolean;
}

const UNLIMITED: Pressure = { maxPending: null, waiting: 0, ageMs: 0, recount: false };

export async function pressureOf(db: Executor, names: Names): Promise<Pressure> {
  const [row] = await db.run(askPressure, names, []);
  // An enqueue into a queue that is not there is refused by the table.
  if (!row) return UNLIMITED;
  return {
    maxPending: row.maxPending === null ? null : Number(row.maxPending),
    waiting: Number(row.waiting),
    ageMs: Number(row.ageMs),
    recount: row.recount === 'true',
  };
}

/** Counts if it is time to, and nobody else is counting. Never inside a caller's transaction: it locks the queue's row. */
export async function countWaiting(db: Executor, names: Names): Promise<void> {
  await db.run(countWaitingJobs, names, []);
}
