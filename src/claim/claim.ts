/**
 * Claiming: the one statement by which a worker becomes the owner of jobs.
 *
 * It reads a list of probes, in their order, and stops as soon as it has what was asked for; it never
 * claims more. A probe is one bucket at one priority, with the place from which to read on, or a run of
 * neighbouring buckets, read from their start. A job is claimable when it is due and pending, or when its
 * owner is gone: the lease expired, or the owner is in the list of dead workers. Row locks are taken with SKIP LOCKED and the update goes by the locked rows' places, so
 * two claimers never wait for each other and never get the same generation of a job.
 *
 * What it writes, and what a crash costs, is in taking.ts. It says up to which time it has seen everything,
 * `cursorLagMs` behind the clock: a row whose transaction commits a little late is still ahead of that.
 */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import {
  bool,
  int8,
  type Param,
  plainArray,
  statement,
  text,
  textArray,
  timestamp,
} from '../postgres/statement.js';
import { ANY_ORDERED } from './any-ordered.js';
import {
  CLAIMABLE,
  CLOCK,
  type ClaimedJob,
  handles,
  NO_JOB,
  plainTypes,
  RETURN_TAKEN,
  SELECT_TAKEN,
  TAKE,
  TAKEN_COLUMNS,
} from './taking.js';

export interface Probe {
  readonly priority: number;
  readonly from: number;
  /** The last bucket of the run. */
  readonly to: number;
  /** Read a single bucket on after this place; '-infinity' and 0 read from the start. */
  readonly afterAt: string;
  readonly afterPosition: number;
}

export interface ClaimRequest {
  readonly workerId: string;
  readonly probes: readonly Probe[];
  readonly limit: number;
  readonly leaseMs: number;
  /** Handled types with the newest payload version that this worker understands. */
  readonly versions: Readonly<Record<string, number>>;
  /** By type, the versions up to which other workers take the jobs; none for most. */
  readonly above: Readonly<Record<string, number>>;
  readonly deadWorkers: readonly string[];
  readonly cursorLagMs: number;
  /** Ask what else is to be known of the queue, too; see `QueueNews`. */
  readonly news?: boolean;
  /** The last claim brought so much that this one will, too. */
  readonly more?: boolean;
}

const CLAIM = `UPDATE holdfast.inbox AS i
  SET ${TAKE}
  WHERE i.ctid = ANY (ARRAY(
  SELECT c.ctid
  FROM unnest($1::smallint[], $2::integer[], $3::integer[], $4::timestamptz[], $5::bigint[])
    AS probe(priority, from_bucket, to_bucket, after_at, after_position)
  CROSS JOIN LATERAL (
    -- One bucket: by equality, so that the scan ends where the future of the bucket begins.
    SELECT one.ctid FROM (
    SELECT i.ctid
    FROM holdfast.inbox AS i
    WHERE probe.from_bucket = probe.to_bucket
      AND i.priority = probe.priority
      AND i.partition_bucket = probe.from_bucket
      AND (i.available_at, i.position) > (probe.after_at, probe.after_position)
      AND i.available_at <= now()
      AND ${CLAIMABLE}
      AND ${handles('$13', '$9', '$12')}
      AND i.ordering IN ('none', 'parked')
    ORDER BY i.available_at, i.position
    LIMIT $6::integer
    FOR UPDATE SKIP LOCKED
    ) AS one
    UNION ALL
    -- A run of buckets that were empty when they were last read.
    SELECT run.ctid FROM (
    SELECT i.ctid
    FROM holdfast.inbox AS i
    WHERE probe.from_bucket < probe.to_bucket
      AND i.priority = probe.priority
      AND i.partition_bucket BETWEEN probe.from_bucket AND probe.to_bucket
      AND i.available_at <= now()
      AND ${CLAIMABLE}
      AND ${handles('$13', '$9', '$12')}
      AND i.ordering IN ('none', 'parked')
    ORDER BY i.partition_bucket, i.available_at, i.position
    LIMIT $6::integer
    FOR UPDATE SKIP LOCKED
    ) AS run
  ) AS c
  WHERE NOT EXISTS (SELECT FROM holdfast.queues AS q WHERE q.name = 'inbox' AND q.paused)
  LIMIT $6::integer
  ))`;

/** What was due before this was seen by the claim, unless it was not yet committed. */
export const SEEN_UNTIL = `(SELECT now() - $11::integer * interval '1 millisecond') AS seen_until`;

