/**
 * Whose turn it is: one worker of the fleet does the housekeeping of a queue, once per interval.
 *
 * The advisory lock is held for a transaction, so it works behind any pooler and is gone with the
 * process; the queue's row remembers when the work was last done, so a fleet of fifty does it hardly more
 * often than a fleet of one. Timers carry a jitter of a quarter, so a turn may come that much early.
 */
import { hash32 } from '../job/key.js';
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { bool, statement, text } from '../postgres/statement.js';

export const tryLock = statement({
  name: 'housekeeping_lock',
  text: 'SELECT pg_try_advisory_xact_lock($1::integer, $2::integer) AS acquired',
  columns: { acquired: bool },
});

function lockKeys(names: Names): [number, number] {
  return [hash32('holdfast.housekeeping') | 0, hash32(`${names.schema}.${names.queue}`) | 0];
}

/** Must be called inside a transaction; the lock goes with it. */
export async function acquire(db: Executor, names: Names): Promise<boolean> {
  const [row] = await db.run(tryLock, names, lockKeys(names));
  return row?.acquired === true;
}

export const waitForLock = statement({
  name: 'housekeeping_wait',
  text: 'SELECT pg_advisory_xact_lock($1::integer, $2::integer)::text AS waited',
  columns: { waited: text },
});

/** For whoever has the turn: the others hold the lock only while they look whether it is theirs. */
export async function waitAndAcquire(db: Executor, names: Names): Promise<boolean> {
  await db.run(waitForLock, names, lockKeys(names));
  return true;
}

export const takeHousekeeping = statement({
  name: 'housekeeping_turn',
  text: `
UPDATE holdfast.queues AS q
SET housekept_at = now()
WHERE q.name = 'inbox'
  AND (q.housekept_at IS NULL OR q.housekept_at <= now() - 0.7 * $1::integer * interval '1 millisecond')
RETURNING q.name`,
  columns: { name: text },
});

/** False: somebody has done it within the interval. */
export async function takeTurn(db: Executor, names: Names, intervalMs: number): Promise<boolean> {
  return (await db.run(takeHousekeeping, names, [intervalMs])).length === 1;
}
