/**
 * Who blocks whom on the tables of a schema. It is read from the server's own list of locks and touches no table of
 * the schema, so no lock can keep it from answering. Of other users' sessions an ordinary user sees the process id,
 * the application and the locks, but neither the state, the statement nor since when.
 */
import { HoldfastError } from '../../job/errors/errors.js';
import { quoteLiteral } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import {
  bool,
  type Column,
  int4,
  int8,
  type Row,
  statement,
  text,
} from '../../postgres/statement.js';
import { many, span } from './words.js';

const pids: Column<readonly number[]> = { pgType: 'jsonb', parse: JSON.parse, nullable: false };

// A session belongs here when it waits for a table of the schema or a row of one, when it blocks such a one, when it
// holds a lock that keeps others from reading or writing, or when it sits idle in a transaction that has touched one.
// Who has enqueued and then waits for a table of his own is no matter of this schema.
export const askLocks = statement({
  name: 'locks',
  text: `
WITH RECURSIVE here AS MATERIALIZED (
  SELECT l.pid, l.locktype, l.mode, l.granted, l.virtualtransaction, c.relname::text AS name,
    array_position(ARRAY['AccessExclusiveLock', 'ExclusiveLock', 'ShareRowExclusiveLock', 'ShareLock',
      'ShareUpdateExclusiveLock', 'RowExclusiveLock', 'RowShareLock', 'AccessShareLock'], l.mode) AS rank
  FROM pg_locks AS l
  JOIN pg_class AS c ON c.oid = l.relation
  JOIN pg_namespace AS n ON n.oid = c.relnamespace AND n.nspname = $1::text
  WHERE l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
    AND l.pid IS DISTINCT FROM pg_backend_pid()
), waits AS MATERIALIZED (
  SELECT l.pid, min(l.waitstart) AS since,
    bool_or(l.locktype IN ('transactionid', 'speculative token')) AS for_transaction,
    bool_or(l.locktype = 'virtualxid') AS for_snapshot
  FROM pg_locks AS l
  WHERE NOT l.granted AND l.pid <> pg_backend_pid() GROUP BY l.pid
), direct AS MATERIALIZED (
  SELECT w.pid, b.pid AS blocker
  FROM waits AS w CROSS JOIN LATERAL unnest(pg_blocking_pids(w.pid)) AS b(pid)
  -- Whoever waits for a row that is there holds, or wants, the lock of its place.
  WHERE EXISTS (SELECT FROM here AS h WHERE h.pid = w.pid AND (NOT h.granted OR h.locktype = 'tuple'))
    -- Who makes an index waits for snapshots, wherever they are. For a row that is not there yet, such as a key that
    -- another one inserts, both have to do with the schema.
    OR (EXISTS (SELECT FROM here AS h WHERE h.pid = w.pid) AND (w.for_snapshot OR (w.for_transaction
      AND NOT EXISTS (SELECT FROM pg_locks AS l WHERE l.pid = w.pid AND l.locktype = 'tuple')
      AND (b.pid = 0 OR EXISTS (SELECT FROM here AS h WHERE h.pid = b.pid)))))
), edges AS (
  SELECT d.pid, d.blocker FROM direct AS d
  UNION
  SELECT e.blocker, b.pid
  FROM edges AS e CROSS JOIN LATERAL unnest(pg_blocking_pids(e.blocker)) AS b(pid)
  WHERE e.blocker <> 0
), sessions AS (
  SELECT e.pid FROM edges AS e UNION SELECT e.blocker FROM edges AS e WHERE e.blocker <> 0
  UNION SELECT h.pid FROM here AS h WHERE h.granted AND h.rank <= 4 AND h.locktype = 'relation'
  UNION SELECT h.pid FROM here AS h JOIN pg_stat_activity AS a ON a.pid = h.pid
    WHERE a.state LIKE 'idle in transaction%'
), every AS (
  SELECT s.pid, NULL::text AS gid, NULL::text AS virtualtransaction, a.application_name, a.usename::text AS user_name,
    host(a.client_addr) AS client, a.state, a.query, a.xact_start AS opened, a.state_change AS changed
  FROM sessions AS s LEFT JOIN pg_stat_activity AS a ON a.pid = s.pid
  WHERE s.pid IS NOT NULL
  UNION ALL
  -- The locks of a prepared transaction belong to no process, but to the virtual transaction that holds its id.
  SELECT 0, p.gid, t.virtualtransaction, NULL, p.owner::text, NULL, 'prepared', NULL, p.prepared, p.prepared
  FROM pg_prepared_xacts AS p
  JOIN pg_locks AS t ON t.locktype = 'transactionid' AND t.pid IS NULL AND t.transactionid = p.transaction
  WHERE p.database = current_database()
    AND t.virtualtransaction IN (SELECT h.virtualtransaction FROM here AS h WHERE h.pid IS NULL)
)
SELECT s.pid, s.gid, nullif(s.application_name, '') AS application, s.user_name,
  EXISTS (SELECT FROM pg_roles AS r WHERE r.rolname = s.user_name AND r.rolsuper) AS superuser, s.client, s.state,
  left(s.query, 500) AS query,
  (extract(epoch FROM clock_timestamp() - s.opened) * 1000)::bigint AS open_ms,
  (extract(epoch FROM clock_timestamp() - s.changed) * 1000)::bigint AS state_ms,
  (extract(epoch FROM clock_timestamp() - w.since) * 1000)::bigint AS waiting_ms,
  holds.mode AS holds_mode, holds.name AS holds, wants.mode AS wants_mode,
  coalesce(wants.name, spot.name, (SELECT holds.name FROM direct AS d WHERE d.pid = s.pid LIMIT 1)) AS wants,
  (SELECT coalesce(jsonb_agg(DISTINCT e.blocker), '[]') FROM edges AS e WHERE e.pid = s.pid AND s.gid IS NULL) AS blocked_by
FROM every AS s
LEFT JOIN waits AS w ON w.pid = s.pid
LEFT JOIN LATERAL (
  SELECT h.mode, h.name FROM here AS h
  WHERE h.granted AND h.locktype = 'relation'
    AND (h.pid = s.pid OR (h.pid IS NULL AND h.virtualtransaction = s.virtualtransaction))
  ORDER BY h.rank, length(h.name), h.name LIMIT 1
) AS holds ON true
LEFT JOIN LATERAL (
  SELECT h.mode, h.name FROM here AS h
  WHERE NOT h.granted AND h.locktype = 'relation' AND h.pid = s.pid LIMIT 1
) AS wants ON w.pid IS NOT NULL
LEFT JOIN LATERAL (
  SELECT h.name FROM here AS h WHERE h.locktype = 'tuple' AND h.pid = s.pid LIMIT 1
) AS spot ON w.pid IS NOT NULL
ORDER BY s.opened NULLS LAST, s.pid
LIMIT 1000`,
  columns: {
    /** 0: a prepared transaction. */
    pid: int4,
    gid: text.orNull,
    application: text.orNull,
    user_name: text.orNull,
    /** Who may end it must be one, too. */
    superuser: bool,
    client: text.orNull,
    state: text.orNull,
    query: text.orNull,
    /** Of its transaction. */
    open_ms: int8.orNull,
    /** Since when it is in its state. */
    state_ms: int8.orNull,
    waiting_ms: int8.orNull,
    /** The strongest lock on a table of the schema. */
    holds_mode: text.orNull,
    holds: text.orNull,
    /** Null while it waits for a row. */
    wants_mode: text.orNull,
    /** Null as well while it waits for something outside of the schema. */
    wants: text.orNull,
    blocked_by: pids,
  },
});

