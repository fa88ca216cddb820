/**
 * Who has the row of a job, or of a limit, locked: a transaction that was left open, or a prepared one. Claims, renewals
 * and maintenance pass over such a job, and under a locked limit nothing starts. A reader may lock nothing, so the row is
 * asked: its xmax names who locked it last, and the server knows whether that one runs. Shared locks are not seen.
 */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import {
  bool,
  int4,
  int8,
  plainArray,
  type Row,
  statement,
  text,
  uuid,
} from '../../postgres/statement.js';

/** The rows `i` of a table that are locked, with columns of theirs, and who has locked them. */
const LOCKED = (table: string, columns: readonly string[], where: string) => `
SELECT ${columns.map((column) => `l.${column}`).join(', ')}, coalesce(own.found, false) AS sure, h.pid, p.gid,
  a.application_name AS application, a.usename::text AS username, a.state,
  (extract(epoch FROM clock_timestamp() - coalesce(p.prepared, a.xact_start)) * 1000)::bigint AS open_ms,
  left(a.query, 200) AS query
FROM (
  SELECT ${columns.map((column) => `i.${column}`).join(', ')}, i.xmax
  FROM ${table} AS i
  -- How far the 32 bits of xmax lie from where the snapshot ends. What lies behind that has not ended.
  CROSS JOIN LATERAL (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS until) AS s
  CROSS JOIN LATERAL (
    SELECT ((i.xmax::text::bigint - s.until + 2147483648) & 4294967295) - 2147483648 AS ahead
  ) AS x
  WHERE ${where}
    AND CASE WHEN i.xmax::text = '0' THEN false
      WHEN x.ahead >= 0 THEN x.ahead < 100000
      WHEN s.until + x.ahead > 2 THEN pg_xact_status((s.until + x.ahead)::text::xid8) = 'in progress'
      ELSE false END
  OFFSET 0
) AS l
LEFT JOIN LATERAL (
  SELECT true AS found, k.pid FROM pg_locks AS k
  WHERE k.locktype = 'transactionid' AND k.granted AND k.transactionid = l.xmax
  LIMIT 1
) AS own ON true
LEFT JOIN pg_prepared_xacts AS p ON p.transaction = l.xmax
-- A savepoint that was released names nobody; then it is whoever has been at the table for longest.
LEFT JOIN LATERAL (
  SELECT k.pid
  FROM pg_locks AS k
  LEFT JOIN pg_stat_activity AS b ON b.pid = k.pid
  WHERE own.found IS NULL AND k.locktype = 'relation' AND k.granted AND k.relation = '${table}'::regclass
    -- A database that was cloned has a table of the same number.
    AND k.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
    AND k.mode IN ('RowShareLock', 'RowExclusiveLock') AND k.pid <> pg_backend_pid()
  ORDER BY b.xact_start
  LIMIT 1
) AS other ON true
CROSS JOIN LATERAL (SELECT coalesce(own.pid, other.pid) AS pid) AS h
LEFT JOIN pg_stat_activity AS a ON a.pid = h.pid
WHERE own.found OR other.pid IS NOT NULL`;

const HOLDER = {
  /** False: it is probably this one. */
  sure: bool,
  pid: int4.orNull,
  /** Of a prepared transaction. */
  gid: text.orNull,
  /** What follows is null for those who may not see the sessions of others. */
  application: text.orNull,
  username: text.orNull,
  state: text.orNull,
  open_ms: int8.orNull,
  query: text.orNull,
};

export const findRowLocks = statement({
  name: 'row_locks',
  text: LOCKED('holdfast.inbox', ['id'], 'i.id = ANY ($1::uuid[])'),
  columns: { id: uuid, ...HOLDER },
});

export const findLimitLocks = statement({
  name: 'limit_locks',
  text: LOCKED(
    'holdfast.limits',
    ['type'],
    `i.queue = 'inbox' AND ($1::text IS NULL OR i.type IS NULL OR i.type = $1::text)`,
  ),
  columns: { type: text.orNull, ...HOLDER },
});

export type LockHolder = Row<typeof HOLDER>;
/** The row of a limit; without a type that of the queue. */
export type LimitLock = Row<typeof findLimitLocks.columns>;
export type RowLock = Row<typeof findRowLocks.columns>;

/** A statement of a worker holds the rows that it writes for a moment. */
const PASSING_MS = 1_000;

const passing = ({ application, openMs }: RowLock) =>
  openMs !== null && openMs < PASSING_MS && (application?.startsWith('holdfast') ?? false);

/** Of these jobs, those whose rows are locked, but for a worker that is just writing them. */
export async function rowLocks(db: Executor, names: Names, ids: readonly string[]) {
  const found = await db.run(findRowLocks, names, [plainArray(ids)]);
  return found.filter((lock) => !passing(lock));
}

/** Those of a queue, or for a type. Claims lock them for a moment: a lock counts from a second on, or if it is not one of ours. */
export async function limitLocks(db: Executor, names: Names, type: string | null) {
  const found = await db.run(findLimitLocks, names, [type]);
  return found.filter(({ openMs, gid, application }) =>
    openMs === null
      ? gid !== null || !(application?.startsWith('holdfast') ?? true)
      : openMs >= PASSING_MS,
  );
}
