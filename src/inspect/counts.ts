/**
 * How many jobs of a queue wait, run and are dead, what each worker holds, and how long the oldest waits.
 *
 * Exact up to 50,000 jobs: they are read, in one pass. A larger queue is not read: dead letters are
 * counted in their own index up to a bound, what is in flight is read from the heads of the
 * buckets, and what waits is the rest of the size in the server's statistics. Then `approximate` is true.
 */
import { BUCKETS } from '../job/key.js';
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { int8, statement, text } from '../postgres/statement.js';
import { instant } from './columns.js';
import { type Head, heads } from './heads.js';
import { type QueueSize, queueSize } from './size.js';

export const EXACT_ROWS = 50_000;
const EXACT_DEAD_LETTERS = 10_000;

export interface Holding {
  readonly worker: string;
  readonly jobs: number;
  /** Of these, so many beyond their lease. */
  readonly expired: number;
  readonly oldestClaim: string | null;
}

export interface QueueCounts {
  readonly pending: number;
  /** Of the pending, so many that are not due yet; null if that is not known. */
  readonly scheduled: number | null;
  readonly processing: number;
  readonly deadLetter: number;
  /** Beyond their lease: their owner is gone and nobody has taken over yet. */
  readonly expired: number;
  /** Since when the oldest waits that is pending and due; null: nothing is due. */
  readonly oldestDue: string | null;
  readonly approximate: boolean;
  readonly held: readonly Holding[];
  readonly size: QueueSize;
}

export const tallyJobs = statement({
  name: 'tally',
  text: `
SELECT j.status::text AS status, j.claimed_by, count(*) AS jobs,
  count(*) FILTER (WHERE j.available_at > now()) AS later,
  count(*) FILTER (WHERE j.lease_expires_at <= now()) AS expired,
  min(j.available_at) FILTER (WHERE j.available_at <= now()) AS oldest_due,
  min(j.claimed_at) AS oldest_claim
FROM (
  SELECT i.status, i.claimed_by, i.available_at, i.lease_expires_at, i.claimed_at
  FROM holdfast.inbox AS i
  ORDER BY i.id
  LIMIT $1::integer
) AS j
GROUP BY j.status, j.claimed_by`,
  columns: {
    status: text,
    claimed_by: text.orNull,
    jobs: int8,
    later: int8,
    expired: int8,
    oldest_due: instant,
    oldest_claim: instant,
  },
});

export const countDead = statement({
  name: 'count_dead_letters',
  text: `
SELECT count(*) AS jobs,
  -- Filled by vacuum and analyze; it may be old.
  greatest((SELECT c.reltuples::bigint FROM pg_class AS c
    WHERE c.oid = to_regclass('holdfast.inbox_dead_idx')), 0) AS expected
FROM (
  SELECT FROM holdfast.inbox AS i WHERE i.available_at = 'infinity' ORDER BY i.id LIMIT $1::integer
) AS dead`,
  columns: { jobs: int8, expected: int8 },
});

export async function countByStatus(db: Executor, names: Names): Promise<QueueCounts> {
  const size = await queueSize(db, names);
  // Statistics lag, and a crash of the server empties them: a queue that only seems small is found out.
  if (Math.max(size.liveRows, size.expectedRows) <= 2 * EXACT_ROWS) {
    const exact = await tally(db, names, size);
    if (exact) return exact;
  }
  return estimate(db, names, size);
}

async function tally(db: Executor, names: Names, size: QueueSize): Promise<QueueCounts | null> {
  const groups = await db.run(tallyJobs, names, [EXACT_ROWS + 1]);
  const sum = (pick: (group: (typeof groups)[number]) => number, status?: string) =>
    groups.reduce((n, one) => n + (!status || one.status === status ? pick(one) : 0), 0);
  if (sum((one) => one.jobs) > EXACT_ROWS) return null;
  const waiting = groups.find((one) => one.status === 'pending');
  return {
    pending: sum((one) => one.jobs, 'pending'),
    scheduled: sum((one) => one.later, 'pending'),
    processing: sum((one) => one.jobs, 'processing'),
    deadLetter: sum((one) => one.jobs, 'dead_letter'),
    expired: sum((one) => one.expired),
    oldestDue: waiting?.oldestDue ?? null,
    approximate: false,
    held: groups
      .filter((one) => one.claimedBy !== null)
      .map(({ claimedBy, jobs, expired, oldestClaim }) => ({
        worker: claimedBy as string,
        jobs,
        expired,
        oldestClaim,
      })),
    size,
  };
}

async function estimate(db: Executor, names: Names, size: QueueSize): Promise<QueueCounts> {
  const [dead] = await db.run(countDead, names, [EXACT_DEAD_LETTERS]);
  const seen = await heads(db, names, size.ordered);
  const held = holdings(seen);
  const processing = held.reduce((sum, { jobs }) => sum + jobs, 0);
  const counted = dead?.jobs ?? 0;
  const deadLetter =
    counted < EXACT_DEAD_LETTERS ? counted : Math.max(counted, dead?.expected ?? 0);
  const total =
    size.liveRows > EXACT_ROWS ? size.liveRows : Math.max(size.expectedRows, EXACT_ROWS);
  const due = seen.filter((one) => one.claimedBy === null).map((one) => one.oldestDue);
  return {
    pending: Math.max(0, total - deadLetter - processing),
    scheduled: null,
    processing,
    deadLetter,
    expired: held.reduce((sum, { expired }) => sum + expired, 0),
    oldestDue: earliest(due),
    approximate: true,
    held,
    size,
  };
}

function holdings(seen: readonly Head[]): Holding[] {
  const byWorker = new Map<string, Holding>();
  for (const head of seen) {
    if (head.claimedBy === null) continue;
    const scale = BUCKETS / Math.max(1, head.buckets);
    const before = byWorker.get(head.claimedBy);
    byWorker.set(head.claimedBy, {
      worker: head.claimedBy,
      jobs: (before?.jobs ?? 0) + Math.round(head.jobs * scale),
      expired: (before?.expired ?? 0) + Math.round(head.expired * scale),
      oldestClaim: earliest([before?.oldestClaim ?? null, head.oldestClaim]),
    });
  }
  return [...byWorker.values()];
}

export function earliest(times: readonly (string | null)[]): string | null {
  const known = times.filter((time) => time !== null);
  return known.sort((a, b) => Date.parse(a) - Date.parse(b))[0] ?? null;
}
