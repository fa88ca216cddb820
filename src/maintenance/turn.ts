/**
 * Whose turn it is: one worker of the fleet does the periodic work of a queue, once per interval.
 *
 * The queue's row remembers when the last round began, so a fleet of fifty does it hardly more often than a
 * fleet of one. An advisory lock makes those that ask at the same moment give up instead of waiting; it ends
 * with the statement, so it works behind any pooler. What the rounds do is safe also if two of them overlap.
 */
import { hash32 } from '../job/key.js';
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { statement, text } from '../postgres/statement.js';

/** Timers carry a jitter of a quarter, so a turn may come when this much of the interval is over. */
export const EARLY = 0.7;

export const takeMaintenance = statement({
  name: 'maintenance_turn',
  text: `
UPDATE holdfast.queues AS q
SET maintained_at = now()
WHERE q.name = 'inbox'
  AND (q.maintained_at IS NULL OR q.maintained_at <= now() - ${EARLY} * $1::integer * interval '1 millisecond')
  AND pg_try_advisory_xact_lock($2::integer, $3::integer)
RETURNING q.name`,
  columns: { name: text },
});

export function maintenanceLock(names: Names): [number, number] {
  return [hash32('holdfast.maintenance') | 0, hash32(`${names.schema}.${names.queue}`) | 0];
}

/** False: somebody has done it within the interval, or is about to. */
export async function takeTurn(db: Executor, names: Names, intervalMs: number): Promise<boolean> {
  const rows = await db.run(takeMaintenance, names, [intervalMs, ...maintenanceLock(names)]);
  return rows.length === 1;
}
