/**
 * Reading and writing markers. They are written while the caller owns the run, with its row locked, so a worker that has
 * lost it writes nothing: many runs in one statement. What stands already under a name and has ended stays as it is.
 * That is looked up first: ON CONFLICT would log 48 bytes more for each. An earlier try that commits meanwhile is a unique
 * violation, and the statement is asked again.
 *
 * What stood open keeps the time at which it was asked for, and gets the time at which it ended as `due_at`.
 */
import { ALL_FENCED } from '../../postgres/fragments.js';
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import {
  int4,
  int8,
  json,
  type Param,
  plainArray,
  statement,
  text,
  textArray,
  uuid,
} from '../../postgres/statement.js';
import type { Kind, Marker, NewMarker } from '../marker.js';

/** The run, as its worker holds it. */
export interface Owner {
  readonly workerId: string;
  readonly id: string;
  readonly generation: number;
}

export interface Recorded {
  readonly owner: Owner;
  readonly marker: NewMarker;
}

export const recordSteps = statement({
  name: 'record_steps',
  text: `
WITH owned AS MATERIALIZED (
  SELECT i.id, i.undo_asked FROM holdfast.inbox AS i WHERE ${ALL_FENCED}
  ORDER BY i.id
  FOR SHARE
), given AS MATERIALIZED (
  SELECT o.id AS run_id, g.*
  FROM unnest($4::uuid[], $5::text[], $6::text[], $7::integer[], $8::integer[], $9::integer[], $10::smallint[],
    $11::jsonb[], $12::jsonb[], $13::boolean[])
    AS g(id, name, kind, nth, place, ms, attempt, value, error, first)
  JOIN owned AS o ON o.id = g.id
), ended AS (
  UPDATE holdfast.inbox_steps AS s
  SET place = g.place, ms = g.ms, attempt = g.attempt, value = g.value, error = g.error, due_at = clock_timestamp()
  FROM given AS g
  WHERE s.run_id = g.run_id AND s.name = g.name AND s.place IS NULL
  RETURNING s.nth
), written AS (
  INSERT INTO holdfast.inbox_steps (run_id, check_at, place, nth, ms, attempt, kind, name, value, error)
  SELECT g.run_id, CASE WHEN g.first THEN now() END, g.place, g.nth, g.ms, g.attempt, g.kind::"char", g.name, g.value, g.error
  FROM given AS g
  WHERE NOT EXISTS (SELECT FROM holdfast.inbox_steps AS s WHERE s.run_id = g.run_id AND s.name = g.name)
  RETURNING nth
)
SELECT o.id, o.undo_asked, (SELECT count(*) FROM ended)::integer + (SELECT count(*) FROM written)::integer AS written
FROM owned AS o`,
  columns: { id: uuid, undo_asked: text.orNull, written: int4 },
});

/** An earlier try of the statement, whose answer was lost, has committed. */
export const isDuplicate = (error: unknown) =>
  (error as { code?: unknown } | null)?.code === '23505';

/** By the id of each run that is still its owner's, why it is to be undone, if it is. */
export async function record(db: Executor, names: Names, all: readonly Recorded[]) {
  if (all.length === 1) {
    const only = all[0] as Recorded;
    const written = await recordOne(db, names, only);
    return new Map(written ? [[only.owner.id, written.undoAsked]] : []);
  }
  const rows = await recordAll(db, names, all);
  return new Map(rows.map(({ id, undoAsked }) => [id, undoAsked]));
}

function recordAll(db: Executor, names: Names, all: readonly Recorded[]) {
  const owners = new Map(all.map(({ owner }) => [owner.id, owner]));
  return db.run(recordSteps, names, [
    (all[0] as Recorded).owner.workerId,
    plainArray([...owners.keys()]),
    plainArray([...owners.values()].map(({ generation }) => generation)),
    ...columnsOf(all),
  ]);
}

