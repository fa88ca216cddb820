/**
 * Claiming jobs whose rate has keys, from a queue that is read by time. They stand in lines of their own, one for each key,
 * and a claim walks some of the keys: one without a token is stepped over, so a key with a long line holds up nobody.
 */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { int4, int8, json, plainArray, statement, textArray } from '../../postgres/statement.js';
import {
  allowed,
  CLOCK,
  type Claimed,
  type ClaimTerms,
  limited,
  NO_JOB,
  openQueue,
  RECORD_CLAIM,
  REFUSED,
  type Refused,
  refusedIn,
  SELECT_TAKEN,
  splitHead,
  TAKEN_COLUMNS,
  termsOf,
} from '../take.js';
import { byDue } from './claim.js';
import { CLAIMED } from './taken.js';

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

export const claimRated = statement({
  name: 'claim_rated',
  text: `
WITH ${openQueue(`q.ordering = 'none'`)}, keys AS MATERIALIZED (
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
      SELECT p.place, p.type, p.key AS limit_key FROM picked AS p WHERE p.limited
      ORDER BY p.rank, p.available_at, p.position
    `)}, ${CLAIMED}, ${RECORD_CLAIM}
SELECT f.epoch, ${CLOCK}, (SELECT count(k.place)::integer FROM keys AS k) AS found, ${REFUSED} AS refused,
  (SELECT jsonb_object_agg(k.type, k.last) FROM (
    SELECT k.type, CASE WHEN count(DISTINCT k.key) >= $10::integer THEN max(k.key COLLATE "C") ELSE '' END AS last
    FROM keys AS k GROUP BY k.type
  ) AS k) AS walked,
  -- A key whose tokens are used up may have more jobs.
  least((SELECT min(k.again_ms) FROM keys AS k WHERE k.tokens < 1), (SELECT min(p.again_ms) FROM picked AS p),
    (SELECT min(a.again_ms) FROM allowed AS a WHERE NOT a.whole)) AS walk_ms,
  ${NO_JOB}
FROM holdfast.fleet AS f
WHERE f.one
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, ${SELECT_TAKEN}
FROM claimed AS c`,
  columns: {
    epoch: int8.orNull,
    clock: int8.orNull,
    found: int4.orNull,
    refused: json.orNull,
    walked: json.orNull,
    walk_ms: int8.orNull,
    ...TAKEN_COLUMNS,
  },
});

export interface RatedClaim extends Claimed {
  /** The keys that were walked have so many jobs that may start. */
  readonly found: number;
  readonly refused: Refused;
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
  const { walks } = request;
  const rows = await db.run(claimRated, names, [
    ...termsOf(request),
    textArray(walks.map(({ type }) => type)),
    plainArray(walks.map(({ version }) => version)),
    textArray(walks.map(({ afterKey }) => afterKey)),
    request.keys,
  ]);
  const head = splitHead(rows);
  return {
    epoch: head.epoch ?? 0,
    clock: head.clock ?? 0,
    found: head.found ?? 0,
    refused: refusedIn(head.refused),
    walked: head.walked === null ? {} : JSON.parse(head.walked),
    walkMs: head.walkMs,
    jobs: rows.sort(byDue),
  };
}
