/** Builds of projections in any state, written as rows: what an operator's questions are asked about. */
import type { TestGround } from './database.js';

export interface PlantedStop {
  readonly key: string;
  readonly error: string;
  readonly type?: string;
}

/**
 * A live build whose keys have stopped at one event each, with one more behind it, and version 2, which has not begun.
 * Returns the ids of the events at which they have stopped.
 */
export async function plantProjection(
  db: TestGround,
  stops: readonly PlantedStop[],
  name = 'order_totals',
): Promise<string[]> {
  await db.rows('TRUNCATE holdfast.event_log, holdfast.projections RESTART IDENTITY CASCADE');
  await db.rows(
    `WITH added AS (
       INSERT INTO holdfast.projections (name, version, stream, shards, state, tables, created) VALUES
         ($1, 1, 'orders', 1, 'live', $1, true), ($1, 2, 'orders', 1, 'building', $1 || '_b2', false)
       RETURNING id
     )
     INSERT INTO holdfast.projection_cursors (projection_id, shard, first_slice, last_slice) SELECT id, 0, 0, 31 FROM added`,
    [name],
  );
  const ids: string[] = [];
  for (const { key, error, type = 'order.paid' } of stops) {
    const [first] = await db.rows<{ id: string }>(
      `WITH e AS (
         INSERT INTO holdfast.event_log (stream, key, type, data)
         VALUES ('orders', $1, $2, '{"cents": 13}'), ('orders', $1, $2, '{"cents": 14}') RETURNING id, position, slice
       ), parked AS (
         INSERT INTO holdfast.projection_parked (projection_id, key, position, slice)
         SELECT 1, $1, position, slice FROM e ORDER BY position
       )
       INSERT INTO holdfast.projection_stops (projection_id, shard, key, position, event_id, type, error)
       SELECT 1, 0, $1, position, id, $2, $3 FROM e ORDER BY position LIMIT 1 RETURNING event_id AS id`,
      [key, type, error],
    );
    ids.push(first?.id ?? '');
  }
  // The live one has read them all.
  await db.rows(
    `UPDATE holdfast.projection_cursors SET read_snapshot = pg_current_snapshot(), read_mark = pg_current_xact_id(),
       read_top = coalesce(pg_sequence_last_value('holdfast.event_log_position_seq'), 0), applied = $1
     WHERE projection_id = 1`,
    [2 * stops.length],
  );
  return ids;
}
