/** Databases with nothing in them, for tests of migrations; dropped when the file is done. */
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { afterAll, inject } from 'vitest';
import { dropDatabase } from '../../packages/testing/src/index.js';

export function emptyDatabases() {
  const names: string[] = [];
  afterAll(async () => {
    for (const name of names) await dropDatabase(inject('serverUrl'), name);
  });
  return async function make(): Promise<string> {
    const name = `holdfast_empty_${randomBytes(6).toString('hex')}`;
    const text = `CREATE DATABASE ${name} TEMPLATE template0 STRATEGY ${inject('strategy')}`;
    await asAdmin((client) => client.query(text));
    names.push(name);
    const url = new URL(inject('serverUrl'));
    url.pathname = `/${name}`;
    return url.toString();
  };
}

/** On the server's own database, as the user of the test run. */
export async function asAdmin<Value>(work: (client: pg.Client) => Promise<Value>): Promise<Value> {
  return onDatabase(inject('serverUrl'), work);
}

export async function onDatabase<Value>(
  url: string,
  work: (client: pg.Client) => Promise<Value>,
): Promise<Value> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}
