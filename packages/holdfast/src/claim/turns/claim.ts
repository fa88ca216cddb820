/**
 * Claiming from a queue whose keys take turns: some jobs of each key, at most so many of a key and of a group at once.
 *
 * Which jobs those are is chosen by `holdfast.inbox_turns` (schema/functions/turns/turns.sql.ts), under the mutexes of their buckets,
 * which last until this statement has committed. The function locks the rows, so they are still what it saw. A row
 * that was written after this statement began is not visible to its UPDATE: it is left, and reported as missed.
 */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { bool, int8, type Row, text } from '../../postgres/statement.js';
import { allowedOfKept, KEPT_AND_ALLOWED } from '../allowed.js';
import { KEYS_NEWS, type KeyedClaim, type KeysRequest, keysHead, keysIn } from '../key/claim.js';
import { MOST_READ } from '../pace.js';
import { arraysOf, byDueTime, claim, claimStatement, openQueue, versionsOf } from '../take.js';

/** Its stretches are whole buckets, but for the place where the first begins: places that a claim returned, not keys. */
export interface TurnsRequest extends KeysRequest {
  /** They are all that there is to read: when every key has had its turn, keys may have another. */
  readonly again: boolean;
  /** After so many keys it stops. */
  readonly maxKeys?: number;
}

/** Tokens and permits go from key to key as the keys are read, from the first that was asked for. */
const IN_ROUND = `i.partition_bucket < ($9::integer[])[1], i.partition_bucket,
      coalesce(i.group_key, '') COLLATE "C", i.partition_key COLLATE "C",`;

export const claimTurnsJobs = claimStatement({
  name: 'claim_turns',
  ctes: `WITH ${openQueue('true')}, kept AS MATERIALIZED (
  SELECT c.*, c.turn AS run FROM holdfast.inbox_turns($5::integer, $7::text[], $8::jsonb, $9::integer[], $10::text[],
    $11::integer[], $12::boolean, $13::integer, $14::integer) AS c
), ${allowedOfKept(IN_ROUND)}`,
  taking: `FROM kept AS k
  WHERE i.ctid = k.place AND k.place = ANY (ARRAY(${KEPT_AND_ALLOWED}))`,
  ofKept: { turn: int8.or(0), more: bool.or(false) },
  head: {
    ...keysHead(
      ['s.stop_stretch', 's.stop_bucket', 's.stop_place'],
      '(SELECT count(p.turn) FROM kept AS p)',
      'kept AS d WHERE d.due IS NOT NULL',
    ),
    busy: ['s.busy', text.orNull],
    missed: [
      `(SELECT count(k.place) FROM (${KEPT_AND_ALLOWED}) AS k) - (SELECT count(*) FROM claimed)`,
      int8.or(0),
    ],
  },
  joins: `LEFT JOIN kept AS s ON s.stop_place IS NOT NULL
${KEYS_NEWS}`,
});

export interface TurnsClaim extends KeyedClaim {
  /** Buckets that were passed over because somebody else was claiming from them. */
  readonly busy: readonly number[];
  /** Jobs came while the claim was under way that it could not take any more. */
  readonly missed: boolean;
}

type Turn = Row<typeof claimTurnsJobs.columns>;

/** The jobs come in the order in which they are to be started. */
export async function claimTurns(
  db: Executor,
  names: Names,
  request: TurnsRequest,
): Promise<TurnsClaim> {
  const params = [
    ...versionsOf(request.versions),
    ...arraysOf(request.stretches, 'bucket', 'afterKey', 'untilBucket'),
    request.again,
    request.soonMs ?? 0,
    request.maxKeys ?? MOST_READ,
    request.ask,
  ];
  const byTurn = (a: Turn, b: Turn) => a.turn - b.turn || byDueTime(a, b);
  const claimed = await claim(db, names, claimTurnsJobs, request, params, byTurn);
  const { busy, missed } = claimed.head;
  return {
    ...keysIn(request.stretches, claimed, (group, key) => JSON.stringify([group, key, 0])),
    busy: busy ? busy.split(',').map(Number) : [],
    missed: missed > 0,
  };
}
