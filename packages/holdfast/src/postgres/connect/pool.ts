/**
 * Connections of our own. `enginePool` is for claims, settles and maintenance: its sessions allow only the plans that
 * were measured (settings.ts). `plainPool` is for what users do (enqueue, transactions). A connection that is lost never
 * ends the process; that holds for these pools and for a pool that a user passes in, once `adoptPool` has seen it.
 */
import type { Socket } from 'node:net';
import pg from 'pg';
import type { Logger } from '../log/log.js';
import { ENGINE_SETTINGS } from '../settings.js';
import type { Address } from './address.js';
import { within } from './backoff.js';
import { isTransient } from './transient.js';
import { withUser } from './user.js';

export interface ConnectionOptions extends Address {
  /** What else a caller wants of his connections; not for those of the engine. */
  readonly settings?: pg.ClientConfig;
  /** After so long without an answer the connection is given up: it may be half open. */
  readonly queryTimeoutMs?: number;
  readonly applicationName?: string;
  readonly connectTimeoutMs?: number;
  /** A pooler stands between, which refuses or drops start-up options; see pooled.ts. */
  readonly pooled?: boolean;
  /** Of a plain pool: no limit for its statements, whatever the role or the database says; but one for locks. */
  readonly unlimited?: boolean;
}

/** The settings in the form of the start-up packet, where a blank is escaped. */
export function engineOptions(): string {
  return Object.entries(ENGINE_SETTINGS)
    .map(([name, value]) => `-c ${name}=${value.replaceAll(' ', '\\ ')}`)
    .join(' ');
}

export function engineConfig(options: ConnectionOptions): pg.ClientConfig {
  const basic = basicConfig(options);
  return options.pooled ? basic : startingWith(basic, engineOptions());
}

/** Who waits for a lock on the few connections beside the engine's must not keep one from other queues for long. */
export const OWN_LOCK_MS = 2_000;

function plainConfig(options: ConnectionOptions): pg.ClientConfig {
  const basic = basicConfig(options);
  const own = options.unlimited && !options.pooled;
  return own ? startingWith(basic, `-c statement_timeout=0 -c lock_timeout=${OWN_LOCK_MS}`) : basic;
}

/** Of two that set the same, the later one counts. `pg` lets what stands in a connection string win. */
function startingWith(config: pg.ClientConfig, own: string): pg.ClientConfig {
  const behind = (given: string | null | undefined) => [given, own].filter(Boolean).join(' ');
  const { connectionString = '' } = config;
  // As the driver does where no options are given.
  const given = config.options ?? process.env.PGOPTIONS;
  if (!/[?&](options|statement_timeout)=/.test(connectionString))
    return { ...config, options: behind(given) };
  const url = new URL(connectionString);
  url.searchParams.delete('statement_timeout');
  url.searchParams.set('options', behind(url.searchParams.get('options') ?? given));
  return { ...config, connectionString: url.toString() };
}

function basicConfig(options: ConnectionOptions): pg.ClientConfig {
  const { queryTimeoutMs, applicationName, connectTimeoutMs, pooled, unlimited, ...given } =
    options;
  const { settings, ...address } = given;
  return withUser({
    application_name: applicationName ?? 'holdfast',
    connectionTimeoutMillis: connectTimeoutMs ?? 10_000,
    ...(queryTimeoutMs !== undefined && { query_timeout: queryTimeoutMs }),
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    ...settings,
    ...address,
  });
}

/** Where a connection string leads, in words for a log: nothing that is secret. */
export function databaseOf(address: Address): { database: string; host: string } {
  // The driver reads it, with its defaults and PGHOST. A client that is not connected opens nothing.
  const { database, host, port } = new pg.Client(withUser(address));
  return { database: database ?? '', host: host?.startsWith('/') ? host : `${host}:${port}` };
}

/** Claims and completions that meet open one connection more. It need not stay, but opening it is slow. */
const IDLE_MS = 5_000;

export function enginePool(options: ConnectionOptions, max: number, log: Logger): pg.Pool {
  return ownPool({ ...engineConfig(options), max, idleTimeoutMillis: IDLE_MS }, log);
}

export function plainPool(options: ConnectionOptions, max: number, log: Logger): pg.Pool {
  return ownPool({ ...plainConfig(options), max, allowExitOnIdle: true }, log);
}

/** What kept connections of our pools from being opened. */
const unopened = new WeakSet<Error>();

class OwnClient extends pg.Client {
  override connect(): Promise<pg.Client>;
  override connect(callback: (error: Error) => void): void;
  override connect(callback?: (error: Error) => void): Promise<pg.Client> | undefined {
    // The pool calls it with a callback.
    if (!callback) return super.connect();
    super.connect((error: Error) => {
      if (error instanceof Error) unopened.add(error);
      callback(error);
    });
    return undefined;
  }
}

