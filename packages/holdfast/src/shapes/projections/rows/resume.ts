/** What an operator asks of the owners of shards, and the proof that a cursor may be carried into another cluster. */
import type { Names } from '../../../postgres/names.js';
import type { Executor } from '../../../postgres/queryable.js';
import { int4, int8, statement } from '../../../postgres/statement.js';

export const resumeStops = statement({
  name: 'resume_projection_stops',
  text: `
WITH asked AS (
  UPDATE holdfast.projection_stops AS s SET resume = true, skip = $3::text IS NOT NULL
  FROM holdfast.projections AS p
  WHERE p.id = s.projection_id AND p.name = $1::text AND ($2::text IS NULL OR s.key = $2::text)
    AND ($3::text IS NULL OR s.event_id = $3::text::uuid)
  RETURNING 1
)
SELECT count(*)::integer AS asked FROM asked`,
  columns: { asked: int4 },
});

/** Of all builds of it. `key` null: all keys; `skip`: those that stopped at this event, past it. Returns how many go on. */
export async function askToResume(
  db: Executor,
  names: Names,
  of: { readonly name: string; readonly key: string | null; readonly skip: string | null },
): Promise<number> {
  return (await db.run(resumeStops, names, [of.name, of.key, of.skip]))[0]?.asked ?? 0;
}

export const countLateEvents = statement({
  name: 'count_late_events',
  text: `
-- Behind the last position that a shard has read, everything is unread. Before it, what was committed late may be: in
-- another cluster nobody can tell it from what is written now, so there must be none.
SELECT p.id, (SELECT count(*) FROM holdfast.projection_cursors AS c
  JOIN holdfast.event_log AS e ON e.stream = p.stream AND e.slice BETWEEN c.first_slice AND c.last_slice
    AND e.position <= greatest(c.read_top, c.at_position)
  WHERE c.projection_id = p.id AND NOT pg_visible_in_snapshot(e.xid, c.read_snapshot)
    AND (c.until_snapshot IS NULL
      OR NOT (e.position <= c.at_position AND pg_visible_in_snapshot(e.xid, c.until_snapshot)))) AS late
FROM holdfast.projections AS p
WHERE p.stream = $1::text`,
  columns: { id: int8, late: int8 },
});

/** By the number of the build, how many events it may or may not have read. */
export async function lateOf(db: Executor, names: Names, stream: string) {
  const rows = await db.run(countLateEvents, names, [stream]);
  return new Map(rows.map(({ id, late }) => [id, late]));
}

export const adoptEvents = statement({
  name: 'adopt_events',
  text: `
WITH adopted AS (
  UPDATE holdfast.event_log AS e SET xid = pg_current_xact_id() WHERE e.xid > pg_current_xact_id() RETURNING 1
)
SELECT count(*) AS adopted FROM adopted`,
  columns: { adopted: int8 },
});

/** Events of transactions that are still to come here were written in another cluster: from now on they are of this one. */
export async function adopt(db: Executor, names: Names): Promise<void> {
  await db.run(adoptEvents, names, []);
}

export const rebaseCursors = statement({
  name: 'rebase_projection_cursors',
  text: `
WITH moved AS (
  UPDATE holdfast.projection_cursors AS c SET read_snapshot = '1:1:', read_mark = '0',
    read_top = greatest(c.read_top, c.at_position), until_snapshot = NULL, until_mark = NULL, until_top = NULL,
    at_position = 0, generation = c.generation + 1
  WHERE c.projection_id = $1::bigint
  RETURNING c.projection_id
)
UPDATE holdfast.projections AS p SET cluster = $2::text
WHERE p.id IN (SELECT m.projection_id FROM moved AS m)
RETURNING p.id`,
  columns: { id: int8 },
});

/** From now on its cursors read everything behind their positions. */
export async function rebase(
  db: Executor,
  names: Names,
  of: { readonly id: number; readonly cluster: string | null },
): Promise<void> {
  await db.run(rebaseCursors, names, [of.id, of.cluster]);
}
