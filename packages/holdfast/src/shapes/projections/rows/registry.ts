/** The builds of projections: which there are, which one is live, and how one takes the place of another. */
import type { Names } from '../../../postgres/names.js';
import type { Executor } from '../../../postgres/queryable.js';
import { bool, int4, int8, type Row, statement, text } from '../../../postgres/statement.js';

export const lockName = statement({
  name: 'lock_projection_name',
  text: `SELECT pg_advisory_xact_lock('holdfast.projections'::regclass::oid::integer, hashtext($1::text))::text AS held`,
  columns: { held: text },
});

/** Until the end of the transaction nobody else adds, promotes or removes builds of the projection. */
export async function lock(db: Executor, names: Names, name: string): Promise<void> {
  await db.run(lockName, names, [name]);
}

export const listBuilds = statement({
  name: 'list_projection_builds',
  text: `
SELECT p.id, p.name, p.version, p.shards::integer, p.auto, p.created, p.state, p.stream, p.tables, p.cluster,
  bool_or(pg_snapshot_xmax(coalesce(c.until_snapshot, c.read_snapshot)) > pg_snapshot_xmax(pg_current_snapshot())) AS younger
FROM holdfast.projections AS p JOIN holdfast.projection_cursors AS c ON c.projection_id = p.id
WHERE $1::text IS NULL OR p.name = $1::text
GROUP BY p.id ORDER BY p.name, p.id`,
  columns: {
    ...{
      id: int8,
      name: text,
      version: int4,
      shards: int4,
      auto: bool,
      created: bool,
      state: text,
    },
    ...{ stream: text, tables: text.orNull, cluster: text.orNull, younger: bool },
  },
});

export type Build = Row<typeof listBuilds.columns>;

export const builds = (db: Executor, names: Names, name: string | null): Promise<Build[]> =>
  db.run(listBuilds, names, [name]);

export const addProjectionBuild = statement({
  name: 'add_projection_build',
  text: `
WITH added AS (
  INSERT INTO holdfast.projections (name, version, stream, shards, auto, state, tables, cluster)
  VALUES ($1::text, $2::integer, $3::text, $4::integer, $5::boolean, $6::text, $7::text, $8::text)
  RETURNING id, state
), named AS (
  SELECT a.id FROM added AS a
), cursors AS (
  INSERT INTO holdfast.projection_cursors (projection_id, shard, first_slice, last_slice)
  SELECT n.id, s.shard, s.shard * (32 / $4::integer), (s.shard + 1) * (32 / $4::integer) - 1
  FROM named AS n, generate_series(0, $4::integer - 1) AS s(shard)
)
SELECT id FROM named`,
  columns: { id: int8 },
});

export interface NewBuild {
  readonly name: string;
  readonly version: number;
  readonly stream: string;
  readonly shards: number;
  readonly auto: boolean;
  readonly state: 'building' | 'live';
  readonly tables: string | null;
  readonly cluster: string | null;
}

export async function addBuild(db: Executor, names: Names, of: NewBuild): Promise<number> {
  const { name, version, stream, shards, auto, state, tables, cluster } = of;
  const values = [name, version, stream, shards, auto, state, tables, cluster];
  const [row] = await db.run(addProjectionBuild, names, values);
  return row?.id as number;
}

export const nameTables = statement({
  name: 'name_projection_tables',
  text: `UPDATE holdfast.projections AS p SET tables = $2::text WHERE p.id = $1::bigint RETURNING p.id`,
  columns: { id: int8 },
});

export async function setTables(db: Executor, names: Names, id: number, tables: string) {
  await db.run(nameTables, names, [id, tables]);
}

export const markCreated = statement({
  name: 'mark_projection_created',
  text: `
UPDATE holdfast.projections AS p SET created = true WHERE p.id = $1::bigint AND NOT p.created
RETURNING p.tables, p.tables IS NOT NULL AND to_regnamespace(quote_ident(p.tables)) IS NOT NULL AS there`,
  columns: { tables: text.orNull, there: bool },
});

/** Undefined: its tables have been made. Others that ask wait for the end of this transaction. */
export async function created(db: Executor, names: Names, id: number) {
  return (await db.run(markCreated, names, [id]))[0];
}

export const lockCursors = statement({
  name: 'lock_projection_cursors',
  text: `
SELECT count(*)::integer AS held FROM (
  SELECT FROM holdfast.projection_cursors AS c JOIN holdfast.projections AS p ON p.id = c.projection_id
  WHERE p.name = $1::text ORDER BY c.projection_id, c.shard FOR NO KEY UPDATE OF c
) AS c`,
  columns: { held: int4 },
});

/** Pages that are being written are waited for, and until the end of this transaction none begins. */
export async function holdAll(db: Executor, names: Names, name: string): Promise<void> {
  await db.run(lockCursors, names, [name]);
}

export const setProjectionState = statement({
  name: 'set_projection_state',
  text: `
UPDATE holdfast.projections AS p SET state = $2::text, tables = $3::text,
  promoted_at = CASE WHEN $2::text = 'live' THEN now() ELSE p.promoted_at END
WHERE p.id = $1::bigint RETURNING p.id`,
  columns: { id: int8 },
});

export async function setState(
  db: Executor,
  names: Names,
  id: number,
  { state, tables }: Pick<Build, 'state' | 'tables'>,
): Promise<void> {
  await db.run(setProjectionState, names, [id, state, tables]);
}

export const findBuild = statement({
  name: 'find_projection_build',
  text: `SELECT p.id FROM holdfast.projections AS p WHERE p.id = $1::bigint`,
  columns: { id: int8 },
});

export const isThere = async (db: Executor, names: Names, id: number): Promise<boolean> =>
  (await db.run(findBuild, names, [id])).length > 0;

export const dropBuild = statement({
  name: 'drop_projection_build',
  text: `DELETE FROM holdfast.projections AS p WHERE p.id = $1::bigint RETURNING p.id`,
  columns: { id: int8 },
});

/** With its cursors and stops. */
export async function drop(db: Executor, names: Names, id: number): Promise<void> {
  await db.run(dropBuild, names, [id]);
}

export const readCluster = statement({
  name: 'read_cluster_id',
  text: 'SELECT holdfast.cluster_id() AS cluster',
  columns: { cluster: text.orNull },
});

/** Null: the owner of the schema may not read it. */
export async function clusterOf(db: Executor, names: Names): Promise<string | null> {
  return (await db.run(readCluster, names, []))[0]?.cluster ?? null;
}

export const countProjecting = statement({
  name: 'count_projecting_workers',
  text: `
SELECT count(*)::integer AS workers FROM holdfast.workers AS w
WHERE w.status = 'alive' AND w.handles -> 'inbox' ? $1::text`,
  columns: { workers: int4 },
});

/** How many workers have the code of a type. */
export async function countProjectors(db: Executor, names: Names, type: string): Promise<number> {
  return (await db.run(countProjecting, names, [type]))[0]?.workers ?? 0;
}
