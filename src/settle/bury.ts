/**
 * Burying: the job will not be tried again until a human says so. It stays in the queue as a dead letter,
 * at an `available_at` of infinity, where no claim reads. An ordered one steps out of the line of its key,
 * which goes on, unless it is to hold the key (`key_strict`).
 */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { plainArray, statement, textArray, uuid } from '../postgres/statement.js';
import type { Settled } from './complete.js';

export interface Burial extends Settled {
  readonly error: string;
  readonly summary: string;
}

export const buryJobs = statement({
  name: 'bury',
  text: `
UPDATE holdfast.inbox AS i
SET status = 'dead_letter',
    available_at = 'infinity',
    parked = (SELECT q.ordering <> 'key_strict' FROM holdfast.queues AS q WHERE q.name = 'inbox'),
    -- A suspect that crashed in its last attempt was claimed once more, only to be buried.
    attempts = least(i.attempts, i.max_attempts),
    claimed_by = NULL, claimed_at = NULL, lease_expires_at = NULL,
    isolated = false,
    last_error = buried.error,
    history = jsonb_path_query_array(
      coalesce(i.history, '[]') || jsonb_build_object('attempt', i.attempts, 'at', now(),
        'worker', i.claimed_by, 'outcome', 'buried', 'error', buried.summary),
      '$[last-19 to last]')
FROM unnest($2::uuid[], $3::bigint[], $4::text[], $5::text[])
  AS buried(id, generation, error, summary)
WHERE i.id = buried.id
  AND i.lease_generation = buried.generation
  AND i.claimed_by = $1::text
  AND i.status = 'processing'
  AND i.lease_expires_at > statement_timestamp()
RETURNING i.id`,
  columns: { id: uuid },
});

export async function bury(
  db: Executor,
  names: Names,
  workerId: string,
  jobs: readonly Burial[],
): Promise<string[]> {
  const rows = await db.run(buryJobs, names, [
    workerId,
    plainArray(jobs.map((job) => job.id)),
    plainArray(jobs.map((job) => job.generation)),
    textArray(jobs.map((job) => job.error)),
    textArray(jobs.map((job) => job.summary)),
  ]);
  return rows.map((row) => row.id);
}
