/**
 * Claiming: the one statement by which a worker becomes the owner of jobs.
 *
 * It reads a list of probes, in their order, and stops as soon as it has what was asked for; it never
 * claims more. A probe is one bucket at one priority, with the place from which to read on, or a run of
 * neighbouring buckets, read from their start. A job is claimable when it is due and pending, or when its
 * owner is gone: the lease expired, or the owner is in the list of dead workers. Row locks are taken with
 * SKIP LOCKED and the update goes by the locked rows' places, so two claimers never wait for each other and
 * never get the same generation of a job.
 *
 * `claim_more` is the same for a worker that is alone with its buckets and has plenty to do. Locking a row
 * before updating it is a record of its own in the log; there it is left out. What a running transaction has
 * touched is seen by the row's `xmax` and passed over. Should somebody else take a row between the look and
 * the update, the update waits for him, finds the row changed, and leaves it; if he keeps it for longer than
 * `lock_timeout`, the claim is made with locks.
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
  /** The bucket is filled by the long line of one key, and others wait: read only a part of it. */
  readonly inLine?: boolean;
}

/** What a long line gives in its turn, as a part of what was asked for. */
const LINE_SHARE = 1 / 8;

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
  /** The last claim brought so much that this one will, too, and nobody else reads these buckets. */
  readonly more?: boolean;
}

/** What a claim reads: due, to be had, for this worker, and not the business of the ordered claim. */
const OPEN = `i.available_at <= now()
      AND ${CLAIMABLE}
      AND i.ordering IN ('none', 'parked')`;
const HANDLED = handles('$13', '$9', '$12');

/**
 * No running transaction has written or locked the row. A row keeps the short number of who touched it last;
 * the long one is the newest with the same end, up to our own, which is the newest of all. Nearly every row
 * was never touched.
 */
const UNTOUCHED = `(i.xmax = 0 OR pg_visible_in_snapshot(
        (SELECT greatest(s.next - ((s.next - i.xmax::text::bigint) & 4294967295), 3)
         FROM (SELECT pg_current_xact_id()::text::bigint AS next) AS s)::text::xid8,
        pg_current_snapshot()))`;

interface Picking {
  /** Of a row that is looked at. */
  readonly also: string;
  readonly lock: string;
  /** Of a row that is updated. */
  readonly still: string;
}

const LOCKING: Picking = { also: '', lock: 'FOR UPDATE SKIP LOCKED', still: '' };
const LOOKING: Picking = { also: `AND ${UNTOUCHED}`, lock: '', still: `AND ${OPEN}` };

const take = ({ also, lock, still }: Picking) => `UPDATE holdfast.inbox AS i
  SET ${TAKE}
  WHERE i.ctid = ANY (ARRAY(
  SELECT c.ctid
  FROM unnest($1::smallint[], $2::integer[], $3::integer[], $4::timestamptz[], $5::bigint[], $14::integer[])
    AS probe(priority, from_bucket, to_bucket, after_at, after_position, most)
  CROSS JOIN LATERAL (
    -- One bucket: by equality, so that the scan ends where the future of the bucket begins.
    SELECT one.ctid FROM (
    SELECT i.ctid
    FROM holdfast.inbox AS i
    WHERE probe.from_bucket = probe.to_bucket
      AND i.priority = probe.priority
      AND i.partition_bucket = probe.from_bucket
      AND (i.available_at, i.position) > (probe.after_at, probe.after_position)
      AND ${OPEN}
      AND ${HANDLED} ${also}
    ORDER BY i.available_at, i.position
    LIMIT least($6::integer, probe.most)
    ${lock}
    ) AS one
    UNION ALL
    -- A run of buckets that were empty when they were last read.
    SELECT run.ctid FROM (
    SELECT i.ctid
    FROM holdfast.inbox AS i
    WHERE probe.from_bucket < probe.to_bucket
      AND i.priority = probe.priority
      AND i.partition_bucket BETWEEN probe.from_bucket AND probe.to_bucket
      AND ${OPEN}
      AND ${HANDLED} ${also}
    ORDER BY i.partition_bucket, i.available_at, i.position
    LIMIT $6::integer
    ${lock}
    ) AS run
  ) AS c
  WHERE NOT EXISTS (SELECT FROM holdfast.queues AS q WHERE q.name = 'inbox' AND q.paused)
  LIMIT $6::integer
  )) ${still}`;

/** What was due before this was seen by the claim, unless it was not yet committed. */
export const SEEN_UNTIL = `(SELECT now() - $11::integer * interval '1 millisecond') AS seen_until`;

export const claimJobs = statement({
  name: 'claim',
  text: `
WITH claimed AS (
  ${take(LOCKING)}
  RETURNING ${RETURN_TAKEN}
)
-- First what is true of the whole claim, also of one that finds nothing; then the jobs, in any order.
SELECT f.epoch, ${SEEN_UNTIL}, ${CLOCK},
  CASE WHEN $15::boolean THEN ${ANY_ORDERED} END AS any_ordered,
  CASE WHEN $15::boolean THEN (SELECT (extract(epoch FROM now() - q.housekept_at) * 1000)::bigint
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
 * The same without locks, and without the row about the whole claim: every job carries that, as a text which
 * is made once. Each makes it a tenth cheaper. It says nothing when there is nothing to claim.
 */
export const claimMore = statement({
  name: 'claim_more',
  text: `
${take(LOOKING)}
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
  /** Made without locks: it may have left jobs to others after it had counted them. */
  readonly unsure?: boolean;
  /** Somebody kept a row that a claim without locks wanted. */
  readonly lockedOut?: boolean;
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
    // Nearly always none: what is missing is NULL, and limits nothing.
    plainArray(probes.some(({ inLine }) => inLine) ? probes.map(mostOf(request)) : []),
  ];
  const { jobs, lockedOut } = request.more ? await lookForMore(db, names, params) : NONE;
  const [first] = jobs;
  if (first) return { ...headOf(first.head, names), jobs: jobs.sort(byTurn), unsure: true };
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
    lockedOut,
  };
}

const mostOf =
  ({ limit }: ClaimRequest) =>
  ({ inLine }: Probe) =>
    inLine ? Math.ceil(limit * LINE_SHARE) : limit;

/** Postgres' lock_not_available and, where deadlocks are looked for very soon, deadlock_detected. */
const KEPT_WAITING = ['55P03', '40P01'];
const NONE = { jobs: [], lockedOut: false };

async function lookForMore(db: Executor, names: Names, params: readonly Param[]) {
  try {
    return { jobs: await db.run(claimMore, names, params), lockedOut: false };
  } catch (error) {
    if (!KEPT_WAITING.includes(String((error as { code?: unknown }).code))) throw error;
    return { ...NONE, lockedOut: true };
  }
}

function headOf(head: string | null, names: Names): Omit<ClaimedByTime, 'jobs'> {
  const [epoch, clock, ...seenUntil] = head?.split(' ') ?? [];
  if (seenUntil.length === 0) throw lostItsRow(names);
  return { epoch: Number(epoch), clock: Number(clock), seenUntil: seenUntil.join(' ') };
}

export const lostItsRow = ({ schema }: Names) =>
  new Error(`the table ${schema}.fleet has lost its row`);

/** The order in which the index has them. Postgres' timestamps sort as text. */
function byTurn(a: ClaimedJob, b: ClaimedJob): number {
  if (a.priority !== b.priority) return a.priority - b.priority;
  if (a.cursorAt !== b.cursorAt) return a.cursorAt < b.cursorAt ? -1 : 1;
  return a.cursorPosition - b.cursorPosition;
}
