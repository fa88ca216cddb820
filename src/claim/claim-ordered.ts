/**
 * Claiming jobs that wait for their key: the head of a key, and what follows it without a gap (a run).
 *
 * The statement walks the order index from key to key and reads rows in small chunks; a key that is
 * blocked or long is stepped over. It takes a run only if it can lock every row of it, in the very
 * version that its snapshot showed, and the row behind it too. That is the whole of the safety. A job
 * that is gone never comes back, and one that is put back in line gets a new position; so the head of a
 * key in the snapshot is its head as long as it stands, and whoever claims a job behind it must lock it
 * first. Two claimers of one key therefore want the same row, whatever they believe of the ring: one
 * finds it locked or changed, and takes nothing of that key. A row that a live owner holds blocks what
 * follows. Only jobs whose enqueues overlapped may be seen late, ahead of a claim that did not see them:
 * they wait for it if it stands within the chunk or right behind their run, and may run beside it if not.
 */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import {
  int4,
  int8,
  type Param,
  plainArray,
  statement,
  text,
  textArray,
} from '../postgres/statement.js';
import { type Claimed, lostItsRow } from './claim.js';
import { ORDER_WALK } from './order-walk.js';
import {
  CLOCK,
  type ClaimedJob,
  NO_JOB,
  plainTypes,
  RETURN_TAKEN,
  SELECT_TAKEN,
  TAKE,
  TAKEN_COLUMNS,
} from './taking.js';

/** A stretch of the order index: everything after one place and before another. */
export interface OrderProbe {
  readonly bucket: number;
  readonly afterKey: string;
  /** Of that key: -1 reads all of it, AFTER_KEY nothing of it. */
  readonly afterPosition: number;
  readonly untilBucket: number;
  readonly untilKey: string;
}

/** Behind every position that a job can have. */
export const AFTER_KEY = Number.MAX_SAFE_INTEGER;

export interface OrderedClaimRequest {
  readonly workerId: string;
  /** Read one after the other. No two of them may have a key in common. */
  readonly probes: readonly OrderProbe[];
  readonly limit: number;
  /** At most so many jobs of one key. */
  readonly run: number;
  readonly leaseMs: number;
  /** Handled types with the newest payload version that this worker understands. */
  readonly versions: Readonly<Record<string, number>>;
  /** By type, the versions up to which other workers take the jobs; none for most. */
  readonly above: Readonly<Record<string, number>>;
  readonly deadWorkers: readonly string[];
  /** Types of which a run is worth claiming; jobs of others come alone. */
  readonly trusted: readonly string[];
  /** The last claim brought so much that this one will, too. */
  readonly more?: boolean;
  /** After so many rows it stops, once it has seen what stands behind the last job that it takes. Default `WALK`. */
  readonly walk?: number;
}

const WALK = 1_000;
export const MAX_RUN = 1_000;

const CLAIM = {
  take: `UPDATE holdfast.inbox AS i
  SET ${TAKE}
  WHERE i.ctid = ANY (ARRAY(SELECT place FROM kept))
  RETURNING ${RETURN_TAKEN}`,
  /** Once for the whole claim: where the walk ended. */
  end: `FROM holdfast.fleet AS f
-- The chunk with which it had enough, or the last: one more may have been read for what stands behind.
LEFT JOIN (
  SELECT w.* FROM walk AS w
  ORDER BY w.wanted < $6::integer, CASE WHEN w.wanted < $6::integer THEN -w.step ELSE w.step END
  LIMIT 1
) AS s ON true
-- The last chunk may hold more than was asked for: then the walk ended with the last job that it took.
LEFT JOIN holdfast.inbox AS cut
  ON s.wanted > $6::integer AND cut.ctid = s.places[cardinality(s.places)]
WHERE f.one`,
  bucket: 'coalesce(cut.partition_bucket, s.bucket)',
  key: 'coalesce(cut.partition_key, s.key)',
};

export const claimOrderedJobs = statement({
  name: 'claim_ordered',
  text: `${ORDER_WALK}, claimed AS (
  ${CLAIM.take}
)
-- First what is true of the whole claim, also of one that finds nothing; then the jobs, in any order.
SELECT f.epoch, ${CLOCK}, s.probe AS stop_probe, ${CLAIM.bucket} AS stop_bucket,
  ${CLAIM.key} AS stop_key, s.wanted, ${NO_JOB}
${CLAIM.end}
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, ${SELECT_TAKEN}
FROM claimed AS c`,
  columns: {
    epoch: int8.orNull,
    clock: int8.orNull,
    stop_probe: int4.orNull,
    stop_bucket: int4.orNull,
    stop_key: text.orNull,
    wanted: int8.orNull,
    ...TAKEN_COLUMNS,
  },
});