function columnsOf(all: readonly Recorded[]): Param[] {
  const words = (of: (marker: NewMarker) => unknown) =>
    textArray(all.map(({ marker }) => (of(marker) === null ? null : String(of(marker)))));
  return [
    plainArray(all.map(({ owner }) => owner.id)),
    words(({ name }) => name),
    words(({ kind }) => kind),
    words(({ nth }) => nth),
    words(({ place }) => place),
    words(({ ms }) => ms),
    words(({ attempt }) => attempt),
    words(({ value }) => value),
    words(({ error }) => error),
    words(({ first }) => first),
  ];
}

/**
 * One new marker of a run that is not to be undone: alone, or in the transaction of a step, at its end. It takes half of the
 * time of a batch. Without an answer, the batch says why. Parameters and columns are text, for any client.
 */
export const recordStep = statement({
  name: 'record_step',
  text: `
INSERT INTO holdfast.inbox_steps (run_id, check_at, place, nth, ms, attempt, kind, name, value, error)
SELECT o.id, CASE WHEN $11::text = 'true' THEN now() END, $7::text::integer, $6::text::integer, $8::text::integer,
  $9::text::smallint, $5::text::"char", $4::text, $10::text::jsonb, $12::text::jsonb
FROM (
  SELECT i.id FROM holdfast.inbox AS i
  WHERE i.id = $2::text::uuid AND i.lease_generation = $3::text::bigint AND i.claimed_by = $1::text
    AND i.status = 'processing' AND i.lease_expires_at > statement_timestamp() AND i.undo_asked IS NULL
  FOR SHARE
) AS o
WHERE NOT EXISTS (
  SELECT FROM holdfast.inbox_steps AS s WHERE s.run_id = $2::text::uuid AND s.name = $4::text)
RETURNING 1 AS written`,
  columns: { written: int4 },
});

async function isWritten(db: Executor, names: Names, { owner, marker }: Recorded) {
  const { name, kind, nth, place, ms, attempt, value, first, error } = marker;
  const { workerId, id, generation } = owner;
  const all = [workerId, id, generation, name, kind, nth, place, ms, attempt, value, first, error];
  const params = all.map((one) => (one === null ? null : String(one)));
  return (await db.run(recordStep, names, params)).length > 0;
}

/**
 * `open` only says which statement to try first: what stands in the database decides.
 *
 * `stands`: an earlier transaction of this step committed after all, so this one must not. Null: the run is lost.
 */
export async function recordOne(db: Executor, names: Names, one: Recorded) {
  if (!one.marker.open && (await isWritten(db, names, one)))
    return { stands: false, undoAsked: null };
  const [row] = await recordAll(db, names, [one]);
  return row ? { stands: row.written === 0, undoAsked: row.undoAsked } : null;
}

/** What a turn reads first: for each run a row about itself, and one for each marker, in order of their places. */
export const loadSteps = statement({
  name: 'load_steps',
  text: `
SELECT r.id, i.undo_asked, s.name, s.kind::text AS kind, s.nth, s.place, s.attempt::integer AS attempt, s.remaining, s.value,
  s.error, CASE WHEN s.place IS NULL THEN (extract(epoch FROM s.due_at - clock_timestamp()) * 1000)::bigint END AS due_in_ms
FROM unnest($1::uuid[]) AS r(id)
CROSS JOIN LATERAL (SELECT i.undo_asked FROM holdfast.inbox AS i WHERE i.id = r.id OFFSET 0) AS i
LEFT JOIN LATERAL (SELECT s.* FROM holdfast.inbox_steps AS s WHERE s.run_id = r.id OFFSET 0) AS s ON true
ORDER BY s.place`,
  columns: {
    ...{
      id: uuid,
      undo_asked: text.orNull,
      name: text.orNull,
      kind: text.orNull,
      nth: int4.orNull,
    },
    ...{ place: int4.orNull, attempt: int4.orNull, remaining: int4.orNull },
    ...{ value: json.orNull, error: json.orNull, due_in_ms: int8.orNull },
  },
});

