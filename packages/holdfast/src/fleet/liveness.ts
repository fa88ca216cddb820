/**
 * Liveness: a worker's process is gone when no session holds its lock. Two sessions of a worker hold one advisory lock,
 * shared: the keeper's and the listener's. Postgres releases it when a session ends, and a killed process ends its
 * sessions within milliseconds. A watcher tries the lock exclusively, for one statement. This only makes recovery fast: a
 * frozen process, or one behind a transaction pooler, is found by its heartbeats. A live process that lost its sessions
 * takes the lock again, so nobody is declared dead after a single check, nor by a watcher or a server that has only just
 * started, nor while it is still starting itself.
 */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { bool, int4, int8, json, statement, text, textArray } from '../postgres/statement.js';
import { livenessSpace, TOGETHER_FLAG, whoIsGone } from '../postgres/together.js';
import { lockKeyOf } from './registry.js';

const keysOf = (names: Names, workerId: string): [number, number] => [
  livenessSpace(names.schema),
  lockKeyOf(workerId),
];

export const holdLivenessLock = statement({
  name: 'hold_liveness',
  text: 'SELECT pg_advisory_lock_shared($1::integer, $2::integer)::text AS held',
  columns: { held: text },
});

/** On a session of the worker's own, for as long as it lasts. Waits for a check that is under way. */
export async function holdLiveness(db: Executor, names: Names, workerId: string): Promise<void> {
  await db.run(holdLivenessLock, names, keysOf(names, workerId));
}

export const dropLivenessLock = statement({
  name: 'drop_liveness',
  text: 'SELECT pg_advisory_unlock_shared($1::integer, $2::integer) AS dropped',
  columns: { dropped: bool },
});

/** After re-registration, for the former id. False: this session did not hold it. */
export async function dropLiveness(db: Executor, names: Names, workerId: string): Promise<boolean> {
  const [row] = await db.run(dropLivenessLock, names, keysOf(names, workerId));
  return row?.dropped === true;
}

export const askBackend = statement({
  name: 'ask_backend',
  text: 'SELECT pg_backend_pid() AS pid',
  columns: { pid: int4 },
});

/** The process that answers: behind a pooler not the one that the connection was opened to. */
export async function backendPid(db: Executor, names: Names): Promise<number | null> {
  const [row] = await db.run(askBackend, names, []);
  return row?.pid ?? null;
}

export const watchWorker = statement({
  name: 'watch_worker',
  text: `
UPDATE holdfast.workers AS w
SET holds_liveness_lock = $2::boolean
WHERE w.id = $1::text AND w.holds_liveness_lock <> $2::boolean AND w.status <> 'dead'
RETURNING w.id`,
  columns: { id: text },
});

/** From its next heartbeat on a free lock means that this worker is gone; so it must hold the lock first. */
export const markWatched = (db: Executor, names: Names, workerId: string, watched: boolean) =>
  db.run(watchWorker, names, [workerId, watched]);

export interface Check {
  readonly epoch: number;
  /** The database's clock. */
  readonly nowMs: number;
  /** A heartbeat was counted. */
  readonly beat: boolean;
  /** How the registry calls the watcher itself; null when it does not know it. */
  readonly status: string | null;
  /** How many workers are alive or draining. */
  readonly members: number;
  /** Watched workers whose lock is free at this moment. */
  readonly free: readonly string[];
}

