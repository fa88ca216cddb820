/**
 * Failing: an attempt ended badly. The job waits for its next attempt, or is a dead letter if that was the last.
 *
 * The error is kept in `last_error`, a line of it in the bounded history.
 * Until its next attempt an ordered job holds its key; as a dead letter it frees it, unless the queue is `key_strict`.
 * If an update reached the job meanwhile (operate/update.ts), its next attempt is due at once.
 * A failed attempt also proves that the job can end without taking its process along: `crashes` is cleared.
 */
import { ALL_FENCED, historyWith, TOLD, WOKEN } from '../postgres/fragments.js';
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { int4, jobStatus, statement, text, timestamp, uuid } from '../postgres/statement.js';
import { byId, DELAY_MS, ERROR, fact, fence, type Settled, WOKEN_AT } from './settled.js';

export interface Failure extends Settled {
  readonly delayMs: number;
  /** The whole, bounded text for `last_error`. */
  readonly error: string;
  /** One line for the history. */
  readonly summary: string;
}

export const failJobs = statement({
  name: 'fail',
  text: `
UPDATE holdfast.inbox AS i
SET status = CASE WHEN i.attempts >= i.max_attempts THEN 'dead_letter' ELSE 'pending' END
      ::holdfast.inbox_status,
    available_at = CASE WHEN i.attempts >= i.max_attempts THEN 'infinity'
      WHEN ${WOKEN} THEN now() ELSE now() + ${DELAY_MS} * interval '1 millisecond' END,
    parked = i.attempts >= i.max_attempts
      AND (SELECT q.ordering <> 'key_strict' FROM holdfast.queues AS q WHERE q.name = 'inbox'),
    claimed_by = NULL, claimed_at = NULL, lease_expires_at = NULL,
    crashes = 0, isolated = false,
    last_error = ${ERROR},
    history = ${historyWith(`'outcome', 'failed', 'error', ${fact('summary')}`)}
WHERE ${ALL_FENCED}
RETURNING i.id, i.status, ${WOKEN_AT} AS woken_at, i.partition_bucket, ${TOLD}`,
  columns: {
    ...{ id: uuid, status: jobStatus, woken_at: timestamp.orNull, partition_bucket: int4 },
    untold: text.orNull,
  },
});

/** Returns the jobs that moved, with `pending` or `dead_letter` for where they went. */
export function fail(db: Executor, names: Names, workerId: string, jobs: readonly Failure[]) {
  return db.run(failJobs, names, [
    ...fence(workerId, jobs),
    byId(jobs, ({ delayMs: delay, summary }) => ({ delay, summary })),
    byId(jobs, ({ error }) => error),
  ]);
}

export const findFailed = statement({
  name: 'find_failed',
  text: `
SELECT i.id, i.status
FROM unnest($2::uuid[], $3::bigint[]) AS failed(id, generation)
JOIN holdfast.inbox AS i ON i.id = failed.id AND i.lease_generation = failed.generation
WHERE i.claimed_by IS NULL AND i.history -> -1 ->> 'worker' = $1::text
  AND i.history -> -1 ->> 'outcome' IN ('failed', 'dead_letter')`,
  columns: { id: uuid, status: jobStatus },
});

/** After a failure whose answer was lost with the connection: which of the jobs wait again or are dead letters. */
export function failedBefore(
  db: Executor,
  names: Names,
  workerId: string,
  jobs: readonly Settled[],
) {
  return db.run(findFailed, names, fence(workerId, jobs));
}
