/**
 * Claiming jobs whose rate has keys, from a queue that is read by time. They stand in lines of their own, one for each key,
 * and a claim walks some of the keys: one without a token is stepped over, so a key with a long line holds up nobody.
 */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { int4, int8, json } from '../../postgres/statement.js';
import * as taken from '../../postgres/taken.js';
import { allowed, limited } from '../allowed.js';
import {
  arraysOf,
  byDue,
  type Claimed,
  type ClaimTerms,
  claim,
  claimStatement,
  openQueue,
} from '../take.js';

/** The keys of a type's rate, from behind this one. */
export interface RateWalk {
  readonly type: string;
  /** The newest version that is handled. */
  readonly version: number;
  readonly afterKey: string;
}

export interface RatedRequest extends ClaimTerms {
  readonly walks: readonly RateWalk[];
  /** At most so many keys of each walk. */
  readonly keys: number;
}

/** Nobody has it, or its owner has vanished; and its key is not paused. */
const READY = `${taken.READY}
        AND (i.partition_key = ANY ((SELECT o.paused_keys FROM open_queue AS o)::text[])) IS NOT TRUE`;

export const claimRated = claimStatement({
  name: 'claim_rated',
  ctes: `WITH ${openQueue(`q.ordering = 'none'`)}, keys AS MATERIALIZED (
  SELECT k.*
  FROM open_queue AS o
  CROSS JOIN LATERAL holdfast.inbox_rate_keys($7::text[], $8::integer[], $9::text[], $10::integer, $5::integer,
    o.paused_types, o.paused_keys) AS k
), picked AS MATERIALIZED (
  SELECT k.*, ${limited('k.type')} AS limited
  FROM keys AS k
  WHERE k.place IS NOT NULL
  ORDER BY k.rank, k.available_at, k.position
  LIMIT $5::integer
), ${allowed(`
      -- The function has snapshots of its own. A row that this statement does not see cannot be taken, so it must not pay.
      SELECT p.place, p.type, p.key AS limit_key FROM picked AS p
      JOIN holdfast.inbox AS i ON i.ctid = p.place WHERE p.limited
      ORDER BY p.rank, p.available_at, p.position
    `)}`,
  // Those without a limit are locked here, the others in `allowed`.
  taking: `WHERE i.ctid = ANY (ARRAY(
    SELECT i.ctid FROM holdfast.inbox AS i
    WHERE i.ctid = ANY (ARRAY(SELECT p.place FROM picked AS p WHERE NOT p.limited)) AND ${READY}
    FOR UPDATE SKIP LOCKED
  ) || ARRAY(SELECT a.place FROM allowed AS a WHERE a.ok))`,
  head: {
    found: ['(SELECT count(k.place)::integer FROM keys AS k)', int4.or(0)],
    walked: [
      `(SELECT jsonb_object_agg(k.type, k.last) FROM (
    SELECT k.type, CASE WHEN count(DISTINCT k.key) >= $10::integer THEN max(k.key COLLATE "C") ELSE '' END AS last
    FROM keys AS k GROUP BY k.type
  ) AS k)`,
      json.orNull,
    ],
    // A key whose tokens are used up may have more jobs.
    walk_ms: [
      `least((SELECT min(k.again_ms) FROM keys AS k WHERE k.tokens < 1), (SELECT min(p.again_ms) FROM picked AS p),
    (SELECT min(a.again_ms) FROM allowed AS a WHERE NOT a.whole))`,
      int8.orNull,
    ],
  },
});

export interface RatedClaim extends Claimed {
  /** The keys that were walked have so many jobs that may start. */
  readonly found: number;
  /** By type of which there are jobs with keys, the key with which a walk ended; '': it came to the end. */
  readonly walked: Readonly<Record<string, string>>;
  /** When a key that was walked has a token; null: none waits for one. */
  readonly walkMs: number | null;
}

export async function claimRateKeys(
  db: Executor,
  names: Names,
  request: RatedRequest,
): Promise<RatedClaim> {
  const params = [...arraysOf(request.walks, 'type', 'version', 'afterKey'), request.keys];
  const { head, ...claimed } = await claim(db, names, claimRated, request, params, byDue);
  const { found, walked, walkMs } = head;
  return {
    ...{ ...claimed, found, walkMs },
    walked: walked === null ? {} : JSON.parse(walked),
  };
}
