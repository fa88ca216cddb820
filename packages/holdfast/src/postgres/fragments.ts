/**
 * Pieces of SQL that statements of several rooms share: the fence by which an owner acts, the history of a job, and what
 * a vanished owner is held against it. In them `i` is the row of the job. Migrations have copies: those never change.
 */

const HELD = `i.claimed_by = $1::text
    AND i.status = 'processing'
    AND i.lease_expires_at > statement_timestamp()`;

/** It is held by the worker `$1`, in this generation, and its lease has not run out. */
export const fenced = (id: string, generation: string) => `i.id = ${id}
    AND i.lease_generation = ${generation}
    AND ${HELD}`;

const GIVEN = 'unnest($2::uuid[], $3::bigint[]) AS f(id, generation)';

/**
 * The same for all jobs of two lists, their ids `$2` and generations `$3`. Not as a join: a table that was analysed while it
 * was empty looks smaller than the lists, and then the join would read the whole table and compare every row with every job.
 */
export const ALL_FENCED = `i.id = ANY ($2::uuid[])
    AND ((i.id, i.lease_generation) IN (SELECT f.id, f.generation FROM ${GIVEN})) IS TRUE
    AND ${HELD}`;

/** Its history with another entry, which says this of the attempt. The last 20 are kept. */
export const historyWith = (
  facts: string,
  before = `coalesce(i.history, '[]')`,
) => `jsonb_path_query_array(
      ${before} || jsonb_build_object('attempt', i.attempts, 'at', now(), 'worker', i.claimed_by, ${facts}),
      '$[last-19 to last]')`;

/** Its owner vanished, perhaps because of it. A first crash counts in any case: only from then on the start is written. */
export const MAY_BE_CAUSE = '(i.crashes = 0 OR i.started)';

/**
 * For RETURNING, which sees what the statement has made of the row: writes the job that tells of a dead letter, if there is
 * to be one, and counts a child in its parent (schema/functions/job/dead-letter-hook.sql.ts). Why the job could not be
 * written; NULL: nothing is wrong.
 */
export const TOLD = `CASE WHEN i.status = 'dead_letter'
    THEN holdfast.dead_letter_hook('inbox', i.id, i.type, i.parent) END AS untold`;

/**
 * An update asked for it to be due at once while this attempt had it. A claim takes only what is due, and writes its own
 * time; so a later due time was written while the job ran (operate/update.ts), and is kept until the attempt settles.
 */
export const WOKEN = '((i.available_at > i.claimed_at) IS TRUE)';

/** What a job that ends takes along into the archive as it is. */
const KEPT = `id, created_at, claimed_at, lease_generation, partition_bucket, attempts, max_attempts,
    version, priority, type, partition_key, payload, headers, idempotency_key, claimed_by, group_key, unique_key`;

/** What `archived` and `parentsTold` need of the row of a job that leaves the queue. */
export const LEAVING = `${KEPT}, last_error, history, parent`;

/**
 * Counts the children in `gone` in their parents (schema/functions/workflow/wake-run.sql.ts). For a subselect of `gone`;
 * NULL, at no cost, where there are none. `results`: an object by id.
 */
export const parentsTold = (outcome: 'c' | 'x', results: string) =>
  `CASE WHEN count(g.parent) > 0 THEN holdfast.children_ended(array_agg(g.id) FILTER (WHERE g.parent IS NOT NULL),
    array_agg(g.parent) FILTER (WHERE g.parent IS NOT NULL), '${outcome}', ${results}) END`;

/** The jobs in `gone` enter the archive, as `i`. `more`: further columns, with what is in them. */
export function archived(
  status: 'completed' | 'cancelled' | 'dead_letter',
  {
    lastError = 'last_error',
    history = 'history',
    more = {} as Readonly<Record<string, string>>,
  } = {},
): string {
  const columns = Object.keys(more).map((column) => `, ${column}`);
  const values = Object.values(more).map((value) => `, ${value}`);
  return `INSERT INTO holdfast.inbox_archive (${KEPT},
  completed_at, status, last_error, history${columns.join('')})
SELECT ${KEPT},
  now(), '${status}', ${lastError}, ${history}${values.join('')}
FROM gone AS i`;
}

/**
 * What the jobs in `gone` have done under `ctx.once`, or as runs of workflows, is known for as long from now on as from the
 * day on which it was done: the archive keeps them from now on too, and they can be brought back.
 */
export const KEEPS_EFFECTS = `effects AS (
  UPDATE holdfast.inbox_effects AS e SET created_at = now() FROM gone AS g WHERE e.job_id = g.id
), steps AS (
  UPDATE holdfast.inbox_steps AS e SET check_at = now() FROM gone AS g WHERE e.run_id = g.id AND e.check_at IS NOT NULL
), signals AS (
  UPDATE holdfast.inbox_signals AS e SET check_at = now() FROM gone AS g WHERE e.run_id = g.id
), children AS (
  UPDATE holdfast.inbox_children AS e SET check_at = now() FROM gone AS g WHERE e.run_id = g.id
)`;

/** For the WHERE of `archived`: the children among the cancelled are counted in their parents, once for all of them. */
export const CANCELLED_TOLD = `coalesce((SELECT ${parentsTold('x', 'NULL')} FROM gone AS g), 0) >= 0`;
