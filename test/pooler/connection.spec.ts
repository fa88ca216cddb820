/** How a pooler is noticed, and what Holdfast says when it cannot get through one. */
import { describe, expect, inject, test } from 'vitest';
import { holdfast, job } from '../../packages/holdfast/src/index.js';
import { plainPool } from '../../packages/holdfast/src/postgres/connect/pool.js';
import { behindPooler } from '../../packages/holdfast/src/postgres/connect/pooled.js';
import { quietLogger } from '../support/logger.js';
import { until } from '../support/until.js';
import { testWorkers } from '../support/workers.js';
import { pooledGround, sessionErrors, testPooler, VARIANTS } from './ground.js';

const work = job<{ n: number }>('work');

describe.each([...VARIANTS, { name: 'in session mode', settings: { pool_mode: 'session' } }])(
  'PgBouncer $name',
  ({ settings }) => {
    const pooler = testPooler(settings);

    test('is noticed; the server behind it is not taken for one', async () => {
      for (const [url, pooled] of [
        [pooler().through(inject('serverUrl')), true],
        [inject('serverUrl'), false],
      ] as const) {
        const pool = plainPool({ connectionString: url }, 2, quietLogger);
        expect(await behindPooler(pool)).toBe(pooled);
        await pool.end();
      }
    });
  },
);

describe('PgBouncer in session mode', () => {
  // Every connection of a worker and of the test keeps a server connection for itself.
  const pooler = testPooler({ pool_mode: 'session', default_pool_size: '40' });
  const start = testWorkers();

  test('serves a worker as transaction mode does', async () => {
    const db = await pooledGround(pooler());
    const { worker, events, stop } = start(db.hf, (made) =>
      made.handle(work, (ctx) => ctx.transaction((tx) => tx.query('SELECT 1'))),
    );
    await Promise.all(Array.from({ length: 40 }, (_, n) => db.hf.enqueue(work, { n })));
    await until('40 jobs are completed', () => worker.stats.completed === 40);
    await stop();
    expect(sessionErrors(events)).toEqual([]);
    await db.leavesNothing();
  });
});

describe('through PgBouncer', () => {
  const pooler = testPooler();
  const start = testWorkers();
  const noop = () => undefined;
  /** What a start that is refused says; one that is tried for ever would hang here. */
  const refusal = async (url: string, options: { pooler?: boolean } = {}) => {
    const hf = holdfast({ connectionString: url, logger: quietLogger, ...options });
    const worker = hf.worker({ handleSignals: false }).handle(work, noop);
    const said = await worker.run().catch((error: Error) => error.message);
    await hf.close();
    return said;
  };

  test('a worker that was told that there is no pooler is refused at once', async () => {
    const db = await pooledGround(pooler());
    expect(await refusal(db.url, { pooler: false })).toMatch(/unsupported startup parameter/);
  });

  test('a wrong password and an unknown database are refused, not waited for', async () => {
    const db = await pooledGround(pooler());
    const password = new URL(db.url);
    password.password = 'wrong';
    expect(await refusal(password.toString())).toMatch(/authentication failed/);
    const database = new URL(db.url);
    database.pathname = '/nowhere';
    expect(await refusal(database.toString())).toMatch(/does not exist/);
  });

  test('a pool of yours may take the other way than the worker', async () => {
    const db = await pooledGround(pooler());
    for (const [mine, theirs] of [
      [db.directUrl, db.url],
      [db.url, db.directUrl],
    ] as const) {
      const pool = plainPool({ connectionString: mine }, 4, quietLogger);
      const hf = holdfast({ connectionString: theirs, pool, logger: quietLogger });
      const { worker, stop } = start(hf, (made) => made.handle(work, noop));
      // Many at once, so that each connection of the pool meets several server connections.
      await Promise.all(Array.from({ length: 40 }, (_, n) => hf.enqueue(work, { n })));
      await until('40 jobs are completed', () => worker.stats.completed === 40);
      await stop();
      await pool.end();
    }
    await db.leavesNothing();
  });
});
