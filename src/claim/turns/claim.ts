/**
 * Claiming from a queue whose keys take turns: some jobs of each key, at most so many of a key and of a group at once.
 *
 * Which jobs those are is chosen by `holdfast.inbox_turns` (schema/functions/turns/turns.sql.ts), under the mutexes of their buckets,
 * which last until this statement has committed. The function locks the rows, so they are still what it saw. A row
 * that was written after this statement began is not visible to its UPDATE: it is left, and reported as missed.
 */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import {
  bool,
  int4,
  int8,
  json,
  plainArray,
  statement,
  text,
  textArray,
} from '../../postgres/statement.js';
import { dueHeads, type KeyedClaim, type KeyStretch, lastAllowedIn } from '../key/claim.js';
import { NEWS_COLUMNS, NO_NEWS, newsIn, newsOf } from '../news.js';
import { MOST_READ } from '../pace.js';
import {
  allowedOfKept,
  CLOCK,
  type ClaimedJob,
  type ClaimTerms,
  HELD_BACK,
  KEPT_AND_ALLOWED,
  LAST_ALLOWED,
  NO_JOB,
  openQueue,
  RECORD_CLAIM_IN_BUCKETS,
  REFUSED,
  REFUSED_JOBS,
  RETURN_TAKEN,
  refusedIn,
  SELECT_TAKEN,
  splitHead,
  TAKE,
  TAKEN_COLUMNS,
  termsOf,
  type Versions,
  versionsOf,
} from '../take.js';

export interface TurnsRequest extends ClaimTerms {
  readonly versions: Versions;
  /** Whole buckets, but for the place where the first begins. Keys in them are places that a claim returned. */
  readonly stretches: readonly KeyStretch[];
  /** They are all that there is to read: when every key has had its turn, keys may have another. */
  readonly again: boolean;
  /** Also say what `QueueNews` has. */
  readonly ask: boolean;
  /** Say what is due within this time. */
  readonly soonMs?: number;
  /** After so many keys it stops. */
  readonly maxKeys?: number;
}

/** Tokens and permits go from key to key as the keys are read, from the first that was asked for. */
const IN_ROUND = `i.partition_bucket < ($9::integer[])[1], i.partition_bucket,
      coalesce(i.group_key, '') COLLATE "C", i.partition_key COLLATE "C",`;

export const claimTurnsJobs = statement({
  name: 'claim_turns',
  text: `
WITH ${openQueue('true')}, kept AS MATERIALIZED (
  SELECT c.*, c.turn AS run FROM holdfast.inbox_turns($5::integer, $7::text[], $8::jsonb, $9::integer[], $10::text[],
    $11::integer[], $12::boolean, $13::integer, $14::integer) AS c
), ${allowedOfKept(IN_ROUND)}, claimed AS (
  UPDATE holdfast.inbox AS i
  SET ${TAKE}, isolated = false
  FROM kept AS c
  WHERE i.ctid = c.place AND c.place = ANY (ARRAY(${KEPT_AND_ALLOWED}))
  RETURNING ${RETURN_TAKEN}, c.turn, c.more
), ${RECORD_CLAIM_IN_BUCKETS}
-- First what is true of the whole claim, also of one that finds nothing; then the jobs, in any order.
SELECT f.epoch, ${CLOCK}, s.stop_stretch, s.stop_bucket, s.stop_place AS stop_key, s.busy,
  ${REFUSED} AS refused, ${HELD_BACK} AS held_back, ${LAST_ALLOWED} AS last_allowed,
  (SELECT array_to_string((array_agg(p.due))[1:200], ',') FROM kept AS p WHERE p.due IS NOT NULL) AS due,
  (SELECT count(p.turn) FROM kept AS p) - ${REFUSED_JOBS} AS wanted,
  (SELECT count(k.place) FROM (${KEPT_AND_ALLOWED}) AS k) - (SELECT count(*) FROM claimed) AS missed,
  ${newsOf('$15::boolean')},
  NULL::bigint AS turn, NULL::boolean AS more, ${NO_JOB}
FROM holdfast.fleet AS f
LEFT JOIN kept AS s ON s.stop_place IS NOT NULL
WHERE f.one
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, ${NO_NEWS}, c.turn, c.more, ${SELECT_TAKEN}
FROM claimed AS c`,
  columns: {
    epoch: int8.orNull,
    clock: int8.orNull,
    stop_stretch: int4.orNull,
    stop_bucket: int4.orNull,
    stop_key: text.orNull,
    busy: text.orNull,
    refused: json.orNull,
    held_back: text.orNull,
    last_allowed: json.orNull,
    due: text.orNull,
    wanted: int8.or(0),
    missed: int8.or(0),
    ...NEWS_COLUMNS,
    turn: int8.or(0),
    more: bool.or(false),
    ...TAKEN_COLUMNS,
  },
});

/** A job and whether more of its key waits, or is due soon. */
export interface TurnsJob extends ClaimedJob {
  readonly more: boolean;
}

export interface TurnsClaim extends KeyedClaim {
  readonly jobs: TurnsJob[];
  /** Buckets that were passed over because somebody else was claiming from them. */
  readonly busy: readonly number[];
  /** Jobs came while the claim was under way that it could not take any more. */
  readonly missed: boolean;
}

/** The jobs come in the order in which they are to be started. */
export async function claimTurns(
  db: Executor,
  names: Names,
  request: TurnsRequest,
): Promise<TurnsClaim> {
  const { stretches } = request;
  const rows = await db.run(claimTurnsJobs, names, [
    ...termsOf(request),
    ...versionsOf(request.versions),
    plainArray(stretches.map(({ bucket }) => bucket)),
    textArray(stretches.map(({ afterKey }) => afterKey)),
    plainArray(stretches.map(({ untilBucket }) => untilBucket)),
    request.again,
    request.soonMs ?? 0,
    request.maxKeys ?? MOST_READ,
    request.ask,
  ]);
  const head = splitHead(rows);
  const { stopStretch: stretch, stopBucket: bucket, stopKey: key } = head;
  return {
    epoch: head.epoch ?? 0,
    clock: head.clock ?? 0,
    stop:
      stretch !== null && bucket !== null && key !== null
        ? { stretch: stretch - 1, bucket, key }
        : null,
    wanted: head.wanted,
    refused: refusedIn(head.refused),
    heldBack: dueHeads(head.heldBack),
    lastAllowed: lastAllowedIn(head.lastAllowed, (group, key) => JSON.stringify([group, key, 0])),
    due: dueHeads(head.due),
    busy: head.busy ? head.busy.split(',').map(Number) : [],
    missed: head.missed > 0,
    news: newsIn(head, null),
    jobs: rows.sort((a, b) => a.turn - b.turn || byDueTime(a, b)),
  };
}

/** Postgres' timestamps sort as text. */
function byDueTime(a: ClaimedJob, b: ClaimedJob): number {
  if (a.cursorAt !== b.cursorAt) return a.cursorAt < b.cursorAt ? -1 : 1;
  return a.cursorPosition - b.cursorPosition;
}
