/**
 * Pieces of SQL that statements of several rooms share: the fence by which an owner acts, the history of a job, and what
 * a vanished owner is held against it. In them `i` is the row of the job. Migrations have copies: those never change.
 */

/** It is held by the worker `$1`, in this generation, and its lease has not run out. */
export const fenced = (id: string, generation: string) => `i.id = ${id}
    AND i.lease_generation = ${generation}
    AND i.claimed_by = $1::text
    AND i.status = 'processing'
    AND i.lease_expires_at > statement_timestamp()`;

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
 * What the jobs in `gone` have done under `ctx.once` is known for as long from now on as from the day on which it was
 * done: the archive keeps them from now on too, and they can be brought back.
 */
export const KEEPS_EFFECTS = `effects AS (
  UPDATE holdfast.inbox_effects AS e SET created_at = now() FROM gone AS g WHERE e.job_id = g.id
)`;