export type LockSession = Row<typeof askLocks.columns>;

export function readLocks(db: Executor, schema: string): Promise<LockSession[]> {
  return db.run(askLocks, { schema, queue: 'inbox' }, [schema]);
}

const waits = ({ blockedBy }: LockSession) => blockedBy.length > 0;

/** Everybody that waits for this one, directly or behind others. */
export function behind(sessions: readonly LockSession[], root: LockSession): LockSession[] {
  const reached = new Set([root.pid]);
  for (let before = 0; before < reached.size; ) {
    before = reached.size;
    for (const one of sessions)
      if (one.blockedBy.some((pid) => reached.has(pid))) reached.add(one.pid);
  }
  return sessions.filter((one) => one !== root && waits(one) && reached.has(one.pid));
}

/** Those that others wait for and that wait for nobody themselves: to end one of them sets others free. */
export function rootBlockers(sessions: readonly LockSession[]): LockSession[] {
  const blockers = new Set(sessions.flatMap(({ blockedBy }) => blockedBy));
  return sessions.filter((one) => blockers.has(one.pid) && !waits(one));
}

/** Locks of a table that keep others from reading it, and those that keep others from writing to it. */
const AGAINST_READERS = ['AccessExclusiveLock'];
export const AGAINST_WRITERS = [
  'AccessExclusiveLock',
  'ExclusiveLock',
  'ShareRowExclusiveLock',
  'ShareLock',
];