// The lists are materialized, so that a lock is tried for watched workers only: an exclusive try beside
// the own session's shared lock would succeed, and another worker may have a dead worker's key by now. The
// heartbeat comes before the first of them, so that no statement waits for its own row while it holds
// others' locks.
export const checkOthers = statement({
  name: 'look_around',
  text: `
WITH beat AS (
  UPDATE holdfast.workers AS w
  SET last_seen_at = now(),
    metadata = $4::text::jsonb || jsonb_build_object('databaseRole', current_user)
  -- The look must not wait for a row that somebody has locked; the next look tries again.
  WHERE w.ctid = (
    SELECT o.ctid FROM holdfast.workers AS o
    WHERE o.id = $1::text AND o.status <> 'dead' AND $4::text IS NOT NULL
    FOR NO KEY UPDATE SKIP LOCKED
  )
  RETURNING 1
), watched AS MATERIALIZED (
  SELECT w.id, w.lock_key
  FROM holdfast.workers AS w
  WHERE (SELECT count(*) FROM beat) >= 0
    AND w.status <> 'dead' AND w.holds_liveness_lock AND w.lock_key <> $3::integer AND w.id <> $1::text
), free AS MATERIALIZED (
  SELECT w.id FROM watched AS w WHERE pg_try_advisory_xact_lock($2::integer, w.lock_key)
)
SELECT f.epoch, (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms,
  (SELECT count(*) > 0 FROM beat) AS beat,
  (SELECT w.status FROM holdfast.workers AS w WHERE w.id = $1::text) AS status,
  (SELECT count(*)::integer FROM holdfast.workers AS w WHERE w.status <> 'dead') AS members,
  (SELECT coalesce(jsonb_agg(free.id), '[]') FROM free) AS free
FROM holdfast.fleet AS f`,
  columns: {
    epoch: int8,
    now_ms: int8,
    beat: bool,
    status: text.orNull,
    members: int4,
    free: json,
  },
});

/** One check; the locks that it could take are released with it. With metadata it is also the heartbeat. */
export async function findGone(
  db: Executor,
  names: Names,
  watcher: string,
  metadata: object | null = null,
): Promise<Check> {
  const [space, lockKey] = keysOf(names, watcher);
  const params = [watcher, space, lockKey, metadata && JSON.stringify(metadata)];
  const [row] = await db.run(checkOthers, names, params);
  if (!row) throw new Error(`the table ${names.schema}.fleet has lost its row`);
  return { ...row, free: JSON.parse(row.free) };
}

// Skips rows that somebody has locked: it must not wait while it holds locks that others may want. Who is gone with
// most of the fleet is told so by the first who declares one of them dead: for those who follow, the first are no longer
// there to be counted.
export const declareWorkersGone = statement({
  name: 'declare_gone',
  text: `
WITH suspected AS MATERIALIZED (
  SELECT w.id, w.lock_key
  FROM holdfast.workers AS w
  WHERE w.id = ANY ($1::text[]) AND w.status <> 'dead' AND w.holds_liveness_lock AND w.lock_key IS NOT NULL
    -- It has shown that its start is over.
    AND (w.last_seen_at > w.started_at OR w.started_at < now() - interval '1 minute')
    AND pg_postmaster_start_time() < now() - interval '10 seconds'
  FOR NO KEY UPDATE OF w SKIP LOCKED
), gone AS MATERIALIZED (
  SELECT s.id FROM suspected AS s WHERE pg_try_advisory_xact_lock($2::integer, s.lock_key)
), ${whoIsGone('$2::integer', 'EXISTS (SELECT FROM gone)')}, told AS MATERIALIZED (
  SELECT w.id FROM holdfast.workers AS w
  WHERE w.id = ANY (ARRAY(SELECT t.id FROM together AS t))
  FOR NO KEY UPDATE OF w SKIP LOCKED
), declared AS (
  UPDATE holdfast.workers AS w
  SET status = CASE WHEN w.id = ANY (ARRAY(SELECT gone.id FROM gone)) THEN 'dead' ELSE w.status END,
      metadata = CASE WHEN w.id = ANY (ARRAY(SELECT told.id FROM told))
        THEN coalesce(w.metadata, '{}') || '{"${TOGETHER_FLAG}": true}' ELSE w.metadata END
  WHERE w.id = ANY (ARRAY(SELECT gone.id FROM gone UNION SELECT told.id FROM told))
  RETURNING w.id, w.status
)
SELECT d.id FROM declared AS d WHERE d.status = 'dead'`,
  columns: { id: text },
});

/** Declares dead those whose lock is still free. After a start of the server nobody is: everybody lost their sessions. */
export async function declareGone(db: Executor, names: Names, ids: readonly string[]) {
  const params = [textArray(ids), livenessSpace(names.schema)];
  const rows = await db.run(declareWorkersGone, names, params);
  return rows.map((row) => row.id);
}