/**
 * Of a statement on one of our pools: it was not refused, and may be sent again. Where no connection could be opened,
 * for whatever reason, nothing was sent.
 */
export function mayPass(error: unknown): boolean {
  return isTransient(error) || (error instanceof Error && unopened.has(error));
}

function ownPool(config: pg.PoolConfig, log: Logger): pg.Pool {
  const pool = new pg.Pool({ ...config, Client: OwnClient });
  const clients = new Set<pg.PoolClient>();
  connected.set(pool, clients);
  pool.on('connect', (client) => clients.add(client));
  pool.on('remove', (client) => clients.delete(client));
  return guarded(pool, log);
}

/**
 * Makes a pool that was passed in safe to use: from now on no client of it can end the process with an error that nobody
 * listens to. The user's own listeners get everything that they got before.
 */
export function adoptPool(pool: pg.Pool, log: Logger): pg.Pool {
  if (adopted.has(pool)) return pool;
  adopted.add(pool);
  // Those that are lent out just now are not acquired again before they may break.
  for (const client of (pool as unknown as { _clients?: pg.PoolClient[] })._clients ?? []) {
    guardClient(client);
  }
  return guarded(pool, log);
}

const adopted = new WeakSet<pg.Pool>();

function guarded(pool: pg.Pool, log: Logger): pg.Pool {
  // Emitted while pg-pool still listens to the client itself, so there is no moment without a listener.
  pool.on('acquire', guardClient);
  pool.on('error', (error) => {
    // end() resolves before the last sockets have closed; what happens to those is no news.
    if (pool.ending) return;
    // Other listeners have been called.
    if (pool.listenerCount('error') > 1) return;
    log.warn({ err: String(error.message) }, 'an idle database connection was lost');
  });
  return pool;
}

/**
 * pg-pool listens to idle clients only. A client can break after it was handed out and before its new owner, who waits for
 * a promise, can listen. So it has a listener of its own for as long as it lives. Nothing is lost by ignoring the event:
 * the client fails every query from then on, and the pool removes it.
 */
function guardClient(client: pg.PoolClient): void {
  // Looked for every time: some code removes all listeners from a client that it gives back.
  if (!client.listeners('error').includes(ignore)) client.on('error', ignore);
}

const ignore = () => undefined;

/** Does not wait for ever for a stuck query or a server that does not answer: what is still connected is cut off. */
export async function closePool(pool: pg.Pool, withinMs: number): Promise<void> {
  let ended = false;
  const end = async () => {
    await pool.end();
    ended = true;
  };
  await within(withinMs, end());
  if (ended) return;
  for (const client of connected.get(pool) ?? []) {
    guardClient(client);
    (client as unknown as { connection: { stream: Socket } }).connection.stream.destroy();
  }
}

/** The clients of our pools, to be cut off at the end. */
const connected = new WeakMap<pg.Pool, Set<pg.PoolClient>>();

/**
 * A client for as long as `work` takes; one whose connection broke meanwhile does not go back. `cutOff` gives up a client
 * whose work may never end: its connection is closed, and the pool may open another.
 */
export async function withClient<Value>(
  pool: pg.Pool,
  work: (client: pg.PoolClient, cutOff: (error: Error) => void) => Promise<Value>,
): Promise<Value> {
  const client = await pool.connect();
  let broken: Error | undefined;
  let released = false;
  // Without a listener, a connection that breaks between two queries would end the process.
  const onError = (error: Error) => {
    broken = error;
  };
  const release = (error?: Error) => {
    if (released) return;
    released = true;
    client.off('error', onError);
    client.release(error);
  };
  client.on('error', onError);
  try {
    return await work(client, release);
  } catch (error) {
    // After a time-out the statement may still be under way on this connection; nobody else may get it.
    if (isTransient(error)) broken = error as Error;
    throw error;
  } finally {
    release(broken);
  }
}

/** `work` inside a transaction: committed when it returns, rolled back when it throws. */
export function withTransaction<Value>(
  pool: pg.Pool,
  work: (client: pg.PoolClient) => Promise<Value>,
  begin = 'BEGIN ISOLATION LEVEL READ COMMITTED',
): Promise<Value> {
  return withClient(pool, (client) => inTransaction(client, () => work(client), begin));
}

/** The same on a client that the caller has already. */
export async function inTransaction<Value>(
  client: pg.PoolClient,
  work: () => Promise<Value>,
  begin = 'BEGIN ISOLATION LEVEL READ COMMITTED',
): Promise<Value> {
  try {
    await client.query(begin);
    const value = await work();
    await client.query('COMMIT');
    return value;
  } catch (error) {
    // The first error is the news; a ROLLBACK that fails as well breaks the connection, and is reported there.
    await client.query('ROLLBACK').catch((failed: Error) => client.emit('error', failed));
    throw error;
  }
}
