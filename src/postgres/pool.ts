/**
 * Connections of our own.
 *
 * `enginePool` is for claims, settles and housekeeping. Its sessions allow only the plans that were
 * measured: index scans and nested loops, planned once. A queue table is empty one minute and holds
 * five million rows the next, and its statistics lag behind; with these settings a plan made in the
 * first minute is still the right one. `plainPool` is for what users do (enqueue, transactions).
 * Every pool handles the errors of its idle connections: a database restart must not end the process.
 */
import pg from 'pg';
import type { Logger } from './log.js';

export interface ConnectionOptions {
  readonly connectionString: string;
  /** After so long without an answer the connection is given up: it may be half open. */
  readonly queryTimeoutMs?: number;
  readonly applicationName?: string;
  readonly connectTimeoutMs?: number;
}

/** Plans that a queue table can rely on whatever its statistics say; see docs/decisions/0002. */
export const ENGINE_SETTINGS: Readonly<Record<string, string>> = {
  enable_seqscan: 'off',
  enable_bitmapscan: 'off',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  plan_cache_mode: 'force_generic_plan',
  jit: 'off',
  // Timestamps are kept as text; this is the form that goes back in and that Date understands.
  datestyle: 'ISO',
  timezone: 'UTC',
};

export function engineConfig(options: ConnectionOptions): pg.ClientConfig {
  const settings = Object.entries(ENGINE_SETTINGS).map(([name, value]) => `-c ${name}=${value}`);
  return { ...plainConfig(options), options: settings.join(' ') };
}

function plainConfig(options: ConnectionOptions): pg.ClientConfig {
  return {
    connectionString: options.connectionString,
    application_name: options.applicationName ?? 'holdfast',
    connectionTimeoutMillis: options.connectTimeoutMs ?? 10_000,
    ...(options.queryTimeoutMs !== undefined && { query_timeout: options.queryTimeoutMs }),
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
  };
}

export function enginePool(options: ConnectionOptions, max: number, log: Logger): pg.Pool {
  return guarded(new pg.Pool({ ...engineConfig(options), max }), log);
}

export function plainPool(options: ConnectionOptions, max: number, log: Logger): pg.Pool {
  return guarded(new pg.Pool({ ...plainConfig(options), max, allowExitOnIdle: true }), log);
}

/** A pool that was passed in may have nobody to hear its errors, and then one would end the process. */
export function adoptPool(pool: pg.Pool, log: Logger): pg.Pool {
  return pool.listenerCount('error') === 0 ? guarded(pool, log) : pool;
}

function guarded(pool: pg.Pool, log: Logger): pg.Pool {
  pool.on('error', (error) => {
    // end() resolves before the last sockets have closed; what happens to those is no news.
    if (pool.ending) return;
    log.warn({ err: String(error.message) }, 'an idle database connection was lost');
  });
  return pool;
}

/** Classes of SQLSTATE after which the same statement may succeed on a new connection. */
const TRANSIENT = /^(08(?!P01)|53|55P03|57P0[123]|57014|40001|40P01|25006)/;
const SOCKET = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENETDOWN',
]);

/** True when the database could not be reached or was going away: worth trying again later. */
export function isTransient(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = (error as { code?: unknown }).code;
  if (typeof code === 'string') return TRANSIENT.test(code) || SOCKET.has(code);
  return /connection (terminated|ended)|timeout exceeded when trying to connect|query read timeout|Connection terminated|Client has encountered a connection error/i.test(
    error.message,
  );
}
