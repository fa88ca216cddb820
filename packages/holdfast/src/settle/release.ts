/**
 * Releasing: the owner hands jobs back as if it had never claimed them, and the attempt is restored.
 *
 * `release` leaves the job at its old place in the queue, so it runs next; that is what a drain does.
 * `snooze` asks for it again after a delay, and its history says so, in one entry for all that follow each other. If an
 * update reached the job meanwhile, it is due at once.
 * The generation is not taken back: it only ever rises.
 */
import { ALL_FENCED, historyWith, WOKEN } from '../postgres/fragments.js';
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { int4, plainArray, type Row, statement, timestamp, uuid } from '../postgres/statement.js';
import { byId, DELAY_MS, fence, type Settled, WOKEN_AT } from './settled.js';

const RELEASED = `status = 'pending', claimed_by = NULL, claimed_at = NULL, lease_expires_at = NULL,
    attempts = greatest(i.attempts - 1, 0), isolated = false`;

export const releaseJobs = statement({
  name: 'release',
  text: `
UPDATE holdfast.inbox AS i
SET ${RELEASED}
WHERE ${ALL_FENCED}
RETURNING i.id, i.available_at AS run_at, i.partition_bucket`,
  columns: { id: uuid, run_at: timestamp, partition_bucket: int4 },
});

export type Released = Row<typeof releaseJobs.columns>;

/** Returns those that it moved, with what others need to find them. */
export function release(
  db: Executor,
  names: Names,
  workerId: string,
  jobs: readonly Settled[],
): Promise<Released[]> {
  return db.run(releaseJobs, names, fence(workerId, jobs));
}

export interface Snoozed extends Settled {
  readonly delayMs: number;
}

/** The last entry of its history is that of a snooze. */
const SNOOZED_BEFORE = `i.history #>> '{-1,outcome}' = 'snoozed'`;

export const snoozeJobs = statement({
  name: 'snooze',
  text: `
UPDATE holdfast.inbox AS i
SET ${RELEASED}, crashes = 0,
    available_at = CASE WHEN ${WOKEN} THEN now() ELSE now() + ${DELAY_MS} * interval '1 millisecond' END,
    history = ${historyWith(
      `'outcome', 'snoozed', 'times', CASE WHEN ${SNOOZED_BEFORE}
        THEN (i.history #>> '{-1,times}')::integer + 1 ELSE 1 END`,
      `CASE WHEN ${SNOOZED_BEFORE} THEN i.history - (-1) ELSE coalesce(i.history, '[]') END`,
    )}
WHERE ${ALL_FENCED}
RETURNING i.id, ${WOKEN_AT} AS woken_at, i.partition_bucket`,
  columns: { id: uuid, woken_at: timestamp.orNull, partition_bucket: int4 },
});

export function snooze(db: Executor, names: Names, workerId: string, jobs: readonly Snoozed[]) {
  const facts = byId(jobs, ({ delayMs: delay }) => ({ delay }));
  return db.run(snoozeJobs, names, [...fence(workerId, jobs), facts]);
}

export const releaseClaimedJobs = statement({
  name: 'release_claims',
  text: `
UPDATE holdfast.inbox AS i
SET ${RELEASED}
FROM (
  SELECT unnest(c.jobs) AS id, c.claimed_at FROM holdfast.inbox_claims AS c
  WHERE c.worker_id = $1::text AND c.number = ANY ($2::bigint[])
) AS taken
-- The time of the claim stands for its generation, which the lost answer would have held.
WHERE i.id = taken.id
  AND i.claimed_at = taken.claimed_at
  AND i.claimed_by = $1::text
  AND i.status = 'processing'
RETURNING i.id`,
  columns: { id: uuid },
});

/** Hands back what claims took whose answers were lost with the connection: nobody here knows of it. */
export async function releaseClaims(
  db: Executor,
  names: Names,
  workerId: string,
  numbers: readonly number[],
): Promise<number> {
  return (await db.run(releaseClaimedJobs, names, [workerId, plainArray(numbers)])).length;
}
