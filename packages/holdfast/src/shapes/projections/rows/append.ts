/** Appending to the log, and pruning what everybody has read. */
import type { Names } from '../../../postgres/names.js';
import type { Executor } from '../../../postgres/queryable.js';
import { int4, statement } from '../../../postgres/statement.js';

export const appendEvents = statement({
  name: 'append_events',
  text: `
WITH added AS (
  INSERT INTO holdfast.event_log (occurred_at, id, version, bucket, stream, key, type, data, headers)
  SELECT coalesce(e.occurred_at, clock_timestamp()), e.id, e.version, e.bucket, $2::text, e.key, e.type,
    coalesce(e.data, 'null'), e.headers
  FROM jsonb_to_recordset($1::text::jsonb) AS e(occurred_at timestamptz, id uuid, version integer, bucket smallint,
    key text, type text, data jsonb, headers jsonb)
  RETURNING 1
)
SELECT count(*)::integer AS appended FROM added`,
  columns: { appended: int4 },
});

/** Positions follow the order of the array. */
export async function append(
  db: Executor,
  names: Names,
  stream: string,
  events: string,
): Promise<void> {
  await db.run(appendEvents, names, [events, stream]);
}

export const pruneEvents = statement({
  name: 'prune_events',
  text: `
-- Per slice the oldest that are old enough and that every projection of the log has applied: its cursor sees them, and
-- no key of it has them parked.
WITH old AS (
  SELECT e.stream, e.slice, e.position
  FROM generate_series(0, 31) AS s(slice), LATERAL (
    SELECT l.* FROM holdfast.event_log AS l
    WHERE l.stream = $1::text AND l.slice = s.slice
    ORDER BY l.position LIMIT $3::integer / 32) AS e
  WHERE e.written_at < now() - $2::float8 * interval '1 ms'
    AND NOT EXISTS (SELECT FROM holdfast.projections AS p JOIN holdfast.projection_cursors AS c ON c.projection_id = p.id
      WHERE p.stream = e.stream AND e.slice BETWEEN c.first_slice AND c.last_slice
        AND NOT pg_visible_in_snapshot(e.xid, c.read_snapshot))
    AND NOT EXISTS (SELECT FROM holdfast.projection_parked AS k WHERE k.position = e.position)
), gone AS (
  DELETE FROM holdfast.event_log AS l USING old AS o
  WHERE l.stream = o.stream AND l.slice = o.slice AND l.position = o.position
  RETURNING 1
)
SELECT count(*)::integer AS pruned FROM gone`,
  columns: { pruned: int4 },
});

/** At most `most` of them; returns how many went. */
export async function prune(
  db: Executor,
  names: Names,
  of: { readonly stream: string; readonly keepMs: number; readonly most: number },
): Promise<number> {
  const [row] = await db.run(pruneEvents, names, [of.stream, of.keepMs, of.most]);
  return row?.pruned ?? 0;
}
