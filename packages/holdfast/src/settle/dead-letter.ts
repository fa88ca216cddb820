/**
 * Dead-lettering: the job will not be tried again until a human says so. It stays in the queue as a dead letter,
 * at an `available_at` of infinity, where no claim reads. An ordered one frees its key, unless the queue is
 * `key_strict`: then it holds the key until somebody acts.
 */
import { ALL_FENCED, historyWith, TOLD } from '../postgres/fragments.js';
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { jobStatus, statement, text, uuid } from '../postgres/statement.js';
import { byId, ERROR, fact, fence, type Settled } from './settled.js';

export interface DeadLetter extends Settled {
  readonly error: string;
  readonly summary: string;
}

export const deadLetterJobs = statement({
  name: 'dead_letter',
  text: `
UPDATE holdfast.inbox AS i
SET status = 'dead_letter',
    available_at = 'infinity',
    parked = (SELECT q.ordering <> 'key_strict' FROM holdfast.queues AS q WHERE q.name = 'inbox'),
    claimed_by = NULL, claimed_at = NULL, lease_expires_at = NULL,
    isolated = false,
    last_error = ${ERROR},
    history = ${historyWith(`'outcome', 'dead_letter', 'error', ${fact('summary')}`)}
WHERE ${ALL_FENCED}
RETURNING i.id, i.status, ${TOLD}`,
  columns: { id: uuid, status: jobStatus, untold: text.orNull },
});

/** Returns the jobs that moved, and of each why its onDeadLetter job could not be written. */
export function deadLetter(
  db: Executor,
  names: Names,
  workerId: string,
  jobs: readonly DeadLetter[],
) {
  const facts = byId(jobs, ({ summary }) => ({ summary }));
  const errors = byId(jobs, ({ error }) => error);
  return db.run(deadLetterJobs, names, [...fence(workerId, jobs), facts, errors]);
}
