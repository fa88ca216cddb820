/**
 * Claiming jobs of limited types, from a queue that is read by time.
 *
 * The function in the database locks the rows of the limits first and counts what runs then, so two workers never
 * take the same place or the same token, whatever they believe. It takes the oldest due jobs as far as places and
 * tokens reach. A job for which there is no token gets a slot, once, and waits for it as for any time; a slot is no
 * right to start, only a place in the line: the token decides. See src/schema/functions/claim-limited.sql.ts.
 */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import {
  bool,
  int2,
  int8,
  plainArray,
  statement,
  textArray,
  timestamp,
} from '../postgres/statement.js';
import { byDue, type DueCursor } from './claim.js';
import { SUSPECTS_LOCK } from './claim-suspects.js';
import {
  type Claimed,
  type ClaimTerms,
  SELECT_TAKEN,
  splitHead,
  TAKEN_COLUMNS,
  termsOf,
} from './taking.js';

export interface LimitedClaimRequest extends ClaimTerms {
  /** The type whose limit holds; null: only that of the queue does. */
  readonly ofType: string | null;
  readonly cursors: readonly DueCursor[];
  /** See `ClaimRequest`. */
  readonly lagMs: number;
  /** Claim one suspect instead. */
  readonly suspects: boolean;
}

export const claimLimitedJobs = statement({
  name: 'claim_limited',
  text: `
SELECT c.epoch, c.clock, c.seen_until, c.again_ms, c.throttled, c.more, c.waits, c.left_priority,
  c.left_at, c.left_position, c.isolated, ${SELECT_TAKEN}
FROM holdfast.inbox_claim_limited($1::text, $2::integer, $3::bigint, $4::bigint[], $5::integer, $6::text[],
  $7::jsonb, $8::smallint[], $9::timestamptz[], $10::bigint[], $11::text, $12::boolean, $13::integer,
  $14::integer) AS c`,
  columns: {
    epoch: int8.orNull,
    clock: int8.orNull,
    seen_until: timestamp.orNull,
    again_ms: int8.orNull,
    throttled: int8.orNull,
    more: bool.orNull,
    waits: bool.orNull,
    left_priority: int2.orNull,
    left_at: timestamp.orNull,
    left_position: int8.orNull,
    isolated: bool,
    ...TAKEN_COLUMNS,
  },
});

/** Where a job stands in the index by time. */
export interface DuePlace {
  readonly priority: number;
  readonly cursorAt: string;
  readonly cursorPosition: number;
}

export interface LimitedClaim extends Claimed {
  /** See `ClaimedByTime`. */
  readonly seenUntil: string;
  /** When there may be a token, or a job that is due; null: nothing is known of it. */
  readonly againMs: number | null;
  /** So many jobs got a slot. */
  readonly throttled: number;
  /** There are more due jobs than it looked at. */
  readonly more: boolean;
  /** Jobs that are due found no place or no token. */
  readonly waits: boolean;
  /** The first due job without a slot that it did not take, or the last that it gave one: the next claim begins there. */
  readonly left: DuePlace | null;
  /** A suspect that must be the only job of its process. */
  readonly alone: boolean;
}

export async function claimLimited(
  db: Executor,
  names: Names,
  request: LimitedClaimRequest,
): Promise<LimitedClaim> {
  const { cursors } = request;
  const rows = await db.run(claimLimitedJobs, names, [
    ...termsOf(request),
    plainArray(cursors.map(({ priority }) => priority)),
    textArray(cursors.map(({ afterAt }) => afterAt)),
    plainArray(cursors.map(({ afterPosition }) => afterPosition)),
    request.ofType,
    request.suspects,
    SUSPECTS_LOCK,
    request.lagMs,
  ]);
  const head = splitHead(rows);
  const { leftPriority, leftAt, leftPosition } = head;
  return {
    epoch: head.epoch ?? 0,
    clock: head.clock ?? 0,
    seenUntil: head.seenUntil ?? '-infinity',
    againMs: head.againMs,
    throttled: head.throttled ?? 0,
    more: head.more ?? false,
    waits: head.waits ?? false,
    left:
      leftPriority === null || leftAt === null || leftPosition === null
        ? null
        : { priority: leftPriority, cursorAt: leftAt, cursorPosition: leftPosition },
    jobs: rows.sort(byDue),
    alone: rows.some(({ isolated }) => isolated),
  };
}
