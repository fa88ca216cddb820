/**
 * The cursor of a shard. Its owner holds the job of the shard; each write names the generation that the owner took, and
 * looks whether the job is still its own. So a process that was frozen writes nothing once its lease is over.
 */
import type { Names } from '../../../postgres/names.js';
import type { Executor } from '../../../postgres/queryable.js';
import { bool, int4, int8, type Row, statement, text } from '../../../postgres/statement.js';

/** The job of the shard, as its owner claimed it. */
export interface Holder {
  readonly jobId: string;
  readonly generation: number;
}

/** `$1` and `$2` are the job and its generation. */
const HELD = `EXISTS (SELECT FROM holdfast.inbox AS i WHERE i.id = $1::text::uuid
    AND i.lease_generation = $2::bigint AND i.status = 'processing' AND i.lease_expires_at > statement_timestamp())`;

const cursorColumns = {
  ...{ generation: int8, first_slice: int4, last_slice: int4, applied: int8 },
  ...{ read_snapshot: text, read_mark: text, read_top: int8 },
  ...{ until_snapshot: text.orNull, until_top: int8.orNull, at_position: int8 },
};

const CURSOR = `c.generation, c.first_slice::integer, c.last_slice::integer, c.applied,
  c.read_snapshot::text, c.read_mark::text, c.read_top, c.until_snapshot::text, c.until_top, c.at_position`;

export const takeCursor = statement({
  name: 'take_cursor',
  text: `
UPDATE holdfast.projection_cursors AS c SET generation = c.generation + 1
FROM holdfast.projections AS p
WHERE p.id = c.projection_id AND c.projection_id = $3::bigint AND c.shard = $4::integer AND ${HELD}
RETURNING ${CURSOR}, p.name, p.stream, p.version, p.created, p.state, p.cluster,
  pg_snapshot_xmax(coalesce(c.until_snapshot, c.read_snapshot)) > pg_snapshot_xmax(pg_current_snapshot()) AS younger`,
  columns: {
    ...cursorColumns,
    ...{ name: text, stream: text, version: int4, created: bool, state: text },
    ...{ cluster: text.orNull, younger: bool },
  },
});

export type TakenCursor = Row<typeof takeCursor.columns>;

/** Undefined: the job is not ours any more, or the projection was removed. */
export async function take(
  db: Executor,
  names: Names,
  holder: Holder,
  projectionId: number,
  shard: number,
): Promise<TakenCursor | undefined> {
  const { jobId, generation } = holder;
  const [row] = await db.run(takeCursor, names, [jobId, generation, projectionId, shard]);
  return row;
}

export const moveCursor = statement({
  name: 'move_cursor',
  text: `
-- The last page of a window moves the cursor's snapshot. The mark is taken after \`until_top\` was read: that is what makes
-- it true that transactions behind the mark write behind the top.
UPDATE holdfast.projection_cursors AS c SET
  read_snapshot = CASE WHEN $6::boolean THEN $7::text::pg_snapshot ELSE c.read_snapshot END,
  read_mark = CASE WHEN $6::boolean THEN coalesce(c.until_mark, pg_current_xact_id()) ELSE c.read_mark END,
  read_top = CASE WHEN $6::boolean THEN $8::bigint ELSE c.read_top END,
  until_snapshot = CASE WHEN $6::boolean THEN NULL ELSE $7::text::pg_snapshot END,
  until_mark = CASE WHEN $6::boolean THEN NULL ELSE coalesce(c.until_mark, pg_current_xact_id()) END,
  until_top = CASE WHEN $6::boolean THEN NULL ELSE $8::bigint END,
  at_position = CASE WHEN $6::boolean THEN 0 ELSE $9::bigint END,
  applied = c.applied + $10::integer, at = clock_timestamp()
WHERE c.projection_id = $3::bigint AND c.shard = $4::integer AND c.generation = $5::bigint
  AND c.applied = $11::bigint AND ${HELD}
RETURNING ${CURSOR}`,
  columns: cursorColumns,
});

export type Cursor = Row<typeof cursorColumns>;

export interface Move {
  readonly projectionId: number;
  readonly shard: number;
  readonly cursor: Cursor;
  /** Nothing of the window is left behind this page. */
  readonly done: boolean;
  readonly until: string;
  readonly untilTop: number;
  readonly at: number;
  readonly count: number;
}

/** In the transaction of the page. Undefined: the shard has another owner, and nothing may be committed. */
export async function move(
  db: Executor,
  names: Names,
  holder: Holder,
  to: Move,
): Promise<Cursor | undefined> {
  const { projectionId, shard, cursor, done, until, untilTop, at, count } = to;
  const [row] = await db.run(moveCursor, names, [
    ...[holder.jobId, holder.generation, projectionId, shard, cursor.generation],
    ...[done, until, untilTop, at, count, cursor.applied],
  ]);
  return row;
}

export const holdCursor = statement({
  name: 'hold_cursor',
  text: `
UPDATE holdfast.projection_cursors AS c SET at = clock_timestamp()
WHERE c.projection_id = $3::bigint AND c.shard = $4::integer AND c.generation = $5::bigint AND ${HELD}
RETURNING ${CURSOR}`,
  columns: cursorColumns,
});

/** The same fence, for a transaction that leaves the cursor where it is. */
export async function hold(
  db: Executor,
  names: Names,
  { jobId, generation }: Holder,
  { projectionId, shard, cursor }: Pick<Move, 'projectionId' | 'shard' | 'cursor'>,
): Promise<Cursor | undefined> {
  const values = [jobId, generation, projectionId, shard, cursor.generation];
  return (await db.run(holdCursor, names, values))[0];
}

export const enterTables = statement({
  name: 'enter_tables',
  text: `
-- By its own statement: a promotion that was waited for may have given the schema another name.
SELECT p.tables IS NULL OR set_config('search_path',
  concat_ws(', ', quote_ident(p.tables), nullif(current_setting('search_path'), '')), true) IS NOT NULL AS entered
FROM holdfast.projections AS p WHERE p.id = $1::bigint`,
  columns: { entered: bool },
});

/** From here on the transaction finds the tables of the projection first. */
export async function enter(db: Executor, names: Names, projectionId: number): Promise<boolean> {
  return (await db.run(enterTables, names, [projectionId])).length > 0;
}
