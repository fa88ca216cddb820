/**
 * Claiming from a queue that is read by key: the head of a key, and what follows it without a gap (a run).
 *
 * The statement walks the index from key to key and reads rows in small chunks; a key that is blocked or long
 * is stepped over. It takes a run only if it can lock every row of it, in the very version that its snapshot
 * showed, and the row behind it too. That is the whole of the safety. A job that is gone never comes back,
 * and one that is put back in line gets a new position; so the head of a key in the snapshot is its head as
 * long as it stands, and whoever claims a job behind it must lock it first. Two claimers of one key therefore
 * want the same row, whatever they believe of the ring: one finds it locked or changed, and takes nothing of
 * that key. A row that a live owner holds blocks what follows. Only jobs whose enqueues overlapped may be
 * seen late, ahead of a claim that did not see them: they wait for it if it stands within the chunk or right
 * behind their run, and may run beside it if not.
 */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import {
  int4,
  int8,
  json,
  MAX_ROWS,
  plainArray,
  statement,
  text,
  textArray,
} from '../../postgres/statement.js';
import { NEWS_COLUMNS, NO_NEWS, newsIn, newsOf, type QueueNews } from '../news.js';
import type { WalkStop } from '../source.js';
import {
  CLOCK,
  type Claimed,
  type ClaimedJob,
  type ClaimTerms,
  HELD_BACK,
  KEPT_AND_ALLOWED,
  LAST_ALLOWED,
  NO_JOB,
  RECORD_CLAIM,
  REFUSED,
  REFUSED_JOBS,
  RETURN_TAKEN,
  type Refused,
  refusedIn,
  SELECT_TAKEN,
  splitHead,
  TAKE,
  TAKEN_COLUMNS,
  termsOf,
  type Versions,
  versionsOf,
} from '../take.js';
import { KEY_WALK } from './walk.js';

/** A stretch of the index: the keys after one place and before another. No key is empty. */
export interface KeyStretch {
  readonly bucket: number;
  readonly afterKey: string;
  readonly untilBucket: number;
  readonly untilKey: string;
}

/** Behind the jobs of a key. */
export interface KeyPlace {
  readonly bucket: number;
  readonly key: string;
}

export interface KeyedClaimRequest extends ClaimTerms {
  readonly versions: Versions;
  /** Read one after the other. No two of them may have a key in common. */
  readonly stretches: readonly KeyStretch[];
  /** At most so many jobs of one key. */
  readonly run: number;
  /** Also say what `QueueNews` has. */
  readonly ask: boolean;
  /** Say which heads are due within this time. */
  readonly soonMs?: number;
  /** After so many rows it stops, once it has seen what stands behind the last job that it takes. */
  readonly maxRows?: number;
}

export const claimKeyedJobs = statement({
  name: 'claim_keyed',
  text: `${KEY_WALK}, claimed AS (
  UPDATE holdfast.inbox AS i
  SET ${TAKE}, isolated = false
  WHERE i.ctid = ANY (ARRAY(${KEPT_AND_ALLOWED}))
  RETURNING ${RETURN_TAKEN}
), ${RECORD_CLAIM}
-- First what is true of the whole claim, also of one that finds nothing; then the jobs, in any order.
SELECT f.epoch, ${CLOCK}, s.stretch AS stop_stretch,
  coalesce(cut.partition_bucket, s.bucket) AS stop_bucket, coalesce(cut.partition_key, s.key) AS stop_key,
  s.wanted - ${REFUSED_JOBS} AS wanted, ${REFUSED} AS refused, ${HELD_BACK} AS held_back, ${LAST_ALLOWED} AS last_allowed,
  (SELECT array_to_string((array_agg(d.due))[1:200], ',') FROM walk AS w CROSS JOIN LATERAL unnest(w.due) AS d(due)) AS due,
  ${newsOf('$15::boolean')},
  ${NO_JOB}
FROM holdfast.fleet AS f
-- The chunk with which it had enough, or the last: one more may have been read for what stands behind.
LEFT JOIN (
  SELECT w.* FROM walk AS w
  ORDER BY w.wanted < w.most, CASE WHEN w.wanted < w.most THEN -w.step ELSE w.step END
  LIMIT 1
) AS s ON true
-- The last chunk may hold more than was asked for: then the walk ended with the last job that it took.
LEFT JOIN holdfast.inbox AS cut
  ON s.wanted > s.most AND cut.ctid = s.places[cardinality(s.places)]
WHERE f.one
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, ${NO_NEWS}, ${SELECT_TAKEN}
FROM claimed AS c`,
  columns: {
    epoch: int8.orNull,
    clock: int8.orNull,
    stop_stretch: int4.orNull,
    stop_bucket: int4.orNull,
    stop_key: text.orNull,
    wanted: int8.orNull,
    refused: json.orNull,
    held_back: text.orNull,
    last_allowed: json.orNull,
    due: text.orNull,
    ...NEWS_COLUMNS,
    ...TAKEN_COLUMNS,
  },
});

