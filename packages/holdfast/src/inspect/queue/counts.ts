/**
 * How many jobs of a queue wait, run and are dead, what each worker holds, and how long the oldest waits. Up to 50,000 jobs
 * are read in one pass, and all of it is exact. A larger queue is not read: what runs is found by the workers' claims, and
 * is exact; dead letters, runs that wait and pending jobs are counted up to a bound, and beyond it estimated, each by itself. Then
 * `approximate` is true.
 */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { int8, statement, text, uuid } from '../../postgres/statement.js';
import { asleep } from '../../postgres/taken.js';
import { type Holding, heldJobs } from '../fleet/held.js';
import { instant } from '../reading/columns.js';
import { ON_HOLD } from '../reading/pauses.js';
import { oldestDue } from './oldest.js';
import { onHoldJobs, pendingJobs } from './pending.js';
import { type QueueSize, queueSize } from './size.js';

export const EXACT_ROWS = 50_000;

/** The jobs of a queue, by what they do. */
export interface Tally<Time = string> {
  /** Jobs that wait for a worker or for their time. */
  readonly pending: number;
  /** Pending jobs that are not due yet; null: not known. */
  readonly scheduled: number | null;
  /** Pending jobs that have failed before; null: not known. */
  readonly retrying: number | null;
  /** Runs of workflows that wait for something. They are no work yet, so they are not in `pending`. */
  readonly waitingRuns: number;
  /** Jobs that a worker holds. */
  readonly processing: number;
  readonly deadLetter: number;
  /** Those whose lease is over: their worker is gone and nobody has taken over yet. */
  readonly expired: number;
  /** Those of the pending that a pause holds back: of their queue, their type or their key. Of a large queue at least so many. */
  readonly onHold: number;
  /** Since when the oldest due job waits that no pause holds back; null: there is none. */
  readonly oldestDue: Time | null;
  /** From due to claimed, the mean of the jobs that run; null: none runs. */
  readonly startLatencyMs: number | null;
  /** `oldestDue` may be later than the truth: the queue is large, and it is read by key or has rates with many keys. */
  readonly oldestDueApproximate: boolean;
  /** The queue is large: beyond 10,000 `pending` is an estimate, and `waitingRuns` may be one. */
  readonly approximate: boolean;
  /** `deadLetter` is one too: they are many. */
  readonly deadLetterApproximate: boolean;
}

export interface QueueCounts extends Tally {
  readonly held: readonly Holding[];
  readonly size: QueueSize;
}

export const tallyJobs = statement({
  name: 'tally',
  text: `
SELECT j.status::text AS status, j.claimed_by, count(*) AS jobs, count(*) FILTER (WHERE j.asleep) AS asleep,
  count(*) FILTER (WHERE j.available_at > now() AND NOT j.asleep) AS later,
  count(*) FILTER (WHERE j.attempts > 0) AS tried,
  count(*) FILTER (WHERE j.lease_expires_at <= now()) AS expired,
  count(*) FILTER (WHERE j.on_hold) AS on_hold,
  min(j.available_at) FILTER (WHERE j.available_at <= now() AND NOT j.on_hold) AS oldest_due,
  min(j.claimed_at) AS oldest_claim,
  coalesce(sum(extract(epoch FROM greatest(j.claimed_at - j.available_at, '0')) * 1000)
    FILTER (WHERE j.status = 'processing'), 0)::bigint AS waited_ms
FROM (
  SELECT i.status, i.claimed_by, i.available_at, i.attempts, i.lease_expires_at, i.claimed_at, i.asleep,
    NOT i.asleep AND ${ON_HOLD('i')} AS on_hold
  FROM (
    SELECT i.*, ${asleep('i')} AS asleep FROM holdfast.inbox AS i
    ORDER BY i.id
    LIMIT $1::integer
  ) AS i
  CROSS JOIN holdfast.queues AS q
  WHERE q.name = 'inbox'
) AS j
GROUP BY j.status, j.claimed_by`,
  columns: {
    status: text,
    claimed_by: text.orNull,
    jobs: int8,
    asleep: int8,
    later: int8,
    tried: int8,
    expired: int8,
    on_hold: int8,
    oldest_due: instant,
    oldest_claim: instant,
    waited_ms: int8,
  },
});

