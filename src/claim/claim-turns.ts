/**
 * Claiming from a queue whose keys take turns: some jobs of each key, at most so many of a key and of a group at once.
 *
 * Which jobs those are is chosen by `holdfast.inbox_turns` (schema/functions/turns.sql.ts), under the mutexes of their buckets,
 * which last until this statement has committed. The function locks the rows, so they are still what it saw. A row
 * that was written after this statement began is not visible to its UPDATE: it is left, and reported as missed.
 */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { bool, int4, int8, plainArray, statement, text, textArray } from '../postgres/statement.js';
import { MAINTAINED_MS, RECOUNT, SUSPECTS_WAIT } from './claim.js';
import { dueHeads, type KeyedClaim, type KeyStretch } from './claim-keyed.js';
import {
  allowed,
  CLOCK,
  type ClaimedJob,
  type ClaimTerms,
  NO_JOB,
  PAY,
  RECORD_CLAIM_IN_BUCKETS,
  RETURN_TAKEN,
  SELECT_TAKEN,
  splitHead,
  TAKE,
  TAKEN_COLUMNS,
  termsOf,
} from './taking.js';

export interface TurnsRequest extends ClaimTerms {
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

const MAX_KEYS = 1_000;

export const claimTurnsJobs = statement({
  name: 'claim_turns',
  text: `
WITH ${allowed('$15::text')}, picked AS MATERIALIZED (
  SELECT p.* FROM allowed AS a CROSS JOIN LATERAL holdfast.inbox_turns(a.jobs, $6::text[], $7::jsonb, $8::integer[], $9::text[],
    $10::integer[], $11::boolean, $12::integer, $13::integer) AS p
), claimed AS (
  UPDATE holdfast.inbox AS i
  SET ${TAKE}, isolated = false
  FROM picked AS p
  WHERE i.ctid = p.place
  RETURNING ${RETURN_TAKEN}, p.turn, p.more
), ${PAY}, ${RECORD_CLAIM_IN_BUCKETS}
-- First what is true of the whole claim, also of one that finds nothing; then the jobs, in any order.
SELECT f.epoch, ${CLOCK}, s.stop_stretch, s.stop_bucket, s.stop_place AS stop_key, s.busy,
  a.jobs AS allowed, a.again_ms,
  (SELECT array_to_string((array_agg(p.due))[1:200], ',') FROM picked AS p WHERE p.due IS NOT NULL) AS due,
  (SELECT count(p.turn) FROM picked AS p) AS wanted,
  (SELECT count(p.place) FROM picked AS p) - (SELECT count(*) FROM claimed) AS missed,
  CASE WHEN $14::boolean THEN ${SUSPECTS_WAIT} END AS suspects,
  CASE WHEN $14::boolean THEN ${MAINTAINED_MS} END AS maintained_ms,
  CASE WHEN $14::boolean THEN ${RECOUNT} END AS recount,
  NULL::bigint AS turn, NULL::boolean AS more, ${NO_JOB}
FROM holdfast.fleet AS f
CROSS JOIN allowed AS a
LEFT JOIN picked AS s ON s.stop_place IS NOT NULL
WHERE f.one
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, c.turn, c.more, ${SELECT_TAKEN}
FROM claimed AS c`,
  columns: {
    epoch: int8.orNull,
    clock: int8.orNull,
    stop_stretch: int4.orNull,
    stop_bucket: int4.orNull,
    stop_key: text.orNull,
    busy: text.orNull,
    allowed: int4.orNull,
    again_ms: int8.orNull,
    due: text.orNull,
    wanted: int8.or(0),
    missed: int8.or(0),
    suspects: bool.orNull,
    maintained_ms: int8.orNull,
    recount: bool.orNull,
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
    plainArray(stretches.map(({ bucket }) => bucket)),
    textArray(stretches.map(({ afterKey }) => afterKey)),
    plainArray(stretches.map(({ untilBucket }) => untilBucket)),
    request.again,
    request.soonMs ?? 0,
    request.maxKeys ?? MAX_KEYS,
    request.ask,
    request.under ?? null,
  ]);
  const head = splitHead(rows);
  const { stopStretch: stretch, stopBucket: bucket, stopKey: key } = head;
  const { suspects, maintainedMs, recount } = head;
  return {
    epoch: head.epoch ?? 0,
    clock: head.clock ?? 0,
    stop:
      stretch !== null && bucket !== null && key !== null
        ? { stretch: stretch - 1, bucket, key }
        : null,
    wanted: head.wanted,
    allowed: head.allowed ?? 0,
    againMs: head.againMs,
    due: dueHeads(head.due),
    busy: head.busy ? head.busy.split(',').map(Number) : [],
    missed: head.missed > 0,
    news:
      suspects === null
        ? null
        : { suspects, dueInMs: null, maintainedMs, recount: recount ?? false },
    jobs: rows.sort((a, b) => a.turn - b.turn || byDueTime(a, b)),
  };
}

/** Postgres' timestamps sort as text. */
function byDueTime(a: ClaimedJob, b: ClaimedJob): number {
  if (a.cursorAt !== b.cursorAt) return a.cursorAt < b.cursorAt ? -1 : 1;
  return a.cursorPosition - b.cursorPosition;
}
