/**
 * The election: one worker of the fleet does the periodic work of a queue, once per interval. The queue's row remembers when
 * the last round and each service began, so a fleet of fifty does it hardly more often than one. The statement that wins
 * reads and advances both. An advisory lock makes those that ask at the same moment give up; it ends with the statement,
 * so it works behind any pooler. What the rounds do is safe also if two overlap.
 */
import { hash32 } from '../job/key.js';
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { plainArray, statement, text, textArray } from '../postgres/statement.js';

/** Timers carry a jitter of a quarter, so an election may come when this much of the interval is over. */
export const EARLY = 0.7;

export interface Periodic {
  readonly name: string;
  /** No more often than elections come, and as much early as they may be. */
  readonly everyMs: number;
}

export const takeMaintenance = statement({
  name: 'maintenance_turn',
  text: `
WITH turn AS (
  UPDATE holdfast.queues AS q
  SET maintained_at = now(),
    serviced_at = q.serviced_at || coalesce((
      SELECT jsonb_object_agg(s.name, now())
      FROM unnest($4::text[], $5::bigint[]) AS s(name, every_ms)
      WHERE s.every_ms <= $1::integer OR ((q.serviced_at ->> s.name)::timestamptz
        <= now() - (s.every_ms - ${(1 - EARLY).toFixed(1)} * $1::integer) * interval '1 millisecond') IS NOT FALSE
    ), '{}')
  WHERE q.name = 'inbox'
    AND (q.maintained_at IS NULL OR q.maintained_at <= now() - ${EARLY} * $1::integer * interval '1 millisecond')
    AND pg_try_advisory_xact_lock($2::integer, $3::integer)
  RETURNING q.serviced_at
)
SELECT s.name AS due
FROM turn AS t
LEFT JOIN LATERAL jsonb_each(t.serviced_at) AS s(name, at) ON s.at = to_jsonb(now())`,
  columns: { due: text.orNull },
});

export const forgetServices = statement({
  name: 'forget_services',
  text: `
UPDATE holdfast.queues AS q SET serviced_at = q.serviced_at - $1::text[]
WHERE q.name = 'inbox' AND q.serviced_at ?| $1::text[]
RETURNING q.name`,
  columns: { name: text },
});

export function maintenanceLock(names: Names): [number, number] {
  return [hash32('holdfast.maintenance') | 0, hash32(`${names.schema}.${names.queue}`) | 0];
}

/** Which of them are due, by name. Null: somebody has done it within the interval, or is about to. */
export async function winElection(
  db: Executor,
  names: Names,
  intervalMs: number,
  services: readonly Periodic[],
): Promise<ReadonlySet<string> | null> {
  const rows = await db.run(takeMaintenance, names, [
    intervalMs,
    ...maintenanceLock(names),
    textArray(services.map(({ name }) => name)),
    plainArray(services.map(({ everyMs }) => Math.round(everyMs))),
  ]);
  // One row also if nothing is due.
  return rows.length > 0 ? new Set(rows.flatMap(({ due }) => due ?? [])) : null;
}

/** These have failed, or left something over: they are due at the next election. */
export async function makeDueAgain(db: Executor, names: Names, services: readonly string[]) {
  if (services.length > 0) await db.run(forgetServices, names, [textArray(services)]);
}
