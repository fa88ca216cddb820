/**
 * What the database's errors mean: which may pass by themselves, which say that it was away, and which are because of the
 * database and not of the rows in a statement. Then another statement fares no better, and the fix is an operator's.
 */
import type pg from 'pg';
import { HoldfastError } from '../../job/errors/errors.js';

/**
 * Classes of SQLSTATE after which the same statement may succeed later, or on a new connection; LOCKED is a
 * HoldfastError that names who holds the lock, POOL_BUSY one that names the pool.
 */
const TRANSIENT = /^(08|53|55P03|57P0|57014|25P03|40001|40P01|25006|(LOCKED|POOL_BUSY)$)/;
/** Of Node, where no call of the system failed: as when a TLS handshake is cut off. */
const BROKEN_OFF = /^(ECONNRESET|EPIPE|ETIMEDOUT|ERR_STREAM_DESTROYED)$/;
const LOST_CONNECTION =
  /connection (terminated|ended)|timeout exceeded when trying to connect|timeout expired|query read timeout|client has encountered a connection error|client was closed/i;
/** What PgBouncer says for good, with the code of a passing protocol error. */
const REFUSED_BY_POOLER =
  /unsupported startup parameter|authentication failed|no such (user|database)|database ".*" does not exist/i;

/** What pg-pool says to those that stood in line for a connection: nothing was sent. */
export const STOOD_IN_LINE = 'timeout exceeded when trying to connect';

/** The pool's time-out as an error that names the pool and says what was not done; any other error as it is. */
export function asPoolBusy(error: unknown, pool: () => pg.Pool, notDone: string): unknown {
  if (!(error instanceof Error) || error.message !== STOOD_IN_LINE) return error;
  const { max, connectionTimeoutMillis = 0 } = pool().options;
  return new HoldfastError(
    'POOL_BUSY',
    `No connection of the pool of ${max} was free for ${connectionTimeoutMillis / 1000} s; ${notDone}. ` +
      'Find what holds its connections (a transaction that is open for long, a client that was not released), ' +
      'do less at once (many jobs in one call of enqueueMany), or pass a pool with a higher max.',
    { cause: error },
  );
}

/** True when the database could not be reached or was going away: worth trying again later. */
export function isTransient(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code, syscall } = error as { code?: unknown; syscall?: unknown };
  if (code === '08P01' && REFUSED_BY_POOLER.test(error.message)) return false;
  // The system's own errors: refused, reset, out of descriptors, no such host, …
  if (typeof syscall === 'string' || error instanceof AggregateError) return true;
  if (typeof code === 'string' && (TRANSIENT.test(code) || BROKEN_OFF.test(code))) return true;
  return LOST_CONNECTION.test(error.message);
}

/** The statement waited too long for somebody's row lock or for an answer at all, or was cancelled. */
export function isHeldUp(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code } = error as { code?: unknown };
  return code === '55P03' || code === '57014' || /query read timeout/i.test(error.message);
}

/** Of what may pass by itself: a lock, a deadlock or a cancelled statement, on a database that is there. */
const HERE = /^(55P03|57014|40001|40P01|25P03|LOCKED)$/;

/** True when the database could not be reached, or could not be written to: so it was for everybody. */
export function isOutage(error: unknown): boolean {
  if (!isTransient(error)) return false;
  const { code } = error as { code?: unknown };
  return typeof code !== 'string' || !HERE.test(code);
}

/**
 * Classes of SQLSTATE that speak of the database: features, roles and rights, a database that is read-only or full,
 * catalogues, names of tables and columns, objects in the wrong state, the disk, the configuration, internal errors. A
 * trigger that raises an exception, a constraint and a value out of range speak of a row, and so does corrupt data
 * (XX001, XX002).
 */
const OF_THE_DATABASE = /^(0A|0L|0P|25006|26|28|3D|3F|42|53|55|58|F0|XX000)/;

const codeOf = (error: unknown) => (error as { code?: unknown } | null)?.code;

/** A right is missing, a table is gone, …: the database refuses this to everybody who asks it in this way. */
export function isRefusedToAll(error: unknown): boolean {
  const code = codeOf(error);
  return typeof code === 'string' && code.length === 5 && OF_THE_DATABASE.test(code);
}

/** A whole table was locked. A wait for one row says in which row it was; a wait for a table says nothing. */
export function isTableLocked(error: unknown): boolean {
  return codeOf(error) === '55P03' && !(error as { where?: unknown }).where;
}
