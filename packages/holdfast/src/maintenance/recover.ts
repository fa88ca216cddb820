/**
 * Recovering: jobs whose owner is gone return to pending, or become dead letters if they are exhausted.
 *
 * What a worker holds is found by its claims (`inbox_claims`), so the cost does not depend on the backlog. An
 * owner is gone when the registry calls it dead; a lease that ran out counts too, whoever holds it. An attempt
 * is spent only if the job ran alone; otherwise it is given back. What had not been started (lease/marks.ts) is
 * not blamed. A job that took its worker along too often without ever running alone becomes a dead letter in the
 * end, so that nothing crashes a fleet for ever.
 *
 * Who vanished together with most of the fleet says nothing against the jobs that it held. They run in groups of
 * suspects all the same, but only until nothing has crashed for a moment: then they are cleared. What kills its worker
 * as soon as it starts is found in that moment, also if such jobs had killed the whole fleet at once.
 *
 * A claim that was made by hand in SQL has no row in `inbox_claims`. A round of maintenance reads some pages of the
 * queue for those, and the next round goes on from there.
 */
import { historyWith, MAY_BE_CAUSE, TOLD } from '../postgres/fragments.js';
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import {
  int4,
  int8,
  jobStatus,
  statement,
  text,
  textArray,
  timestamp,
  uuid,
} from '../postgres/statement.js';
import { livenessSpace, TOGETHER_FLAG, whoIsGone } from '../postgres/together.js';

/** Its owner vanished with most of the fleet. */
const TOGETHER = '(i.claimed_by = ANY (ARRAY(SELECT b.id FROM blameless AS b)))';
/** The job was alone when its process vanished, and it did vanish: it is not the one that recovers. */
const SPENT = `(i.isolated AND i.started AND i.claimed_by <> $2::text AND NOT ${TOGETHER})`;
/** A crash that makes a suspect of it only for a moment; one that is a suspect already stays what it is. */
const COUNTED = `(${MAY_BE_CAUSE} AND NOT (${TOGETHER} AND i.crashes > 1))`;
/** It is a suspect, but only because of crashes of most of the fleet. */
const blameless = (row: string) => `(${row}.history -> -1 -> 'together' = 'true') IS TRUE`;
const MAX_CRASHES = 20;
const EXHAUSTED = `(${SPENT} AND i.attempts >= i.max_attempts
      OR ${COUNTED} AND i.crashes + 1 >= ${MAX_CRASHES})`;

