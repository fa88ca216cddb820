/**
 * A database for one test that is reached through a pooler, beside a connection that leads to the server
 * itself: by the one Holdfast works, by the other the test looks at what it did.
 */
import type pg from 'pg';
import { afterAll, beforeAll, inject, onTestFinished } from 'vitest';
import type { WorkerEvent } from '../../packages/holdfast/src/index.js';
import { plainPool } from '../../packages/holdfast/src/postgres/connect/pool.js';
import { cloneDatabase } from '../../packages/testing/src/index.js';
import type { Message } from '../support/child.js';
import { type Ground, groundOn } from '../support/ground.js';
import { quietLogger } from '../support/logger.js';
import { until } from '../support/until.js';
import { type Pooler, startPgbouncer } from './pgbouncer.js';

/** As docs/poolers.md prints it, and one that swallows start-up options in place of refusing them. */
export const VARIANTS = [
  { name: 'as documented', settings: {} },
  { name: 'that drops start-up options', settings: { ignore_startup_parameters: 'options' } },
];

/** One PgBouncer for the tests of a file, or of a `describe`. */
export function testPooler(settings: Readonly<Record<string, string>> = {}): () => Pooler {
  let pooler: Pooler;
  beforeAll(async () => {
    pooler = await startPgbouncer(inject('serverUrl'), settings);
  });
  afterAll(() => pooler?.stop());
  return () => pooler;
}

export interface PooledGround extends Ground {
  readonly directUrl: string;
  readonly direct: pg.Pool;
  /** Waits until no transaction is open and no advisory lock is held. */
  leavesNothing(): Promise<void>;
}

export async function pooledGround(pooler: Pooler): Promise<PooledGround> {
  const database = await cloneDatabase(inject('serverUrl'), inject('template'));
  onTestFinished(() => database.drop());
  const db = await groundOn(pooler.through(database.url));
  const direct = plainPool({ connectionString: database.url }, 2, quietLogger);
  onTestFinished(() => direct.end());
  const count = async (from: string) =>
    Number((await direct.query(`SELECT count(*) AS n FROM ${from}`)).rows[0].n);
  return Object.assign(db, {
    directUrl: database.url,
    direct,
    async leavesNothing() {
      const inTransaction = `pg_stat_activity WHERE datname = current_database()
        AND state LIKE 'idle in transaction%'`;
      await until('no transaction is open', async () => (await count(inTransaction)) === 0);
      // Those of transactions and of sessions that end just now go by themselves; a leaked one stays.
      const advisory = `pg_locks WHERE locktype = 'advisory'
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`;
      await until('no advisory lock is held', async () => (await count(advisory)) === 0);
    },
  });
}

/**
 * What would be seen if something relied on a session that it does not have: statements by a name that the
 * server does not know or knows already, transactions that others left behind, refused connections.
 */
const OF_SESSIONS = /^(26000|42P05|25\w{3}|08P01|34000|3B001)$/;

export function sessionErrors(told: readonly (WorkerEvent | Message)[]): string[] {
  return told.flatMap((one) => {
    if (one.kind !== 'error') return [];
    const error = 'error' in one ? (one.error as { code?: string; message: string }) : one;
    return OF_SESSIONS.test(error.code ?? '') ? [`${error.code} ${error.message}`] : [];
  });
}
