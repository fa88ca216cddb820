/**
 * Recovering: jobs whose owner is gone return to pending, or become dead letters if they are exhausted.
 *
 * What a worker holds is found by its claims (`inbox_claims`), so the cost does not depend on the backlog. An
 * owner is gone when the registry calls it dead; a lease that ran out counts too, whoever holds it. An attempt
 * is spent only if the job ran alone; otherwise it is given back. What had not been started (lease/marks.ts) is
 * not blamed. A job that took its worker along too often without ever running alone becomes a dead letter in the
 * end, so that nothing crashes a fleet for ever.
 */
import { historyWith, MAY_BE_CAUSE } from '../postgres/fragments.js';
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { int4, int8, jobStatus, statement, timestamp, uuid } from '../postgres/statement.js';

/** The job was alone when its process vanished, and it did vanish: it is not the one that recovers. */
const SPENT = '(i.isolated AND i.started AND i.claimed_by <> $2::text)';
const MAX_CRASHES = 20;
const EXHAUSTED = `(${SPENT} AND i.attempts >= i.max_attempts
      OR ${MAY_BE_CAUSE} AND i.crashes + 1 >= ${MAX_CRASHES})`;

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
  ) AS n
  GROUP BY n.id, n.worker_id
), orphans AS MATERIALIZED (
  SELECT o.ctid
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
)
UPDATE holdfast.inbox AS i
SET status = CASE WHEN ${EXHAUSTED} THEN 'dead_letter' ELSE 'pending' END::holdfast.inbox_status,
    available_at = CASE WHEN ${EXHAUSTED} THEN 'infinity' ELSE i.available_at END,
    parked = ${EXHAUSTED}
      AND (SELECT q.ordering <> 'key_strict' FROM holdfast.queues AS q WHERE q.name = 'inbox'),
    attempts = i.attempts - CASE WHEN ${SPENT} THEN 0 ELSE 1 END,
    crashes = i.crashes + CASE WHEN ${MAY_BE_CAUSE} THEN 1 ELSE 0 END,
    claimed_by = NULL, claimed_at = NULL, lease_expires_at = NULL, isolated = false,
    last_error = 'The worker ' || i.claimed_by || ' vanished while it held this job.',
    history = ${historyWith(`'outcome', 'vanished', 'spent', ${SPENT}`)}
WHERE i.ctid = ANY (ARRAY(SELECT ctid FROM orphans))
RETURNING i.id, i.status, i.lease_generation, i.available_at AS run_at, i.partition_bucket`,
  columns: {
    id: uuid,
    status: jobStatus,
    lease_generation: int8,
    run_at: timestamp,
    partition_bucket: int4,
  },
});

/** At most so many. The worker that recovers lives, so a job of its own whose lease ran out has killed nobody. */
export function recover(
  db: Executor,
  names: Names,
  { limit, recoverer }: { readonly limit: number; readonly recoverer: string },
) {
  return db.run(recoverJobs, names, [limit, recoverer]);
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