/** `budgetMs`: for how long dead letters are counted, one by one. `empty`: it is known to have no row. */
export async function countByStatus(
  db: Executor,
  names: Names,
  { budgetMs, empty }: { readonly budgetMs?: number; readonly empty?: QueueSize | undefined } = {},
): Promise<QueueCounts> {
  if (empty) return (await tally(db, names, empty, true)) as QueueCounts;
  const size = await queueSize(db, names);
  // Statistics lag, and a crash of the server empties them: a queue that only seems small is found out.
  if (Math.max(size.liveRows, size.expectedRows) <= 2 * EXACT_ROWS) {
    const exact = await tally(db, names, size);
    if (exact) return exact;
  }
  return estimate(db, names, size, budgetMs);
}

async function tally(
  db: Executor,
  names: Names,
  size: QueueSize,
  isEmpty = false,
): Promise<QueueCounts | null> {
  const groups = isEmpty ? [] : await db.run(tallyJobs, names, [EXACT_ROWS + 1]);
  const sum = (pick: (group: (typeof groups)[number]) => number, status?: string) =>
    groups.reduce((n, one) => n + (!status || one.status === status ? pick(one) : 0), 0);
  if (sum((one) => one.jobs) > EXACT_ROWS) return null;
  const waiting = groups.find((one) => one.status === 'pending');
  const held = groups
    .filter((one) => one.claimedBy !== null)
    .map(({ claimedBy, jobs, expired, oldestClaim, waitedMs }) => ({
      ...{ worker: claimedBy as string, jobs, expired, oldestClaim, waitedMs },
    }));
  return {
    pending: sum((one) => one.jobs - one.asleep, 'pending'),
    scheduled: sum((one) => one.later, 'pending'),
    retrying: sum((one) => one.tried, 'pending'),
    waitingRuns: sum((one) => one.asleep, 'pending'),
    processing: sum((one) => one.jobs, 'processing'),
    deadLetter: sum((one) => one.jobs, 'dead_letter'),
    expired: sum((one) => one.expired),
    onHold: sum((one) => one.onHold, 'pending'),
    oldestDue: waiting?.oldestDue ?? null,
    startLatencyMs: startLatencyMs(held),
    oldestDueApproximate: false,
    approximate: false,
    deadLetterApproximate: false,
    held,
    size,
  };
}

async function estimate(
  db: Executor,
  names: Names,
  size: QueueSize,
  budgetMs: number | undefined,
): Promise<QueueCounts> {
  const held = await heldJobs(db, names);
  const processing = held.reduce((sum, { jobs }) => sum + jobs, 0);
  const dead = await deadLetterCount(db, names, budgetMs);
  const total =
    size.counted && size.liveRows > EXACT_ROWS
      ? size.liveRows
      : Math.max(size.liveRows, size.expectedRows, EXACT_ROWS);
  const asleep = await waitingRunCount(db, names, budgetMs);
  const waits = await pendingJobs(db, names, { total, keyed: size.keyed });
  return {
    ...waits,
    onHold: await onHoldJobs(db, names, { pending: waits.pending, keyed: size.keyed }),
    retrying: null,
    waitingRuns: asleep,
    processing,
    deadLetter: dead.jobs,
    expired: held.reduce((sum, { expired }) => sum + expired, 0),
    ...(await oldestDue(db, names, size.keyed)),
    startLatencyMs: startLatencyMs(held),
    approximate: true,
    deadLetterApproximate: dead.approximate,
    held,
    size,
  };
}

function startLatencyMs(held: readonly Holding[]): number | null {
  const jobs = held.reduce((sum, one) => sum + one.jobs, 0);
  const waitedMs = held.reduce((sum, one) => sum + one.waitedMs, 0);
  return jobs === 0 ? null : Math.round(waitedMs / jobs);
}

export function earliest(times: readonly (string | null)[]): string | null {
  const known = times.filter((time) => time !== null);
  return known.sort((a, b) => Date.parse(a) - Date.parse(b))[0] ?? null;
}