export const claimJobs = statement({
  name: 'claim',
  text: `
WITH claimed AS (
  ${CLAIM}
  RETURNING ${RETURN_TAKEN}
)
-- First what is true of the whole claim, also of one that finds nothing; then the jobs, in any order.
SELECT f.epoch, ${SEEN_UNTIL}, ${CLOCK},
  CASE WHEN $14::boolean THEN ${ANY_ORDERED} END AS any_ordered,
  CASE WHEN $14::boolean THEN (SELECT (extract(epoch FROM now() - q.housekept_at) * 1000)::bigint
    FROM holdfast.queues AS q WHERE q.name = 'inbox') END AS housekept_ms,
  ${NO_JOB}
FROM holdfast.fleet AS f
WHERE f.one
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, ${SELECT_TAKEN}
FROM claimed AS c`,
  columns: {
    epoch: int8.orNull,
    seen_until: timestamp.orNull,
    clock: int8.orNull,
    any_ordered: bool.orNull,
    housekept_ms: int8.orNull,
    ...TAKEN_COLUMNS,
  },
});

/**
 * The same without the row about the whole claim, which makes it a tenth cheaper: every job carries that,
 * as a text which is made once. It says nothing when there is nothing to claim.
 */
export const claimMore = statement({
  name: 'claim_more',
  text: `
${CLAIM}
RETURNING ${RETURN_TAKEN},
  (SELECT concat_ws(' ', f.epoch, h.clock, h.seen_until)
   FROM holdfast.fleet AS f, (SELECT ${CLOCK}, ${SEEN_UNTIL}) AS h WHERE f.one) AS head`,
  columns: { ...TAKEN_COLUMNS, head: text.orNull },
});

/** What a claim tells of its queue when it is asked, so that an idle worker need not ask by itself. */
export interface QueueNews {
  /** There are ordered jobs, of whatever key and time. */
  readonly anyOrdered: boolean;
  /** How long ago a round of housekeeping began; null before the first. */
  readonly housekeptMs: number | null;
}

export interface Claimed {
  /** Rises when the membership of the fleet changes. */
  readonly epoch: number;
  /** The database's time of the claim, in milliseconds. */
  readonly clock: number;
  readonly jobs: ClaimedJob[];
}

export interface ClaimedByTime extends Claimed {
  /** What was due before this was seen by the claim, unless it was not yet committed. */
  readonly seenUntil: string;
  /** Null unless it was asked for. */
  readonly news?: QueueNews | null;
}

/** From `$6` on, in every claim of jobs without order. */
export function termsOf(request: Omit<ClaimRequest, 'probes'>): Param[] {
  return [
    request.limit,
    request.workerId,
    request.leaseMs,
    JSON.stringify(request.versions),
    textArray(request.deadWorkers),
    request.cursorLagMs,
    JSON.stringify(request.above),
    textArray(plainTypes(request.versions, request.above)),
  ];
}

export async function claim(
  db: Executor,
  names: Names,
  request: ClaimRequest,
): Promise<ClaimedByTime> {
  const { probes } = request;
  const params = [
    plainArray(probes.map((probe) => probe.priority)),
    plainArray(probes.map((probe) => probe.from)),
    plainArray(probes.map((probe) => probe.to)),
    textArray(probes.map((probe) => probe.afterAt)),
    plainArray(probes.map((probe) => probe.afterPosition)),
    ...termsOf(request),
  ];
  if (request.more) {
    const jobs = await db.run(claimMore, names, params);
    const [first] = jobs;
    if (first) return { ...headOf(first.head, names), jobs: jobs.sort(byTurn) };
  }
  const rows = await db.run(claimJobs, names, [...params, request.news === true]);
  const headAt = rows.findIndex((row) => row.epoch !== null);
  const [head] = headAt < 0 ? [] : rows.splice(headAt, 1);
  if (!head) throw lostItsRow(names);
  return {
    epoch: head.epoch ?? 0,
    seenUntil: head.seenUntil ?? '-infinity',
    clock: head.clock ?? 0,
    news:
      head.anyOrdered === null
        ? null
        : { anyOrdered: head.anyOrdered, housekeptMs: head.housekeptMs },
    jobs: rows.sort(byTurn),
  };
}

function headOf(head: string | null, names: Names): Omit<ClaimedByTime, 'jobs'> {
  const [epoch, clock, ...seenUntil] = head?.split(' ') ?? [];
  if (seenUntil.length === 0) throw lostItsRow(names);
  return { epoch: Number(epoch), clock: Number(clock), seenUntil: seenUntil.join(' ') };
}

const lostItsRow = ({ schema }: Names) => new Error(`the table ${schema}.fleet has lost its row`);

/** The order in which the index has them. Postgres' timestamps sort as text. */
function byTurn(a: ClaimedJob, b: ClaimedJob): number {
  if (a.priority !== b.priority) return a.priority - b.priority;
  if (a.cursorAt !== b.cursorAt) return a.cursorAt < b.cursorAt ? -1 : 1;
  return a.cursorPosition - b.cursorPosition;
}
