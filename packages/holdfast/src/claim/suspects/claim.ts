/**
 * Claiming suspects: jobs whose worker vanished twice or more while it held them.
 *
 * Most crashes are kills and deploys, so a first one changes nothing. A job that crashes again runs apart, in ever
 * smaller groups; `holdfast.inbox_suspects` chooses them (schema/functions/queue/suspects.sql.ts). Only a job that ran
 * alone can be blamed for the next crash: the row says so (`isolated`), and then the attempt counts. Suspects of limited
 * types start only if the allowance lets them, as everywhere.
 */
import { hash32 } from '../../job/key.js';
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { bool, int8, json, statement } from '../../postgres/statement.js';
import {
  allowedOfKept,
  CLOCK,
  type Claimed,
  type ClaimTerms,
  KEPT_AND_ALLOWED,
  NO_JOB,
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
WITH ${openQueue('true')}, kept AS MATERIALIZED (
  SELECT s.place, s.run FROM holdfast.inbox_suspects($5::integer, $7::text[], $8::jsonb, $9::integer) AS s
  WHERE EXISTS (SELECT FROM open_queue)
), ${allowedOfKept()}, claimed AS (
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
