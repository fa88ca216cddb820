/**
 * Claiming suspects: jobs whose worker vanished twice or more while it held them.
 *
 * Most crashes are kills and deploys, so a first one changes nothing. What crashes again runs apart, in ever
 * smaller groups: 16 after the second crash, 4 after the third, then alone. One group is in flight in the whole
 * fleet. The suspect whose last crash is longest ago goes first, with others of its stage: those who crash again
 * stand behind it, so a fleet that crashes all the time starves nobody. Only a job that ran alone can be blamed for
 * the next crash: the row says so (`isolated`), and then the attempt counts.
 *
 * In a queue with order per key a suspect is taken only as the head of its key; where keys take turns, only if its key
 * and its group have room (`holdfast.inbox_room`), and one that has none holds up nobody. Those of limited types
 * start only if the allowance lets them, as everywhere.
 */
import { hash32 } from '../../job/key.js';
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { bool, int8, json, statement } from '../../postgres/statement.js';
import {
  CLOCK,
  type Claimed,
  type ClaimTerms,
  HANDLED,
  KEPT_AND_ALLOWED,
  limitedOfKept,
  NO_JOB,
  NOT_PAUSED,
  openQueue,
  RECORD_CLAIM,
  REFUSED,
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
import { byDue } from '../time/claim.js';

/** From so many crashes on a job runs alone. */
export const ALONE_FROM = 4;

/** Whoever claims suspects of a queue holds it, with the number of the table. */
export const SUSPECTS_LOCK = hash32('holdfast.suspects') | 0;

export const claimSuspectJobs = statement({
  name: 'claim_suspects',
  text: `
WITH ${openQueue('true')}, waiting AS MATERIALIZED (
  SELECT i.id, i.crashes, (i.history -> -1 ->> 'at')::timestamptz AS crashed_at
  FROM holdfast.inbox AS i
  WHERE i.crashes > 1 AND i.status = 'pending' AND i.available_at <= now() AND ${HANDLED}
    AND ${NOT_PAUSED}
    AND EXISTS (SELECT FROM open_queue AS q
      WHERE (q.ordering IN ('none', 'turns') OR NOT EXISTS (
        SELECT FROM holdfast.inbox AS b
        WHERE NOT b.parked AND b.partition_bucket = i.partition_bucket
          AND b.partition_key COLLATE "C" = i.partition_key COLLATE "C" AND b.position < i.position)))
    -- One group at a time in the whole fleet.
    AND NOT EXISTS (SELECT FROM holdfast.inbox AS r
      WHERE r.crashes > 1 AND r.status = 'processing' AND r.lease_expires_at > now())
), next AS MATERIALIZED (
  SELECT w.* FROM waiting AS w
  WHERE (SELECT pg_try_advisory_xact_lock($9::integer, 'holdfast.inbox'::regclass::oid::integer))
  ORDER BY w.crashed_at NULLS FIRST, w.crashes, w.id
  -- The keys of the first ones may be full.
  LIMIT 100
), fits AS MATERIALIZED (
  SELECT n.* FROM next AS n
  WHERE CASE WHEN (SELECT q.ordering = 'turns' FROM holdfast.queues AS q WHERE q.name = 'inbox')
    THEN n.id = ANY (ARRAY(SELECT r.id FROM holdfast.inbox_room(ARRAY(SELECT m.id FROM next AS m)) AS r(id)))
    ELSE true END
), stage AS MATERIALIZED (
  SELECT f.crashes FROM fits AS f ORDER BY f.crashed_at NULLS FIRST, f.crashes LIMIT 1
), kept AS MATERIALIZED (
  SELECT l.ctid AS place, w.nth AS run
  FROM (
    SELECT f.id, row_number() OVER (ORDER BY f.crashed_at NULLS FIRST, f.id) AS nth FROM fits AS f
    WHERE f.crashes = (SELECT s.crashes FROM stage AS s)
    ORDER BY nth
    LIMIT least($5::integer, (SELECT CASE s.crashes WHEN 2 THEN 16 WHEN 3 THEN 4 ELSE 1 END FROM stage AS s))
  ) AS w
  CROSS JOIN LATERAL (
    SELECT i.ctid FROM holdfast.inbox AS i
    WHERE i.id = w.id AND i.crashes > 1 AND i.status = 'pending'
    FOR UPDATE SKIP LOCKED
  ) AS l
), ${limitedOfKept()}, claimed AS (
  UPDATE holdfast.inbox AS i
  SET ${TAKE}, isolated = i.crashes >= ${ALONE_FROM}
  WHERE i.ctid = ANY (ARRAY(${KEPT_AND_ALLOWED}))
  RETURNING ${RETURN_TAKEN}, i.isolated
), ${RECORD_CLAIM}
SELECT f.epoch, ${CLOCK}, ${REFUSED} AS refused, false AS isolated, ${NO_JOB}
FROM holdfast.fleet AS f
WHERE f.one
UNION ALL
SELECT NULL, NULL, NULL, c.isolated, ${SELECT_TAKEN}
FROM claimed AS c`,
  columns: {
    ...{ epoch: int8.orNull, clock: int8.orNull, refused: json.orNull, isolated: bool },
    ...TAKEN_COLUMNS,
  },
});

export interface SuspectsClaim extends Claimed {
  readonly refused: Refused;
  /** There is one, and it must be the only job that runs in its process. */
  readonly alone: boolean;
}

export async function claimSuspects(
  db: Executor,
  names: Names,
  { versions, ...terms }: ClaimTerms & { readonly versions: Versions },
): Promise<SuspectsClaim> {
  const params = [...termsOf(terms), ...versionsOf(versions), SUSPECTS_LOCK];
  const rows = await db.run(claimSuspectJobs, names, params);
  const { epoch, clock, refused } = splitHead(rows);
  return {
    epoch: epoch ?? 0,
    clock: clock ?? 0,
    refused: refusedIn(refused),
    jobs: rows.sort(byDue),
    alone: rows.some(({ isolated }) => isolated),
  };
}