/**
 * Where vacuum has been, a step reads the index alone, and hundreds of thousands are counted in an instant. Where it has
 * not, each letter costs a page of the table; so after `budgetMs` the rest is estimated by a sample of the table, and that
 * is said.
 */
const STEP = 10_000;
/** So many pages are that sample: dead letters may lie close together. */
const DEAD_PAGES = 4_000;
const BUDGET_MS = 150;

export const countDead = statement({
  name: 'count_dead_letters',
  text: `
SELECT (SELECT count(*) FROM (
    SELECT FROM holdfast.inbox AS i
    WHERE i.available_at = 'infinity' AND i.id > $2::uuid
    ORDER BY i.id LIMIT $1::integer) AS step) AS jobs,
  -- The last of a whole step.
  (SELECT i.id FROM holdfast.inbox AS i
   WHERE i.available_at = 'infinity' AND i.id > $2::uuid
   ORDER BY i.id OFFSET $1::integer - 1 LIMIT 1) AS last`,
  columns: { jobs: int8, last: uuid.orNull },
});

export const sampleDead = statement({
  name: 'sample_dead_letters',
  text: `
SELECT count(*) AS seen, count(*) FILTER (WHERE i.status = 'dead_letter') AS dead
FROM holdfast.inbox AS i TABLESAMPLE SYSTEM (least(100, 100.0 * ${DEAD_PAGES}
  * current_setting('block_size')::integer / greatest(1, pg_relation_size('holdfast.inbox'::regclass)))) REPEATABLE (0)`,
  columns: { seen: int8, dead: int8 },
});

export async function deadLetterCount(db: Executor, names: Names, budgetMs = BUDGET_MS) {
  const from = performance.now();
  let [jobs, after] = [0, '00000000-0000-0000-0000-000000000000'];
  for (;;) {
    const [step] = await db.run(countDead, names, [STEP, after]);
    jobs += step?.jobs ?? 0;
    if (!step?.last) return { jobs, approximate: false };
    if (performance.now() - from > budgetMs) break;
    after = step.last;
  }
  // Of a sample so many are dead. What vacuum last counted may be from before an act on all of them.
  const [sample] = await db.run(sampleDead, names, []);
  const { counted, liveRows, expectedRows } = await queueSize(db, names);
  const total = counted && liveRows > 0 ? liveRows : Math.max(liveRows, expectedRows);
  const share = (sample?.dead ?? 0) / Math.max(1, sample?.seen ?? 0);
  return { jobs: Math.max(jobs, Math.round(share * total)), approximate: true };
}

export const countAsleep = statement({
  name: 'count_waiting_runs',
  text: `
WITH open AS MATERIALIZED (
  SELECT DISTINCT s.run_id FROM holdfast.inbox_steps AS s
  WHERE (s.place IS NULL OR s.kind = '!') AND s.run_id > $2::uuid
  ORDER BY s.run_id LIMIT $1::integer
)
SELECT count(*) AS seen, count(*) FILTER (WHERE i.asleep) AS runs, max(o.run_id::text)::uuid AS last,
  (SELECT greatest(c.reltuples::bigint, 0) FROM pg_class AS c
   WHERE c.oid = to_regclass('holdfast.inbox_steps_open_idx')) AS expected
FROM open AS o
LEFT JOIN LATERAL (
  SELECT ${asleep('i')} AS asleep FROM holdfast.inbox AS i WHERE i.id = o.run_id LIMIT 1
) AS i ON true`,
  columns: { seen: int8, runs: int8, last: uuid.orNull, expected: int8.orNull },
});

/** Counted by what they wait for, a step at a time; after `budgetMs` the rest is left to the server's statistics. */
async function waitingRunCount(db: Executor, names: Names, budgetMs = BUDGET_MS): Promise<number> {
  const from = performance.now();
  let [runs, seen, after] = [0, 0, '00000000-0000-0000-0000-000000000000'];
  for (;;) {
    const [step] = await db.run(countAsleep, names, [STEP, after]);
    runs += step?.runs ?? 0;
    seen += step?.seen ?? 0;
    if (!step?.last || step.seen < STEP) return runs;
    if (performance.now() - from > budgetMs)
      return Math.round(runs * Math.max(1, (step.expected ?? 0) / seen));
    after = step.last;
  }
}