export const recoverJobs = statement({
  name: 'recover',
  text: `
WITH held AS MATERIALIZED (
  -- A job that was released and claimed again stands in two claims, and a batch must not count it twice.
  SELECT n.id, n.worker_id, bool_or(n.dead) AS dead
  FROM (
    SELECT j.id, c.worker_id, w.status = 'dead' AS dead
    FROM holdfast.inbox_claims AS c
    LEFT JOIN holdfast.workers AS w ON w.id = c.worker_id
    CROSS JOIN LATERAL unnest(c.jobs) AS j(id)
    UNION ALL
    -- Claims take over any other job whose lease ran out, but no suspect, and its claim's row may be gone: the
    -- worker had finished that claim when a failover brought the job back, or it committed after its release.
    SELECT s.id, s.claimed_by, false
    FROM holdfast.inbox AS s
    WHERE s.crashes > 1 AND s.status = 'processing' AND s.lease_expires_at <= now()
    UNION ALL
    -- What was claimed by hand has no such row, and perhaps nobody who handles it.
    SELECT p.id, p.claimed_by, false
    FROM holdfast.inbox AS p
    WHERE p.ctid >= $4::text::tid AND p.ctid < $5::text::tid
      AND p.status = 'processing' AND p.lease_expires_at <= now()
  ) AS n
  GROUP BY n.id, n.worker_id
), orphans AS MATERIALIZED (
  SELECT o.ctid, h.dead
  FROM held AS h
  -- It locks rows, so it cannot be planned as a join that reads the whole queue.
  CROSS JOIN LATERAL (
    SELECT i.ctid
    FROM holdfast.inbox AS i
    WHERE i.id = h.id AND i.claimed_by = h.worker_id AND i.status = 'processing'
      AND (i.lease_expires_at <= now() OR h.dead)
    FOR UPDATE SKIP LOCKED
  ) AS o
  LIMIT $1::integer
-- A fleet that was away for longer than a lease: nobody was there to declare its workers dead.
), ${whoIsGone('$3::integer', 'EXISTS (SELECT FROM orphans AS o WHERE o.dead IS NOT TRUE)')}, blameless AS MATERIALIZED (
  SELECT t.id FROM together AS t
  UNION ALL
  SELECT w.id FROM holdfast.workers AS w
  WHERE w.status = 'dead' AND w.left_at IS NULL AND w.metadata -> '${TOGETHER_FLAG}' = 'true'
    AND EXISTS (SELECT FROM orphans AS o WHERE o.dead)
)
UPDATE holdfast.inbox AS i
SET status = CASE WHEN ${EXHAUSTED} THEN 'dead_letter' ELSE 'pending' END::holdfast.inbox_status,
    available_at = CASE WHEN ${EXHAUSTED} THEN 'infinity' ELSE i.available_at END,
    parked = ${EXHAUSTED}
      AND (SELECT q.ordering <> 'key_strict' FROM holdfast.queues AS q WHERE q.name = 'inbox'),
    attempts = i.attempts - CASE WHEN ${SPENT} THEN 0 ELSE 1 END,
    crashes = i.crashes + CASE WHEN ${COUNTED} THEN 1 ELSE 0 END,
    claimed_by = NULL, claimed_at = NULL, lease_expires_at = NULL, isolated = false,
    last_error = 'The worker ' || i.claimed_by || ' vanished while it held this job.',
    history = ${historyWith(`'outcome', 'vanished', 'spent', ${SPENT},
        'together', ${TOGETHER} AND (i.crashes < 2 OR ${blameless('i')})`)}
WHERE i.ctid = ANY (ARRAY(SELECT o.ctid FROM orphans AS o))
  AND ((i.type = ANY ($6::text[]) OR '' = ANY ($6::text[])) IS NOT TRUE OR ${EXHAUSTED} IS NOT TRUE)
RETURNING i.id, i.status, i.crashes, i.lease_generation, i.available_at AS run_at, i.partition_bucket,
  ${TOLD}`,
  columns: {
    id: uuid,
    status: jobStatus,
    crashes: int4,
    lease_generation: int8,
    run_at: timestamp,
    partition_bucket: int4,
    untold: text.orNull,
  },
});

/** Pages of the queue's table: from this one on, and up to that one. */
export interface Pages {
  readonly from: number;
  readonly to: number;
}

export interface RecoverRequest {
  readonly limit: number;
  /** The worker that recovers lives, so a job of its own whose lease ran out has killed nobody. */
  readonly recoverer: string;
  /** Where to search for claims that were made by hand. */
  readonly pages?: Pages;
  /** Exhausted jobs of these types are left as they are, '' of all types: a dead letter may have to write elsewhere. */
  readonly leave?: readonly string[];
}

export function recover(db: Executor, names: Names, request: RecoverRequest) {
  const { limit, recoverer, pages = { from: 0, to: 0 }, leave = [] } = request;
  const space = livenessSpace(names.schema);
  const [from, to] = [`(${pages.from},0)`, `(${pages.to},0)`];
  return db.run(recoverJobs, names, [limit, recoverer, space, from, to, textArray(leave)]);
}

/** So long nothing must have crashed. A death is found within this time, so a job that kills at once is found first. */
export const QUIET_MS = 2_000;