export interface DueHead {
  readonly inMs: number;
  readonly bucket: number;
  /** All jobs of this type wait. */
  readonly type?: string;
}

export interface KeyedClaim extends Claimed {
  /** Null: everything that was asked for was read. */
  readonly stop: WalkStop | null;
  /** How many jobs were ready and allowed. More than came back: somebody else was claiming them just then. */
  readonly wanted: number;
  readonly refused: Refused;
  /** Jobs that no limit allows now: when they may be asked for, or -1 for when a permit is free. */
  readonly heldBack: readonly DueHead[];
  /** The place of the last job that a limit allows; `shared`: another key of its bucket must wait. */
  readonly lastAllowed: (KeyPlace & { readonly shared: boolean }) | null;
  /** Heads of keys that were read and are due soon. */
  readonly due: readonly DueHead[];
  /** Null unless it was asked for. */
  readonly news: QueueNews | null;
}

/** The jobs of a key stand together, in its order. `cursorPosition` is a job's position. */
export async function claimKeyed(
  db: Executor,
  names: Names,
  request: KeyedClaimRequest,
): Promise<KeyedClaim> {
  const { stretches } = request;
  const rows = await db.run(claimKeyedJobs, names, [
    ...termsOf(request),
    ...versionsOf(request.versions),
    plainArray(stretches.map(({ bucket }) => bucket)),
    textArray(stretches.map(({ afterKey }) => afterKey)),
    plainArray(stretches.map(({ untilBucket }) => untilBucket)),
    textArray(stretches.map(({ untilKey }) => untilKey)),
    request.run,
    request.maxRows ?? MAX_ROWS,
    request.ask,
    request.soonMs ?? 0,
  ]);
  const head = splitHead(rows);
  const { stopStretch: stretch, stopBucket: bucket, stopKey: key } = head;
  const inside = stretch !== null && stretch <= stretches.length && bucket !== null && key !== null;
  return {
    epoch: head.epoch ?? 0,
    clock: head.clock ?? 0,
    stop: inside ? { stretch: stretch - 1, bucket, key } : null,
    wanted: head.wanted ?? 0,
    refused: refusedIn(head.refused),
    heldBack: dueHeads(head.heldBack),
    lastAllowed: lastAllowedIn(head.lastAllowed, (_, key) => key),
    due: dueHeads(head.due),
    news: newsIn(head, null),
    jobs: rows.sort(byKey),
  };
}

/** As a claim by key writes it. `place`: where the walk stands behind a key. */
export function lastAllowedIn(
  text: string | null,
  place: (group: string, key: string) => string,
): KeyedClaim['lastAllowed'] {
  if (text === null) return null;
  const [bucket, group, key, shared] = JSON.parse(text);
  return { bucket, key: place(group, key), shared };
}

/** As a claim by key writes them: milliseconds, a bucket and perhaps a type. */
export function dueHeads(text: string | null): DueHead[] {
  return (text ?? '').split(',').flatMap((head) => {
    const [inMs, bucket, ...type] = head.split(':');
    if (inMs === undefined || bucket === undefined) return [];
    const found = { inMs: Number(inMs), bucket: Number(bucket) };
    return [type.length > 0 ? { ...found, type: type.join(':') } : found];
  });
}

/** Keys in any order, and the jobs of each in its own. */
function byKey(a: ClaimedJob, b: ClaimedJob): number {
  if (a.partitionBucket !== b.partitionBucket) return a.partitionBucket - b.partitionBucket;
  if (a.partitionKey !== b.partitionKey) return a.partitionKey < b.partitionKey ? -1 : 1;
  return a.cursorPosition - b.cursorPosition;
}
