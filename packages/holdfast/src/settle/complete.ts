/**
 * Completing: finished jobs leave the queue and enter the archive, in one statement. A queue that keeps no
 * archive (a retention of 0) deletes them.
 *
 * Jobs of one key that run one after the other are completed in their order: one that names the job before it
 * (`after`) is completed only if that one is gone, or goes in the same statement. So a worker that has lost one
 * job of a run cannot complete those behind it.
 *
 * What handlers returned is kept with the archived jobs. It travels as one JSON object, by id: nearly always there
 * is none, and then the statement costs what it cost without it.
 */
import { ALL_FENCED, archived, fenced, LEAVING, parentsTold } from '../postgres/fragments.js';
import { int4, statement, textArray, uuid } from '../postgres/statement.js';
import { fence, idsOf, type Settle, type Settled } from './settled.js';

const KEEPS_ARCHIVE = `(SELECT q.archive_retention > '0' FROM holdfast.queues AS q WHERE q.name = 'inbox')`;

/** Parsed once for all rows, by the inner SELECT. */
const RESULT = `CASE WHEN $4::text IS NOT NULL THEN (SELECT $4::text::jsonb) -> id::text END`;

/** Nearly always all of them move; then their number says it, and the ids stay where they are. */
const MOVED = `archived AS (
  ${archived('completed', { more: { result: RESULT } })}
  WHERE ${KEEPS_ARCHIVE}
)
SELECT m.moved, g.id
FROM (SELECT count(*)::integer AS moved, ${parentsTold('c', '(SELECT $4::text::jsonb)')} FROM gone AS g) AS m
LEFT JOIN gone AS g ON m.moved < cardinality($3::bigint[])`;

const columns = { moved: int4, id: uuid.orNull } as const;

export const completeJobs = statement({
  name: 'complete',
  text: `
WITH gone AS (
  DELETE FROM holdfast.inbox AS i
  WHERE ${ALL_FENCED}
  RETURNING ${LEAVING}
), ${MOVED}`,
  columns,
});

export const completeRuns = statement({
  name: 'complete_runs',
  text: `
WITH mine AS MATERIALIZED (
  SELECT i.*, done.after
  FROM unnest($2::uuid[], $3::bigint[], $5::uuid[]) AS done(id, generation, after)
  CROSS JOIN LATERAL (
    SELECT i.id, i.partition_key, i.position FROM holdfast.inbox AS i
    WHERE ${fenced('done.id', 'done.generation')}
    FOR UPDATE
  ) AS i
), linked AS MATERIALIZED (
  SELECT m.id, m.partition_key, m.position,
    m.after IS NULL
      OR m.after IS NOT DISTINCT FROM lag(m.id) OVER (PARTITION BY m.partition_key ORDER BY m.position)
      -- One that stands in this batch and is not ours is lost, also when it is gone.
      OR m.after <> ALL ($2::uuid[])
        AND NOT EXISTS (SELECT FROM holdfast.inbox AS b WHERE b.id = m.after) AS follows
  FROM mine AS m
), in_order AS MATERIALIZED (
  SELECT l.id, bool_and(l.follows)
    OVER (PARTITION BY l.partition_key ORDER BY l.position ROWS UNBOUNDED PRECEDING) AS unbroken
  FROM linked AS l
), gone AS (
  -- By id and not by place: a renewal may have moved the row after this statement began.
  DELETE FROM holdfast.inbox AS i
  WHERE i.id = ANY (ARRAY(SELECT o.id FROM in_order AS o WHERE o.unbroken))
  RETURNING ${LEAVING}
), ${MOVED}`,
  columns,
});

/** Jobs that name the one before them must not be completed inside a caller's transaction. */
export const complete: Settle<Settled> = async (db, names, workerId, jobs) => {
  const batch = [...fence(workerId, jobs), resultsById(jobs)];
  const before = jobs.map((job) => job.after ?? null);
  const rows = before.some((id) => id !== null)
    ? await db.run(completeRuns, names, [...batch, textArray(before)])
    : await db.run(completeJobs, names, batch);
  if (rows[0]?.moved === jobs.length) return idsOf(jobs);
  return rows.flatMap(({ id }) => (id === null ? [] : [id]));
};

/** Null: no handler of the batch returned anything. */
function resultsById(jobs: readonly Settled[]): string | null {
  let text = '';
  for (const { id, result } of jobs) {
    if (result != null) text += `${text === '' ? '{' : ','}"${id}":${result}`;
  }
  return text === '' ? null : `${text}}`;
}

export const findCompleted = statement({
  name: 'find_completed',
  text: `
SELECT a.id
FROM unnest($2::uuid[], $3::bigint[]) AS done(id, generation)
JOIN holdfast.inbox_archive AS a
  ON a.id = done.id AND a.lease_generation = done.generation AND a.claimed_by = $1::text
    AND a.status = 'completed'
-- One that is in the queue was not completed: its id was another job's before.
WHERE NOT EXISTS (SELECT FROM holdfast.inbox AS i WHERE i.id = done.id)
UNION ALL
-- Without an archive, a job that is gone was completed. One that was cancelled is archived all the same, until
-- it is pruned.
SELECT done.id
FROM unnest($2::uuid[]) AS done(id)
WHERE NOT ${KEEPS_ARCHIVE} AND NOT EXISTS (SELECT FROM holdfast.inbox AS i WHERE i.id = done.id)
  AND NOT EXISTS (SELECT FROM holdfast.inbox_archive AS a WHERE a.id = done.id)`,
  columns: { id: uuid },
});

/** After a completion whose answer was lost with the connection: which of the jobs it did complete. */
export const completedBefore: Settle<Settled> = async (db, names, workerId, jobs) =>
  idsOf(await db.run(findCompleted, names, fence(workerId, jobs)));
