/**
 * An address: which server, database and role a connection is opened to, in the words of `pg`. It comes from a connection
 * string, a `pg.ClientConfig`, or the options of a caller's pool. A password may be a function, which is called for every
 * connection; it cannot be sent to a thread, so the thread asks for each password.
 */
import pg from 'pg';
import { HoldfastError } from '../../job/errors/errors.js';

const PARTS = [
  'connectionString',
  'host',
  'port',
  'user',
  'password',
  'database',
  'ssl',
  'sslnegotiation',
  'enableChannelBinding',
  'client_encoding',
  'options',
  'stream',
] as const;

export type Address = Readonly<Pick<pg.ClientConfig, (typeof PARTS)[number]>>;

/** Read part by part, because `pg` hides passwords and keys from being enumerated. */
export function addressOf(config: pg.ClientConfig): Address {
  const parts = PARTS.map((part) => [part, config[part]] as const);
  return asked(Object.fromEntries(parts.filter(([, value]) => value !== undefined)));
}

/** What a config says beside the address. */
export function settingsOf(config: pg.ClientConfig): pg.ClientConfig {
  const parts: ReadonlySet<string> = new Set(PARTS);
  return Object.fromEntries(Object.entries(config).filter(([name]) => !parts.has(name)));
}

/**
 * `pg` lets a connection string win over the other parts, also with a password that is not in it. So beside a
 * function for the password the string is taken apart, with what it sets for its sessions.
 */
function asked(address: Address): Address {
  const { connectionString, ...rest } = address;
  if (!connectionString || typeof rest.password !== 'function') return address;
  const client = new pg.Client({ ...rest, connectionString });
  const { host, port, user, database, ssl } = client;
  const { connectionParameters: said } = client as unknown as { connectionParameters: Said };
  const limits = LIMITS.filter((name) => said[name]).map((name) => `-c ${name}=${said[name]}`);
  const options = [said.options, ...limits].filter(Boolean).join(' ');
  return {
    ...{ ...rest, host, port, ssl },
    ...(user && { user }),
    ...(database && { database }),
    ...(said.client_encoding && { client_encoding: said.client_encoding }),
    ...(options && { options }),
  };
}

const LIMITS = [
  'statement_timeout',
  'lock_timeout',
  'idle_in_transaction_session_timeout',
] as const;
type Said = Readonly<
  Partial<Record<(typeof LIMITS)[number] | 'options' | 'client_encoding', string>>
>;

/** As `pg` reads it: a URL, or the folder of a socket. */
const POSTGRES_URL = /^(postgres(ql)?:\/\/|pg:\/\/|socket:|\/)/i;

/** Of something else `pg` makes the name of a host. It is not shown: it may hold a password. */
export function checkUrl(url: string | undefined, what: string): void {
  if (!url || POSTGRES_URL.test(url)) return;
  throw new HoldfastError(
    'OPTION_INVALID',
    `${what} is no URL of a Postgres database. Nothing was done: write postgres://user:password@host:port/database.`,
  );
}

export interface AddressSources {
  readonly connectionString?: string | undefined;
  readonly connection?: pg.ClientConfig | undefined;
  readonly pool?: pg.Pool | undefined;
}

export type Environment = Readonly<Record<string, string | undefined>>;

/** By any of these `pg`, like psql, knows where to connect to; the others have their defaults. */
const PLACES = ['PGHOST', 'PGPORT', 'PGUSER', 'PGDATABASE'];

/** Whether the environment names a database beside DATABASE_URL. */
export const namesPlace = (env: Environment): boolean => PLACES.some((name) => env[name]);

/** Why it does not, where somebody may think that it does; '' if there is nothing to say. */
export const serviceWords = (env: Environment): string =>
  env.PGSERVICE
    ? ' PGSERVICE is set, but the driver reads no service files: write out what the service names.'
    : '';

/**
 * What the caller says comes first, then his pool, then the environment: DATABASE_URL before PGHOST and its like.
 * `besidePool`: there is a pool, and the address is not its own, so the two may lead to different databases.
 */
export function findAddress(
  { connectionString, connection, pool }: AddressSources,
  env: Environment,
): { readonly address: Address; readonly besidePool: boolean } {
  const given = connection ? addressOf(connection) : null;
  const named = given && (given.connectionString || given.host || given.database);
  const besidePool = pool !== undefined;
  checkUrl(connectionString, 'connectionString');
  checkUrl(given?.connectionString, 'connection.connectionString');
  if (connectionString) return { address: asked({ ...given, connectionString }), besidePool };
  if (given && named) return { address: given, besidePool };
  if (pool?.options) {
    const address = asked({ ...addressOf(pool.options), ...given });
    return { address, besidePool: given !== null };
  }
  const { DATABASE_URL: url } = env;
  checkUrl(url, 'DATABASE_URL');
  if (url) return { address: asked({ ...given, connectionString: url }), besidePool };
  // What is not said, the driver takes from PGHOST and its like.
  if (given || namesPlace(env)) return { address: given ?? {}, besidePool };
  throw new HoldfastError(
    'OPTION_INVALID',
    'There is no database to connect to: pass { connectionString }, { connection } or { pool }, ' +
      `or set DATABASE_URL, or PGHOST, PGUSER and PGDATABASE.${serviceWords(env)}`,
  );
}

export type PasswordFunction = Extract<Address['password'], (...args: never[]) => unknown>;

export const passwordFunction = ({ password }: Address): PasswordFunction | null =>
  typeof password === 'function' ? password : null;

/** As it can be sent to another thread: without a function for the password. Throws if anything else cannot be sent. */
export function sendable({ password, ssl, ...rest }: Address): Address {
  // `pg` hides the key as soon as a connection has been made with it.
  const options =
    typeof ssl === 'object' && ssl !== null
      ? { ...ssl, ...(ssl.key !== undefined && { key: ssl.key }) }
      : ssl;
  for (const [part, value] of [...Object.entries(rest), ...members('ssl', options)]) {
    try {
      structuredClone(value);
    } catch (error) {
      throw new HoldfastError(
        'OPTION_INVALID',
        `${part} of the connection cannot be sent to the thread that keeps a worker's leases, so no ` +
          'worker was made. Leave it out, or connect through a proxy that does not need it.',
        { cause: error },
      );
    }
  }
  return {
    ...rest,
    ...(options !== undefined && { ssl: options }),
    ...(typeof password === 'string' && { password }),
  };
}

const members = (name: string, value: unknown): [string, unknown][] =>
  typeof value === 'object' && value !== null
    ? Object.entries(value).map(([member, one]) => [`${name}.${member}`, one])
    : [];
