/**
 * Completing: finished jobs leave the queue and enter the archive, in one statement.
 *
 * Fenced by owner, generation, state and a live lease. A job that is not returned was not completed by
 * this call: somebody else owns it now, or the lease ran out.
 *
 * A row is found by the place at which its claim wrote it, which saves a descent of the index for every
 * job, and is known there by its position, which is read faster than an id. A place is a hint: the fence
 * is the same, and what is not found there is looked for by its id.
 *
 * Jobs of one key that run one after the other are completed in their order: one that names the job
 * before it is completed only if that one is gone, or goes in the same statement. So a worker that has
 * lost one job of a run cannot complete those behind it. Nearly always all jobs of a batch are completed,
 * and then their order is kept: `complete_whole` does that or nothing, and `complete_runs` what it can.
 */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { bool, int4, plainArray, statement, textArray, uuid } from '../postgres/statement.js';

/** Where a claim left a row, and the position by which it is known there; as the claim says it. */
export interface Place {
  readonly place: string;
  readonly cursorPosition: number;
}

export interface Settled {
  readonly id: string;
  readonly generation: number;
  /** Null when the row may have been written since its claim. */
  readonly place?: Place | null;
  /** The job that ran before this one in a run of its key, as long as it may not be settled. */
  readonly after?: string | null;
  /** Whether that one turned out to be lost; asked just before the statement is sent. */
  readonly broken?: () => boolean;
}

const BY_ID = `unnest($2::uuid[], $3::bigint[]) AS done(id, generation)
  WHERE i.id = done.id`;
const BY_PLACE = `unnest($2::bigint[], $3::bigint[], $4::tid[]) AS done(position, generation, place)
  WHERE i.ctid = done.place AND i.position = done.position`;

/** The fence of every completion that is not chained. */
const takeOut = (where: string) => `DELETE FROM holdfast.inbox AS i
  USING ${where}
    AND i.lease_generation = done.generation
    AND i.claimed_by = $1::text
    AND i.status = 'processing'
    AND i.lease_expires_at > statement_timestamp()
  RETURNING i.id, i.created_at, i.claimed_at, i.lease_generation, i.partition_bucket, i.attempts,
    i.max_attempts, i.version, i.priority, i.type, i.partition_key, i.payload, i.headers,
    i.idempotency_key, i.claimed_by, i.last_error, i.history`;

const ARCHIVE = `INSERT INTO holdfast.inbox_archive (id, created_at, claimed_at, completed_at, lease_generation,
  partition_bucket, attempts, max_attempts, version, status, priority, type, partition_key,
  payload, headers, idempotency_key, claimed_by, last_error, history)
SELECT id, created_at, claimed_at, now(), lease_generation, partition_bucket, attempts, max_attempts,
  version, 'completed', priority, type, partition_key, payload, headers, idempotency_key,
  claimed_by, last_error, history
FROM gone`;

/** Nearly always all of them move; then their number says it, and the ids stay where they are. */
const completeText = (where: string) => `
WITH gone AS (
  ${takeOut(where)}
), archived AS (
  ${ARCHIVE}
)
SELECT m.moved, g.id
FROM (SELECT count(*)::integer AS moved FROM gone) AS m
LEFT JOIN gone AS g ON m.moved < cardinality($3::bigint[])`;
const MOVED = { moved: int4, id: uuid.orNull } as const;

export const completeJobs = statement({
  name: 'complete',
  text: completeText(BY_ID),
  columns: MOVED,
});
export const completePlaced = statement({
  name: 'complete_placed',
  text: completeText(BY_PLACE),
  columns: MOVED,
});

const wholeText = (where: string, elsewhere: string) => `
WITH gone AS (
  ${takeOut(where)}
), archived AS (
  ${ARCHIVE}
)
SELECT holdfast.all_or_none(
  (SELECT count(*) FROM gone) = cardinality($3::bigint[])
  AND NOT EXISTS (SELECT FROM holdfast.inbox AS b WHERE b.id = ANY (${elsewhere}::uuid[]))) AS whole`;

export const completeWhole = statement({
  name: 'complete_whole',
  text: wholeText(BY_ID, '$4'),
  columns: { whole: bool },
});
export const completeWholePlaced = statement({
  name: 'complete_whole_placed',
  text: wholeText(BY_PLACE, '$5'),
  columns: { whole: bool },
});