/** Those whose end lets readers go on: who has locked a table against all, or is in the way of one who wants to. */
export const readersBlockers = (sessions: readonly LockSession[]) =>
  blockersOf(sessions, AGAINST_READERS);

/** The same for writers. */
export const writersBlockers = (sessions: readonly LockSession[]) =>
  blockersOf(sessions, AGAINST_WRITERS);

function blockersOf(sessions: readonly LockSession[], modes: readonly string[]): LockSession[] {
  const holds = ({ holdsMode }: LockSession) => holdsMode !== null && modes.includes(holdsMode);
  const wants = ({ wantsMode }: LockSession) => wantsMode !== null && modes.includes(wantsMode);
  const holders = sessions.filter((one) => holds(one) && !waits(one));
  const queued = sessions.filter((one) => wants(one) || (holds(one) && waits(one)));
  const roots = rootBlockers(sessions).filter((root) => {
    const waiting = new Set(behind(sessions, root));
    return queued.some((one) => waiting.has(one));
  });
  return [...new Set([...holders, ...roots])];
}

/** `session 4711 (psql, user bob, from 10.0.0.3, idle in transaction for 5 min)`. */
export function sessionWords(one: LockSession): string {
  if (one.gid !== null) {
    return `the prepared transaction ${quoteLiteral(one.gid)} (user ${one.userName}, for ${span(one.openMs ?? 0)})`;
  }
  const facts = [
    one.application,
    one.userName && `user ${one.userName}`,
    one.client && `from ${one.client}`,
    one.state && (one.stateMs === null ? one.state : `${one.state} for ${span(one.stateMs)}`),
  ].filter(Boolean);
  return `session ${one.pid}${facts.length > 0 ? ` (${facts.join(', ')})` : ''}`;
}

/** The statement that ends it, to be pasted. */
export function endStatement({ pid, gid }: LockSession): string {
  return gid === null
    ? `SELECT pg_terminate_backend(${pid});`
    : `ROLLBACK PREPARED ${quoteLiteral(gid)};`;
}

/** What it waits for: `AccessExclusiveLock on inbox`, `a row of inbox`. */
export function wantedWords({ wants, wantsMode }: LockSession): string {
  if (wants === null) return 'a lock outside of this schema';
  return wantsMode === null ? `a row of ${wants}` : `${wantsMode} on ${wants}`;
}

/** In the message of LOCKED, before the statement that ends it. */
export const TO_END = ' To end it: ';

/** A question that gave up because a table was locked. It names the session to end, but not its statement. */
export function lockedError(
  schema: string,
  sessions: readonly LockSession[],
  waitedMs: number,
  cause: unknown,
): HoldfastError {
  const [culprit] = readersBlockers(sessions);
  if (!culprit) {
    return new HoldfastError(
      'LOCKED',
      `A lock of the schema "${schema}" was not to be had within ${span(waitedMs)}. Nothing was done: it is free again ` +
        'or this user may not see who has it; try again, or ask `holdfast doctor`.',
      { cause },
    );
  }
  const waiting = behind(sessions, culprit);
  const first = waiting.find(({ wantsMode }) => wantsMode === 'AccessExclusiveLock');
  const table = first?.wants ?? culprit.holds;
  const line = [
    `${sessionWords(culprit)} holds ${culprit.holdsMode ?? 'a lock'} on it`,
    first &&
      `${sessionWords(first)} waits for ${wantedWords(first)}, and everybody waits behind it`,
    waiting.length > 1 && `${many(waiting.length, 'session')} wait in all`,
  ].filter(Boolean);
  return new HoldfastError(
    'LOCKED',
    `The table ${schema}.${table} is locked. Nothing was done: ${line.join('; ')}.${TO_END}${endStatement(culprit)}`,
    { cause },
  );
}
