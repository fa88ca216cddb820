/** A pool that a user passes in: no loss of a connection ends the process, and the user still hears of it. */
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { testDatabase } from '../../../../../test/support/database.js';
import { quietLogger, recordingLogger } from '../../../../../test/support/logger.js';
import { until } from '../../../../../test/support/until.js';
import { adoptPool, enginePool, plainPool } from './pool.js';
import { isOutage, isTransient } from './transient.js';

const db = testDatabase();

function usersPool(): pg.Pool {
  const pool = new pg.Pool({ connectionString: db.url, max: 1 });
  onTestFinished(() => pool.end());
  return pool;
}

/** Emitting throws when nobody listens, which is how a process dies of it. */
const breaks = (client: pg.PoolClient) => client.emit('error', new Error('broken'));

async function terminate(pid: unknown): Promise<void> {
  await db.rows('SELECT pg_terminate_backend($1::int)', [pid]);
}

test.each([
  ['new', async () => undefined],
  ['older than the adoption', (pool: pg.Pool) => pool.query('SELECT 1')],
])('a client that is %s may break in the moment in which it is handed out', async (_, before) => {
  const pool = usersPool();
  pool.on('error', () => undefined);
  await before(pool);
  adoptPool(pool, quietLogger);
  await new Promise<void>((resolve, reject) => {
    pool.connect((error, client, release) => {
      try {
        if (error) throw error;
        breaks(client as pg.PoolClient);
        resolve();
      } catch (thrown) {
        reject(thrown);
      } finally {
        release();
      }
    });
  });
});

test('a client that is lent out when its pool is adopted may break', async () => {
  const pool = usersPool();
  pool.on('error', () => undefined);
  const client = await pool.connect();
  onTestFinished(() => client.release());
  expect(() => breaks(client)).toThrow('broken');
  adoptPool(pool, quietLogger);
  breaks(client);
});

test('a client from which all listeners were removed is guarded again when it is lent out', async () => {
  const pool = usersPool();
  adoptPool(pool, quietLogger);
  const client = await pool.connect();
  client.removeAllListeners('error');
  client.release();
  const again = await pool.connect();
  onTestFinished(() => again.release());
  expect(again).toBe(client);
  breaks(again);
});

test('the listeners of the user hear what they heard before, and nothing is logged besides', async () => {
  const pool = usersPool();
  const log = recordingLogger();
  const heard: string[] = [];
  pool.on('error', () => heard.push('pool'));
  adoptPool(pool, log);
  const client = await pool.connect();
  const lost = new Promise((resolve) => client.once('error', resolve));
  const { rows } = await client.query('SELECT pg_backend_pid() AS pid');
  await terminate(rows[0].pid);
  await lost;
  client.release();

  const idle = await pool.query('SELECT pg_backend_pid() AS pid');
  await terminate(idle.rows[0].pid);
  await until('the pool tells of an idle client that was lost', () => heard.length > 0);
  expect(heard).toEqual(['pool']);
  expect(log.lines).toEqual([]);
});

test('where nobody listens to the pool, the log is told, once however often it was adopted', async () => {
  const pool = usersPool();
  const log = recordingLogger();
  adoptPool(adoptPool(pool, log), log);
  const { rows } = await pool.query('SELECT pg_backend_pid() AS pid');
  await terminate(rows[0].pid);
  await until('the log is told', () => log.lines.length > 0);
  expect(log.lines).toMatchObject([
    { level: 'warn', message: 'an idle database connection was lost' },
  ]);
});

const limitOf = async (pool: pg.Pool) => {
  onTestFinished(() => pool.end());
  const { rows } = await pool.query(
    `SELECT current_setting('statement_timeout') AS limit, current_setting('work_mem') AS memory`,
  );
  return rows[0];
};

test.each([
  '',
  '?options=-c%20work_mem%3D5MB%20-c%20statement_timeout%3D77',
  '?statement_timeout=77',
])(
  'the engine has no limit for statements, whatever the role or the connection string says: "%s"',
  async (words) => {
    const name = new URL(db.url).pathname.slice(1);
    await db.rows(`ALTER DATABASE ${name} SET statement_timeout = '88ms'`);
    await db.rows(`ALTER DATABASE ${name} SET work_mem = '5MB'`);
    onTestFinished(async () => void (await db.rows(`ALTER DATABASE ${name} RESET ALL`)));
    const connectionString = `${db.url}${words}`;
    const free = { limit: '0', memory: '5MB' };
    expect(await limitOf(enginePool({ connectionString }, 1, quietLogger))).toEqual(free);
    const own = { connectionString, unlimited: true };
    expect(await limitOf(plainPool(own, 1, quietLogger))).toEqual(free);
    const users = await limitOf(plainPool({ connectionString }, 1, quietLogger));
    expect(users).toEqual({ limit: words === '' ? '88ms' : '77ms', memory: '5MB' });
  },
);

const sqlState = (code: string) => Object.assign(new Error('from the server'), { code });

test.each(['55P03', '57014', '40001', '40P01', '25P03'])(
  'SQLSTATE %s may pass by itself and is no outage: the database is there',
  (code) => {
    expect([isTransient(sqlState(code)), isOutage(sqlState(code))]).toEqual([true, false]);
  },
);

test.each(['08006', '57P01', '57P03', '53300', '25006'])('SQLSTATE %s is an outage', (code) => {
  expect(isOutage(sqlState(code))).toBe(true);
});

test('a connection that was refused, broke or did not answer is an outage; nothing else is', () => {
  expect(isOutage(Object.assign(new Error('x'), { syscall: 'connect' }))).toBe(true);
  expect(isOutage(new Error('Connection terminated unexpectedly'))).toBe(true);
  expect(isOutage(new Error('Query read timeout'))).toBe(true);
  for (const other of [new Error('no'), sqlState('23505'), null, undefined, 'x']) {
    expect(isOutage(other)).toBe(false);
  }
});