export const completeRuns = statement({
  name: 'complete_runs',
  text: `
WITH mine AS MATERIALIZED (
  SELECT i.id, i.partition_key, i.position, done.after
  FROM unnest($2::uuid[], $3::bigint[], $4::uuid[]) AS done(id, generation, after)
  JOIN holdfast.inbox AS i ON i.id = done.id
  WHERE i.lease_generation = done.generation
    AND i.claimed_by = $1::text
    AND i.status = 'processing'
    AND i.lease_expires_at > statement_timestamp()
  FOR UPDATE OF i
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
  RETURNING i.*
)
${ARCHIVE}
RETURNING id`,
  columns: { id: uuid },
});

/** Jobs that name the one before them must not be completed inside a caller's transaction. */
export async function complete(
  db: Executor,
  names: Names,
  workerId: string,
  jobs: readonly Settled[],
): Promise<string[]> {
  const before = jobs.map((job) => job.after ?? null);
  if (before.some((id) => id !== null)) return completeInOrder(db, names, workerId, jobs, before);
  const placed = placedOf(workerId, jobs);
  const rows = placed
    ? await db.run(completePlaced, names, placed)
    : await db.run(completeJobs, names, batchOf(workerId, jobs));
  if (rows[0]?.moved === jobs.length) return jobs.map(({ id }) => id);
  const moved = rows.flatMap(({ id }) => (id === null ? [] : [id]));
  if (!placed) return moved;
  const found = new Set(moved);
  const rest = jobs.filter(({ id }) => !found.has(id));
  const byId = rest.map(({ id, generation }) => ({ id, generation }));
  return [...moved, ...(await complete(db, names, workerId, byId))];
}

const batchOf = (workerId: string, jobs: readonly Settled[]) => [
  workerId,
  plainArray(jobs.map((job) => job.id)),
  plainArray(jobs.map((job) => job.generation)),
];

/** Null unless all places are known. */
function placedOf(workerId: string, jobs: readonly Settled[]): string[] | null {
  let [positions, generations, places] = ['', '', ''];
  for (const { place, generation } of jobs) {
    if (!place) return null;
    const comma = positions === '' ? '' : ',';
    positions += `${comma}${place.cursorPosition}`;
    generations += `${comma}${generation}`;
    places += `${comma}"${place.place}"`;
  }
  return [workerId, `{${positions}}`, `{${generations}}`, `{${places}}`];
}

async function completeInOrder(
  db: Executor,
  names: Names,
  workerId: string,
  jobs: readonly Settled[],
  before: readonly (string | null)[],
): Promise<string[]> {
  const ids = jobs.map(({ id }) => id);
  const together = new Set(ids);
  const elsewhere = textArray(before.filter((id) => id !== null && !together.has(id)));
  const batch = batchOf(workerId, jobs);
  const placed = placedOf(workerId, jobs);
  try {
    if (placed) await db.run(completeWholePlaced, names, [...placed, elsewhere]);
    else await db.run(completeWhole, names, [...batch, elsewhere]);
    return ids;
  } catch (error) {
    if ((error as { code?: unknown }).code !== 'HF004') throw error;
    const rows = await db.run(completeRuns, names, [...batch, textArray(before)]);
    return rows.map((row) => row.id);
  }
}

export const findCompleted = statement({
  name: 'find_completed',
  text: `
SELECT a.id
FROM unnest($2::uuid[], $3::bigint[]) AS done(id, generation)
JOIN holdfast.inbox_archive AS a
  ON a.id = done.id AND a.lease_generation = done.generation AND a.claimed_by = $1::text`,
  columns: { id: uuid },
});

/** After a completion whose answer was lost with the connection: which of the jobs it did complete. */
export async function completedBefore(
  db: Executor,
  names: Names,
  workerId: string,
  jobs: readonly Settled[],
): Promise<string[]> {
  const rows = await db.run(findCompleted, names, [
    workerId,
    plainArray(jobs.map((job) => job.id)),
    plainArray(jobs.map((job) => job.generation)),
  ]);
  return rows.map((row) => row.id);
}
