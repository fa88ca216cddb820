/** The databases on which the test kit is tested: PGlite in the process, and a clone on the test server. */
import type pg from 'pg';
import { afterAll, beforeAll, inject } from 'vitest';
import { type Holdfast, holdfast } from '../../packages/holdfast/src/holdfast.js';
import { plainPool } from '../../packages/holdfast/src/postgres/connect/pool.js';
import { cloneDatabase, startPglite } from '../../packages/testing/src/index.js';
import { quietLogger } from './logger.js';

interface Kit {
  readonly hf: Holdfast;
  readonly pool: pg.Pool;
  close(): Promise<void>;
}

async function onServer(): Promise<Kit> {
  const database = await cloneDatabase(inject('serverUrl'), inject('template'));
  const pool = plainPool({ connectionString: database.url }, 5, quietLogger);
  const hf = holdfast({ connectionString: database.url, pool, logger: quietLogger });
  const close = async () => {
    await hf.close();
    await pool.end();
    await database.drop();
  };
  return { hf, pool, close };
}

export const KITS: readonly (readonly [string, () => Promise<Kit>])[] = [
  ['PGlite', () => startPglite({ logger: quietLogger })],
  ['Postgres', onServer],
];

/** For the tests of a `describe`, with tables of theirs. */
export function kitOn(open: () => Promise<Kit>, tables = ''): Omit<Kit, 'close'> {
  let kit: Kit;
  beforeAll(async () => {
    kit = await open();
    if (tables !== '') await kit.pool.query(tables);
  });
  afterAll(() => kit?.close());
  return {
    get hf() {
      return kit.hf;
    },
    get pool() {
      return kit.pool;
    },
  };
}
