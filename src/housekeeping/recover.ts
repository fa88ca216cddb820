/**
 * Recovering: jobs whose owner is gone return to pending, or become dead letters if they are exhausted.
 *
 * Claims take such jobs by themselves; this is for jobs that no claim would take (a paused queue, a type
 * without a handler) and for the picture that on-call sees. There is no index on leases, because it
 * would make every claim dearer. None is needed: jobs are claimed in the order of the claim index, so
 * what is in flight lies near the start of its bucket, and the first `window` due rows of each are
 * read. Of ordered jobs the heads of `window` keys in each bucket are read, and what follows a head that
 * was ever claimed. What an unusual queue hides further back is still found by claims, which read on to
 * the end. An attempt is spent only if the job ran alone; otherwise it is given back (see claim).
 */
import { BUCKETS } from '../job/key.js';
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { int4, int8, jobStatus, statement, textArray, uuid } from '../postgres/statement.js';

/** No run of a key is longer: as many jobs as the largest claim takes. */
const RUN = 1_000;

/** The job was alone when its process vanished, and it did vanish: it is not the one that recovers. */
const SPENT = '(i.isolated AND i.claimed_by <> $4::text)';

export const recoverJobs = statement({
  name: 'recover',
  text: `
WITH found AS MATERIALIZED (
  SELECT head.id, head.partition_bucket
  FROM generate_series(0, ${BUCKETS - 1}) AS b(bucket)
  CROSS JOIN generate_series(1, 4) AS p(priority)
  CROSS JOIN LATERAL (
    SELECT h.id, h.partition_bucket, h.status, h.lease_expires_at, h.claimed_by
    FROM holdfast.inbox AS h
    WHERE h.partition_bucket = b.bucket AND h.priority = p.priority AND h.available_at <= now()
      AND h.ordering IN ('none', 'parked')
    ORDER BY h.available_at, h.position
    LIMIT $2::integer
  ) AS head
  WHERE head.status = 'processing'
    AND (head.lease_expires_at <= now() OR head.claimed_by = ANY ($1::text[]))
  UNION ALL
  SELECT run.id, run.partition_bucket
  FROM generate_series(0, ${BUCKETS - 1}) AS b(bucket)
  CROSS JOIN LATERAL (
    WITH RECURSIVE head AS (
      (SELECT h.partition_key COLLATE "C" AS key, h.position, h.lease_generation
       FROM holdfast.inbox AS h
       WHERE h.partition_bucket = b.bucket AND h.ordering IN ('key', 'key_strict')
       ORDER BY h.partition_key COLLATE "C", h.position
       LIMIT 1)
      UNION ALL
      SELECT next.* FROM head CROSS JOIN LATERAL (
        SELECT h.partition_key COLLATE "C", h.position, h.lease_generation
        FROM holdfast.inbox AS h
        WHERE h.partition_bucket = b.bucket AND h.ordering IN ('key', 'key_strict')
          AND h.partition_key COLLATE "C" > head.key
        ORDER BY h.partition_key COLLATE "C", h.position
        LIMIT 1
      ) AS next
    )
    SELECT head.* FROM head LIMIT $2::integer
  ) AS head
  CROSS JOIN LATERAL (
    SELECT h.id, h.partition_bucket, h.status, h.lease_expires_at, h.claimed_by
    FROM holdfast.inbox AS h
    WHERE head.lease_generation > 0
      AND h.partition_bucket = b.bucket AND h.ordering IN ('key', 'key_strict')
      AND h.partition_key COLLATE "C" = head.key AND h.position >= head.position
    ORDER BY h.position
    LIMIT ${RUN}
  ) AS run
  WHERE run.status = 'processing'
    AND (run.lease_expires_at <= now() OR run.claimed_by = ANY ($1::text[]))
), orphans AS MATERIALIZED (
  SELECT i.ctid AS place
  FROM found
  JOIN holdfast.inbox AS i ON i.id = found.id AND i.partition_bucket = found.partition_bucket
  WHERE i.status = 'processing' AND (i.lease_expires_at <= now() OR i.claimed_by = ANY ($1::text[]))
  LIMIT $3::integer
  FOR UPDATE OF i SKIP LOCKED
)
UPDATE holdfast.inbox AS i
SET status = CASE WHEN ${SPENT} AND i.attempts >= i.max_attempts THEN 'dead_letter' ELSE 'pending' END
      ::holdfast.inbox_status,
    available_at = CASE WHEN ${SPENT} AND i.attempts >= i.max_attempts THEN 'infinity'
      ELSE i.available_at END,
    ordering = CASE WHEN ${SPENT} AND i.attempts >= i.max_attempts AND i.ordering = 'key' THEN 'parked'
      ELSE i.ordering END,
    attempts = i.attempts - CASE WHEN ${SPENT} THEN 0 ELSE 1 END,
    crashes = i.crashes + 1,
    claimed_by = NULL, claimed_at = NULL, lease_expires_at = NULL, isolated = false,
    last_error = 'The worker ' || i.claimed_by || ' vanished while it held this job.',
    history = jsonb_path_query_array(
      coalesce(i.history, '[]') || jsonb_build_object('attempt', i.attempts, 'at', now(),
        'worker', i.claimed_by, 'outcome', 'vanished', 'spent', ${SPENT}),
      '$[last-19 to last]')
WHERE i.ctid = ANY (ARRAY(SELECT place FROM orphans))
RETURNING i.id, i.status, i.lease_generation, i.partition_bucket`,
  columns: { id: uuid, status: jobStatus, lease_generation: int8, partition_bucket: int4 },
});

export interface RecoverRequest {
  readonly deadWorkers: readonly string[];
  readonly window: number;
  readonly limit: number;
  /** The worker that recovers: it lives, so a job of its own whose lease ran out has killed nobody. */
  readonly recoverer?: string;
}

export function recover(db: Executor, names: Names, request: RecoverRequest) {
  return db.run(recoverJobs, names, [
    textArray(request.deadWorkers),
    request.window,
    request.limit,
    request.recoverer ?? '',
  ]);
}