export const clearBlameless = statement({
  name: 'clear_blameless',
  text: `
UPDATE holdfast.inbox AS i
SET crashes = 1
WHERE i.ctid = ANY (ARRAY(
  SELECT s.ctid FROM holdfast.inbox AS s
  WHERE s.crashes > 1 AND s.crashes < 3 AND s.status = 'pending' AND ${blameless('s')}
    AND NOT EXISTS (SELECT FROM holdfast.inbox AS c
      WHERE c.crashes > 1 AND c.history -> -1 ->> 'outcome' = 'vanished'
        AND (c.history -> -1 ->> 'at')::timestamptz > now() - $2::integer * interval '1 millisecond')
  ORDER BY s.id
  LIMIT $1::integer
  FOR UPDATE SKIP LOCKED))
RETURNING i.id, i.available_at AS run_at, i.partition_bucket`,
  columns: { id: uuid, run_at: timestamp, partition_bucket: int4 },
});

/** Suspects whose worker vanished with most of the fleet run like others again, once nothing has crashed for a while. */
export function clearSuspects(db: Executor, names: Names, limit: number) {
  return db.run(clearBlameless, names, [limit, QUIET_MS]);
}

export const forgetDeadClaims = statement({
  name: 'forget_claims',
  text: `
WITH gone AS (
  DELETE FROM holdfast.inbox_claims AS c
  WHERE (c.claimed_at < now() - interval '1 minute' OR NOT EXISTS (
      SELECT FROM holdfast.workers AS w WHERE w.id = c.worker_id AND w.status <> 'dead'))
    AND NOT EXISTS (
      SELECT FROM unnest(c.jobs) AS held(id)
      -- One value for each, so that it cannot be planned as a join that reads the whole queue.
      WHERE (SELECT true FROM holdfast.inbox AS i
        WHERE i.id = held.id AND i.claimed_by = c.worker_id AND i.status = 'processing' LIMIT 1))
  RETURNING 1
)
SELECT count(*) AS forgotten FROM gone`,
  columns: { forgotten: int8 },
});

/** Claims of which nothing is left. Live workers forget theirs, but for those of which they lost a job. */
export async function forgetClaims(db: Executor, names: Names): Promise<number> {
  const [row] = await db.run(forgetDeadClaims, names, []);
  return row?.forgotten ?? 0;
}

/** 16 MB: twenty to forty thousand jobs, if they are small. They are read in about 10 ms. */
export const PAGES_A_ROUND = 2_000;

/** An index on leases, which would find them, would be written by every claim and renewal. */
export const takePages = statement({
  name: 'take_pages',
  text: `
WITH size AS MATERIALIZED (
  SELECT pg_relation_size('holdfast.inbox'::regclass) / current_setting('block_size')::integer AS pages
), begin AS MATERIALIZED (
  SELECT CASE WHEN b.page < s.pages THEN b.page ELSE 0 END AS page, s.pages
  FROM size AS s
  CROSS JOIN LATERAL (
    SELECT coalesce((q.serviced_at ->> 'page')::bigint, 0) AS page FROM holdfast.queues AS q WHERE q.name = 'inbox'
  ) AS b
), moved AS (
  UPDATE holdfast.queues AS q
  SET serviced_at = q.serviced_at || jsonb_build_object('page', (SELECT b.page FROM begin AS b) + $1::bigint)
  WHERE q.name = 'inbox' AND (SELECT b.pages FROM begin AS b) > $1::bigint
)
SELECT b.page, b.page + $1::bigint AS page_after FROM begin AS b`,
  columns: { page: int8, page_after: int8 },
});

/** The next ones. Rows that come to the table later lie on pages that a later round reads. */
export async function nextPages(db: Executor, names: Names): Promise<Pages> {
  const [row] = await db.run(takePages, names, [PAGES_A_ROUND]);
  return { from: row?.page ?? 0, to: row?.pageAfter ?? 0 };
}
