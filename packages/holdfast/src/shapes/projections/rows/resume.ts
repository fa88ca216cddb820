/** What an operator asks of the owners of shards, and the proof that a cursor may be carried into another cluster. */
import type { Names } from '../../../postgres/names.js';
import type { Executor } from '../../../postgres/queryable.js';
import { int4, int8, statement } from '../../../postgres/statement.js';

export const resumeStops = statement({
  name: 'resume_projection_stops',
  text: `
WITH asked AS (
  UPDATE holdfast.projection_stops AS s SET resume = true
  FROM holdfast.projections AS p
  WHERE p.id = s.projection_id AND p.name = $1::text AND ($2::text IS NULL OR s.key = $2::text)
  RETURNING 1
)
SELECT count(*)::integer AS asked FROM asked`,
  columns: { asked: int4 },
});

/** Of all builds of it. `key` null: all keys. Returns how many go on. */
export async function askToResume(
  db: Executor,
  names: Names,
  of: { readonly name: string; readonly key: string | null },
): Promise<number> {
  return (await db.run(resumeStops, names, [of.name, of.key]))[0]?.asked ?? 0;
}

export const countBehind = statement({
  name: 'count_events_behind_cursors',
  text: `
-- Behind the last position that a shard has read, everything is unread. Before it, what was committed late may be: in
-- another cluster nobody can tell it from what is written now, so there must be none.
SELECT count(*) AS late
FROM holdfast.projections AS p
JOIN holdfast.projection_cursors AS c ON c.projection_id = p.id
JOIN holdfast.event_log AS e ON e.stream = p.stream AND e.slice BETWEEN c.first_slice AND c.last_slice
  AND e.position <= greatest(c.read_top, c.at_position)
WHERE p.name = $1::text AND NOT pg_visible_in_snapshot(e.xid, c.read_snapshot)
  AND (c.until_snapshot IS NULL OR NOT (e.position <= c.at_position AND pg_visible_in_snapshot(e.xid, c.until_snapshot)))`,
  columns: { late: int8 },
});

export async function countLate(db: Executor, names: Names, name: string): Promise<number> {
  return (await db.run(countBehind, names, [name]))[0]?.late ?? 0;
}

export const rebaseCursors = statement({
  name: 'rebase_projection_cursors',
  text: `
WITH moved AS (
  UPDATE holdfast.projection_cursors AS c SET read_snapshot = '1:1:', read_mark = '0',
    read_top = greatest(c.read_top, c.at_position), until_snapshot = NULL, until_mark = NULL, until_top = NULL,
    at_position = 0, generation = c.generation + 1
  FROM holdfast.projections AS p
  WHERE p.id = c.projection_id AND p.name = $1::text
  RETURNING c.projection_id
)
UPDATE holdfast.projections AS p SET cluster = $2::text
WHERE p.id IN (SELECT m.projection_id FROM moved AS m)
RETURNING p.id`,
  columns: { id: int8 },
});

/** From now on they read everything behind their positions. */
export async function rebase(
  db: Executor,
  names: Names,
  of: { readonly name: string; readonly cluster: string | null },
): Promise<number> {
  return (await db.run(rebaseCursors, names, [of.name, of.cluster])).length;
}
