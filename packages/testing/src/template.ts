/**
 * For tests of applications that use Holdfast, and for our own: a migrated template database once, a
 * clone of it per test file. A clone takes some tens of milliseconds and is a real database, so locks,
 * notifications and crashes behave as they do in production.
 */
import { randomBytes } from 'node:crypto';
import { migrate, quoteName } from 'holdfast/internal';
import pg from 'pg';

/** A database of a test. Drop it when the test is over. */
export interface TestDatabase extends AsyncDisposable {
  readonly url: string;
  readonly name: string;
  /** Drops the database. */
  drop(): Promise<void>;
}

function withDatabase(serverUrl: string, name: string): string {
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  return url.toString();
}

async function onServer<Value>(url: string, work: (client: pg.Client) => Promise<Value>) {
  const client = new pg.Client({ connectionString: url });
  // Databases are dropped under connections here; their errors are expected and end with the client.
  client.on('error', () => undefined);
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

/**
 * Makes and migrates a database; returns its name for `cloneDatabase()`.
 * @example const template = await makeTemplate('postgres://localhost/postgres');
 */
export async function makeTemplate(serverUrl: string, schema = 'holdfast'): Promise<string> {
  const name = `holdfast_template_${randomBytes(6).toString('hex')}`;
  await onServer(serverUrl, (client) =>
    client.query(`CREATE DATABASE ${quoteName(name)} TEMPLATE template0`),
  );
  await onServer(withDatabase(serverUrl, name), (client) => migrate(client, schema));
  return name;
}

/**
 * Clones a template in some tens of milliseconds: a database for one test file.
 * @example await using database = await cloneDatabase('postgres://localhost/postgres', 'holdfast_template_1');
 */
export async function cloneDatabase(serverUrl: string, template: string): Promise<TestDatabase> {
  const name = `holdfast_test_${randomBytes(6).toString('hex')}`;
  await onServer(serverUrl, async (client) => {
    // Two clones of one template at once refuse each other; an advisory lock lets them queue.
    await client.query('SELECT pg_advisory_lock(7230121, 1)');
    await client.query(`CREATE DATABASE ${quoteName(name)} TEMPLATE ${quoteName(template)}`);
  });
  const drop = () => dropDatabase(serverUrl, name);
  return { url: withDatabase(serverUrl, name), name, drop, [Symbol.asyncDispose]: drop };
}

/**
 * Drops a database, and ends its connections.
 * @example await dropDatabase('postgres://localhost/postgres', 'test_1');
 */
export async function dropDatabase(serverUrl: string, name: string): Promise<void> {
  await onServer(serverUrl, (client) =>
    client.query(`DROP DATABASE IF EXISTS ${quoteName(name)} WITH (FORCE)`),
  );
}