/** After a claim that brought many, see `claim_more`. */
export const claimOrderedMore = statement({
  name: 'claim_ordered_more',
  text: `${ORDER_WALK}
${CLAIM.take},
  (SELECT concat(f.epoch, ' ', (SELECT h.clock FROM (SELECT ${CLOCK}) AS h), ' ', s.probe, ' ',
     ${CLAIM.bucket}, ' ', s.wanted, ' ', ${CLAIM.key})
   ${CLAIM.end}) AS head`,
  columns: { ...TAKEN_COLUMNS, head: text.orNull },
});

/** The walk ended with this key; what lies behind it in the probe, and later probes, was not read. */
export interface OrderStop {
  /** Index into the probes of the request. */
  readonly probe: number;
  readonly bucket: number;
  readonly key: string;
}

export interface OrderedClaim extends Claimed {
  /** Null: everything that was asked for was read. */
  readonly stop: OrderStop | null;
  /** How many jobs were ready. More than came back: somebody else was claiming them just then. */
  readonly wanted: number;
}

/** The jobs of a key stand together, in its order. `cursorPosition` is a job's position. */
export async function claimOrdered(
  db: Executor,
  names: Names,
  request: OrderedClaimRequest,
): Promise<OrderedClaim> {
  const params = paramsOf(request);
  if (request.more) {
    const jobs = await db.run(claimOrderedMore, names, params);
    const [first] = jobs;
    if (first) return { ...endOf(headOf(first.head, names), request), jobs: jobs.sort(byKey) };
  }
  const rows = await db.run(claimOrderedJobs, names, params);
  const headAt = rows.findIndex((row) => row.epoch !== null);
  const [head] = headAt < 0 ? [] : rows.splice(headAt, 1);
  if (!head) throw lostItsRow(names);
  return { ...endOf(head, request), jobs: rows.sort(byKey) };
}

function paramsOf(request: OrderedClaimRequest): Param[] {
  const { probes } = request;
  return [
    plainArray(probes.map((probe) => probe.bucket)),
    textArray(probes.map((probe) => probe.afterKey)),
    plainArray(probes.map((probe) => probe.afterPosition)),
    plainArray(probes.map((probe) => probe.untilBucket)),
    textArray(probes.map((probe) => probe.untilKey)),
    request.limit,
    request.workerId,
    request.leaseMs,
    JSON.stringify(request.versions),
    textArray(request.deadWorkers),
    JSON.stringify(request.above),
    Math.max(1, Math.min(request.run, MAX_RUN)),
    request.walk ?? WALK,
    textArray(plainTypes(request.versions, request.above)),
    textArray(request.trusted),
  ];
}

/** What a claim says of itself. */
interface Head {
  readonly epoch: number | null;
  readonly clock: number | null;
  readonly stopProbe: number | null;
  readonly stopBucket: number | null;
  readonly stopKey: string | null;
  readonly wanted: number | null;
}

const HEAD = /^(\d+) (\d+) (\d*) (\d*) (\d*) (.*)$/s;

function headOf(head: string | null, names: Names): Head {
  const found = HEAD.exec(head ?? '');
  if (!found) throw lostItsRow(names);
  const [epoch, clock, stopProbe, stopBucket, wanted] = found
    .slice(1)
    .map((part) => (part === '' ? null : Number(part)));
  // A key is never empty.
  const stopKey = found[6] || null;
  return { epoch, clock, stopProbe, stopBucket, wanted, stopKey } as Head;
}

function endOf(head: Head, { probes }: OrderedClaimRequest): Omit<OrderedClaim, 'jobs'> {
  const { epoch, clock, stopProbe: probe, stopBucket: bucket, stopKey: key, wanted } = head;
  const inside = probe !== null && probe <= probes.length && bucket !== null && key !== null;
  return {
    epoch: epoch ?? 0,
    clock: clock ?? 0,
    stop: inside ? { probe: probe - 1, bucket, key } : null,
    wanted: wanted ?? 0,
  };
}

/** Keys in any order, and the jobs of each in its own. */
function byKey(a: ClaimedJob, b: ClaimedJob): number {
  if (a.partitionBucket !== b.partitionBucket) return a.partitionBucket - b.partitionBucket;
  if (a.partitionKey !== b.partitionKey) return a.partitionKey < b.partitionKey ? -1 : 1;
  return a.cursorPosition - b.cursorPosition;
}
