/** Keys that stopped: written by the owner of the shard, in the transaction of the page. */
import type { Names } from '../../../postgres/names.js';
import type { Executor } from '../../../postgres/queryable.js';
import { bool, int4, int8, statement, text } from '../../../postgres/statement.js';
import type { SlicedEvent } from './page.js';

export const readStops = statement({
  name: 'read_projection_stops',
  text: `
SELECT s.key, s.resume, CASE WHEN s.skip THEN s.event_id::text END AS skip FROM holdfast.projection_stops AS s
WHERE s.projection_id = $1::bigint AND s.shard = $2::integer`,
  columns: { key: text, resume: bool, skip: text.orNull },
});

/** What was asked of a key that has stopped: to go on, and which event to pass over then. */
export interface Wish {
  readonly resume: boolean;
  readonly skip: string | null;
}

/** The keys of a shard that stopped. */
export async function stopsOf(
  db: Executor,
  names: Names,
  projectionId: number,
  shard: number,
): Promise<Map<string, Wish>> {
  const rows = await db.run(readStops, names, [projectionId, shard]);
  return new Map(rows.map(({ key, resume, skip }) => [key, { resume, skip }]));
}

export const stopKey = statement({
  name: 'stop_projection_key',
  text: `
INSERT INTO holdfast.projection_stops AS s (projection_id, shard, key, position, event_id, type, error)
VALUES ($1::bigint, $2::integer, $3::text, $4::bigint, $5::uuid, $6::text, $7::text)
ON CONFLICT (projection_id, shard, key) DO UPDATE
SET position = excluded.position, event_id = excluded.event_id, type = excluded.type, error = excluded.error,
  resume = false, skip = false
RETURNING s.position`,
  columns: { position: int8 },
});

export async function stop(
  db: Executor,
  names: Names,
  of: { projectionId: number; shard: number; event: SlicedEvent; error: string },
): Promise<void> {
  const { projectionId, shard, event, error } = of;
  const { key, position, id, type } = event;
  await db.run(stopKey, names, [projectionId, shard, key, position, id, type, error]);
}

export const parkEvents = statement({
  name: 'park_events',
  text: `
WITH added AS (
  INSERT INTO holdfast.projection_parked (projection_id, key, position, slice)
  SELECT $1::bigint, e.key, e.position, e.slice
  FROM ROWS FROM (jsonb_to_recordset($2::text::jsonb) AS (key text, position bigint, slice smallint)) WITH ORDINALITY
    AS e(key, position, slice, n)
  ORDER BY e.n
  RETURNING 1
)
SELECT count(*)::integer AS parked FROM added`,
  columns: { parked: int4 },
});

/** Behind those of their keys that wait already. */
export async function park(
  db: Executor,
  names: Names,
  projectionId: number,
  events: readonly SlicedEvent[],
): Promise<void> {
  if (events.length === 0) return;
  const rows = events.map(({ key, position, slice }) => ({ key, position, slice }));
  await db.run(parkEvents, names, [projectionId, JSON.stringify(rows)]);
}

export const unparkEvents = statement({
  name: 'unpark_events',
  text: `
WITH gone AS (
  DELETE FROM holdfast.projection_parked AS k
  WHERE k.projection_id = $1::bigint AND k.key = $2::text AND k.nth <= $3::bigint
  RETURNING 1
)
SELECT count(*)::integer AS unparked FROM gone`,
  columns: { unparked: int4 },
});

export async function unpark(
  db: Executor,
  names: Names,
  of: { projectionId: number; key: string; nth: number },
): Promise<void> {
  await db.run(unparkEvents, names, [of.projectionId, of.key, of.nth]);
}

export const endStop = statement({
  name: 'end_projection_stop',
  text: `
DELETE FROM holdfast.projection_stops AS s
WHERE s.projection_id = $1::bigint AND s.shard = $2::integer AND s.key = $3::text
  AND NOT EXISTS (SELECT FROM holdfast.projection_parked AS k
    WHERE k.projection_id = s.projection_id AND k.key = s.key)
RETURNING s.key`,
  columns: { key: text },
});

/** If nothing of it waits any more. */
export async function goOn(
  db: Executor,
  names: Names,
  of: { projectionId: number; shard: number; key: string },
): Promise<boolean> {
  return (await db.run(endStop, names, [of.projectionId, of.shard, of.key])).length > 0;
}
