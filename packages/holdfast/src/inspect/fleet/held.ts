/**
 * What workers hold, by their claims. Each claim leaves a row beside the jobs (`inbox_claims`), so this costs
 * by what is in flight and not by what waits, and it is exact at any backlog. A claim's row outlives single
 * jobs of it, so the rows of the queue decide: only a job that the worker of the claim still holds counts.
 */
import { int8, text, textArray, uuid } from '../../postgres/statement.js';
import { runs } from '../../postgres/taken.js';
import { type Answer, asks } from '../reading/asks.js';
import { instant } from '../reading/columns.js';

/** Columns of the jobs `i` that are held, with their claims' worker in `held`. */
export const FROM_HELD = (columns: string, which = '') => `FROM (
  -- A job that was released and claimed again by the same worker may be in two of its claims.
  SELECT DISTINCT c.worker_id, j.id
  FROM holdfast.inbox_claims AS c CROSS JOIN LATERAL unnest(c.jobs) AS j(id) ${which}
) AS held
-- With a LIMIT, so that it cannot be planned as a join of all rows.
CROSS JOIN LATERAL (
  SELECT ${columns} FROM holdfast.inbox AS i
  WHERE i.id = held.id AND i.claimed_by = held.worker_id AND i.status = 'processing'
  LIMIT 1
) AS i`;

export const heldJobs = asks({
  name: 'held_by_worker',
  text: `
SELECT held.worker_id AS worker, count(*) AS jobs,
  count(*) FILTER (WHERE i.lease_expires_at <= now()) AS expired, min(i.claimed_at) AS oldest_claim,
  coalesce(sum(extract(epoch FROM greatest(i.claimed_at - i.available_at, '0')) * 1000), 0)::bigint AS waited_ms
${FROM_HELD('i.claimed_at, i.lease_expires_at, i.available_at')}
GROUP BY held.worker_id
ORDER BY held.worker_id`,
  columns: {
    worker: text,
    jobs: int8,
    expired: int8,
    oldest_claim: instant,
    /** From the time at which each was due until it was claimed, all together. */
    waited_ms: int8,
  },
});

export type Holding = Answer<typeof heldJobs>;

/** Of each worker one row for all that it holds, and one for each type, the longest held first. */
export const heldTypes = asks({
  name: 'held_by_type',
  text: `
SELECT held.worker_id AS worker, i.type, count(*) AS jobs, count(DISTINCT i.partition_key) AS keys,
  min(i.claimed_at) AS oldest_claim, (array_agg(i.id ORDER BY i.claimed_at, i.id))[1] AS longest
${FROM_HELD('i.id, i.type, i.partition_key, i.claimed_at', 'WHERE c.worker_id = ANY ($1::text[])')}
GROUP BY GROUPING SETS ((held.worker_id), (held.worker_id, i.type))
ORDER BY held.worker_id, i.type IS NOT NULL, min(i.claimed_at)`,
  columns: {
    worker: text,
    /** Null: of all types. */
    type: text.orNull,
    jobs: int8,
    keys: int8,
    oldest_claim: instant,
    longest: uuid,
  },
  params: (workers: readonly string[]) => [textArray(workers)],
});

export type HeldType = Answer<typeof heldTypes>;

/** The suspects of a queue that run alone. Their workers take nothing else, of any queue. */
export const isolatedJobs = asks({
  name: 'isolated_jobs',
  text: `
SELECT i.claimed_by AS worker, i.id, i.type, i.claimed_at
FROM holdfast.inbox AS i
WHERE i.crashes > 1 AND i.isolated AND ${runs('i')}`,
  columns: { worker: text, id: uuid, type: text, claimed_at: instant },
});

export type IsolatedJob = Answer<typeof isolatedJobs>;