export interface History {
  readonly undoAsked: string | null;
  readonly markers: readonly Marker[];
}

export async function load(
  db: Executor,
  names: Names,
  ids: readonly string[],
): Promise<Map<string, History>> {
  const found = new Map<string, { undoAsked: string | null; markers: Marker[] }>();
  for (const row of await db.run(loadSteps, names, [plainArray(ids)])) {
    const { id, undoAsked, name, kind, nth, ...rest } = row;
    const history = found.get(id) ?? { undoAsked, markers: [] };
    found.set(id, history);
    if (name !== null)
      history.markers.push({ name, kind: kind as Kind, nth: nth as number, ...rest });
  }
  return found;
}

/** A run that got on starts with all its attempts again, and need not run apart from others. */
export const noteProgress = statement({
  name: 'note_progress',
  text: `
UPDATE holdfast.inbox AS i SET attempts = 1, crashes = 0 WHERE ${ALL_FENCED}
RETURNING i.id`,
  columns: { id: uuid },
});

export async function progress(db: Executor, names: Names, owner: Owner): Promise<void> {
  await db.run(noteProgress, names, [
    ...[owner.workerId, plainArray([owner.id]), plainArray([owner.generation])],
  ]);
}

/**
 * Anew, in place: its markers are gone, and it is due at once with another input. Third parties see new keys. Signals that
 * nobody took stay, and those that were taken with a key, for as long as effects are known: it may be sent again.
 */
const KEYED = `(s.key IS NOT NULL AND s.sent_at > now() -
    (SELECT q.effect_retention FROM holdfast.queues AS q WHERE q.name = 'inbox'))`;

export const restartRun = statement({
  name: 'restart_run',
  text: `
WITH mine AS (
  UPDATE holdfast.inbox AS i
  SET status = 'pending', claimed_by = NULL, claimed_at = NULL, lease_expires_at = NULL, isolated = false,
    attempts = 0, crashes = 0, available_at = clock_timestamp(), wait_until = NULL, payload = $4::jsonb, version = $5::integer
  WHERE ${ALL_FENCED}
  RETURNING i.id, i.available_at, i.partition_bucket
), steps AS (
  DELETE FROM holdfast.inbox_steps AS s WHERE s.run_id = ANY (ARRAY(SELECT m.id FROM mine AS m)) AND s.name <> '#'
), round AS (
  INSERT INTO holdfast.inbox_steps AS r (run_id, check_at, place, nth, kind, name)
  SELECT m.id, now(), 0, 1, '#', '#' FROM mine AS m
  ON CONFLICT (run_id, name) DO UPDATE SET nth = r.nth + 1
), children AS (
  DELETE FROM holdfast.inbox_children AS s WHERE s.run_id = ANY (ARRAY(SELECT m.id FROM mine AS m))
), signals AS (
  DELETE FROM holdfast.inbox_signals AS s
  WHERE s.run_id = ANY (ARRAY(SELECT m.id FROM mine AS m)) AND s.taken_by IS NOT NULL AND NOT ${KEYED}
), keyed AS (
  UPDATE holdfast.inbox_signals AS s SET taken_by = '#'
  WHERE s.run_id = ANY (ARRAY(SELECT m.id FROM mine AS m)) AND s.taken_by <> '#' AND ${KEYED}
)
SELECT m.id, m.available_at::text AS run_at, m.partition_bucket FROM mine AS m`,
  columns: { id: uuid, run_at: text, partition_bucket: int4 },
});

export async function restart(
  db: Executor,
  names: Names,
  owner: Owner,
  payload: string,
  version: number,
) {
  const { workerId, id, generation } = owner;
  const params = [workerId, plainArray([id]), plainArray([generation]), payload, version];
  const [row] = await db.run(restartRun, names, params);
  return row ?? null;
}
