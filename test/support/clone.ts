/**
 * A clone of the migrated template, as `cloneDatabase` of the test kit makes one, but over a connection that the process
 * keeps and in the way that is cheap on a server in memory: a run makes hundreds.
 */
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { inject } from 'vitest';

export interface Clone {
  readonly url: string;
  drop(): Promise<void>;
}

let admin: pg.Pool | undefined;

async function run(...texts: readonly string[]): Promise<void> {
  if (!admin) {
    admin = new pg.Pool({ connectionString: inject('serverUrl'), max: 1, allowExitOnIdle: true });
    // The server is stopped under it at the end of the run.
    admin.on('error', () => undefined);
  }
  const client = await admin.connect();
  try {
    for (const text of texts) await client.query(text);
    client.release();
  } catch (error) {
    // A lock that it holds ends with its session.
    client.release(true);
    throw error;
  }
}

export async function cloneTemplate(): Promise<Clone> {
  const name = `holdfast_test_${randomBytes(6).toString('hex')}`;
  await run(
    // Two clones of one template at once refuse each other.
    'SELECT pg_advisory_lock(7230121, 1)',
    `CREATE DATABASE ${name} TEMPLATE ${inject('template')} STRATEGY ${inject('strategy')}`,
    'SELECT pg_advisory_unlock(7230121, 1)',
  );
  const url = new URL(inject('serverUrl'));
  url.pathname = `/${name}`;
  return {
    url: url.toString(),
    drop: () => run(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`),
  };
}
