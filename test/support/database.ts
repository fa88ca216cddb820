/** A clone of the template for this test file, with a client on it; dropped when the file is done. */

import pg from 'pg';
import { afterAll, beforeAll } from 'vitest';
import { type Holdfast, holdfast } from '../../packages/holdfast/src/holdfast.js';
import { engineOptions, plainPool } from '../../packages/holdfast/src/postgres/connect/pool.js';
import { type Executor, engineExecutor } from '../../packages/holdfast/src/postgres/queryable.js';
import { type Clone, cloneTemplate } from './clone.js';
import { quietLogger } from './logger.js';

export interface TestGround {
  readonly url: string;
  readonly pool: pg.Pool;
  readonly hf: Holdfast;
  /** Statements as a worker runs them: index plans only, prepared. */
  readonly engine: Executor;
  readonly plain: Executor;
  rows<Row extends object = Record<string, unknown>>(
    text: string,
    params?: unknown[],
  ): Promise<Row[]>;
}

export const INBOX = { schema: 'holdfast', queue: 'inbox' } as const;

export function testDatabase(): TestGround {
  let database: Clone;
  let pool: pg.Pool;
  let enginePool: pg.Pool;
  let hf: Holdfast;
  beforeAll(async () => {
    database = await cloneTemplate();
    pool = plainPool({ connectionString: database.url }, 20, quietLogger);
    enginePool = new pg.Pool({
      connectionString: database.url,
      options: engineOptions(),
      max: 20,
    });
    enginePool.on('error', () => undefined);
    hf = holdfast({ connectionString: database.url, logger: quietLogger });
  });
  afterAll(async () => {
    await hf?.close();
    await pool?.end();
    await enginePool?.end();
    await database?.drop();
  });
  return {
    get url() {
      return database.url;
    },
    get pool() {
      return pool;
    },
    get hf() {
      return hf;
    },
    get engine() {
      return engineExecutor(enginePool, { prepare: true });
    },
    get plain() {
      return engineExecutor(pool, { prepare: false });
    },
    async rows(text, params) {
      return (await pool.query(text, params)).rows;
    },
  };
}
