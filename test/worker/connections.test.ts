/**
 * Where the connections of a worker lead: to the database of the caller's pool, with the caller's ssl and
 * password, from the keeper's thread too. Two databases in one client are refused at the start.
 */
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { partsOf } from '../../packages/holdfast/src/holdfast.js';
import { type HoldfastOptions, holdfast, job } from '../../packages/holdfast/src/index.js';
import { engineConfig } from '../../packages/holdfast/src/postgres/connect/pool.js';
import { cloneTemplate } from '../support/clone.js';
import { testDatabase } from '../support/database.js';
import { asAdmin } from '../support/empty-database.js';
import { quietLogger, recordingLogger } from '../support/logger.js';
import { CERTIFICATE, KEY, tlsBefore } from '../support/tls.js';
import { until } from '../support/until.js';
import { testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const work = job<object>('work');

afterEach(() => vi.unstubAllEnvs());

async function otherDatabase(): Promise<string> {
  const { url, drop } = await cloneTemplate();
  onTestFinished(drop);
  return url;
}

function client(options: HoldfastOptions) {
  const hf = holdfast({ logger: quietLogger, ...options });
  onTestFinished(() => hf.close());
  return hf;
}

function poolOf(config: pg.PoolConfig): pg.Pool {
  const pool = new pg.Pool(config);
  onTestFinished(() => pool.end());
  return pool;
}

/** Host, port and so on instead of a URL. */
function partsOfUrl(url: string): pg.ClientConfig {
  const { hostname, port, username, password, pathname } = new URL(url);
  return {
    ...{
      host: hostname,
      port: Number(port),
      user: username,
      password: decodeURIComponent(password),
    },
    database: pathname.slice(1),
  };
}

/** Enqueues with a client, runs the job with a worker of it, and says where it was archived. */
async function completes(options: HoldfastOptions, url = db.url): Promise<void> {
  const hf = client(options);
  const { id } = await hf.enqueue(work, {});
  const { events, stop } = start(hf, (worker) => worker.handle(work, () => undefined));
  await until('it is completed', () => events.some(({ kind }) => kind === 'completed'));
  await stop();
  const admin = new pg.Client({ connectionString: url });
  await admin.connect();
  onTestFinished(() => admin.end());
  const { rows } = await admin.query('SELECT id FROM holdfast.inbox_archive WHERE id = $1', [id]);
  expect(rows).toEqual([{ id }]);
}

const SESSIONS = `SELECT pid, usename FROM pg_stat_activity
  WHERE datname = current_database() AND application_name = $1`;
const sessions = (name: string) => db.rows<{ pid: number; usename: string }>(SESSIONS, [name]);

describe('a pool alone', () => {
  test('is enough, whatever DATABASE_URL names', async () => {
    vi.stubEnv('DATABASE_URL', await otherDatabase());
    await completes({ pool: poolOf({ connectionString: db.url }) });
    await completes({ pool: poolOf(partsOfUrl(db.url)) });
    vi.stubEnv('DATABASE_URL', undefined);
    await completes({ pool: poolOf({ connectionString: db.url }) });
  });

  test('may lead where the connection string leads by another name', async () => {
    const url = new URL(db.url);
    url.hostname = url.hostname === 'localhost' ? '127.0.0.1' : 'localhost';
    await completes({
      pool: poolOf({ connectionString: db.url }),
      connectionString: url.toString(),
    });
  });
});

describe('two databases in one client are refused', () => {
  async function refused(options: HoldfastOptions, what: string): Promise<void> {
    await db.rows('TRUNCATE holdfast.workers');
    const worker = client(options).worker({ handleSignals: false });
    await expect(worker.handle(work, () => undefined).run()).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringMatching(
        new RegExp(`^${what} leads to another database.*nothing was started`),
      ),
    });
    expect(await db.rows('SELECT id FROM holdfast.workers')).toEqual([]);
  }

  test('by the pool and the connection', async () => {
    const pool = poolOf({ connectionString: await otherDatabase() });
    await refused({ connectionString: db.url, pool }, 'The pool');
    await refused({ connection: partsOfUrl(db.url), pool }, 'The pool');
  });

  test('by what looks, before it has looked', async () => {
    const pool = poolOf({ connectionString: await otherDatabase() });
    const hf = client({ connectionString: db.url, pool });
    for (const look of [() => hf.gauges(), () => hf.doctor()]) {
      await expect(look()).rejects.toMatchObject({
        code: 'OPTION_INVALID',
        message: expect.stringMatching(/^The pool leads to another database.*nothing was read/),
      });
    }
    const one = client({ connectionString: db.url, pool: poolOf({ connectionString: db.url }) });
    expect((await one.gauges()).queues).not.toEqual([]);
  });

  test('by listenUrl', async () => {
    await refused({ connectionString: db.url, listenUrl: await otherDatabase() }, 'listenUrl');
  });

  test('but a listenUrl that cannot be reached now does not keep the worker from starting', async () => {
    await completes({ connectionString: db.url, listenUrl: 'postgres://nobody@127.0.0.1:1/none' });
  });
});

test('a listenUrl that cannot be reached is not taken for a database that is away', async () => {
  const logger = recordingLogger();
  const listenUrl = 'postgres://nobody@127.0.0.1:1/none';
  const hf = client({ connectionString: db.url, listenUrl, logger });
  const { worker, events } = start(hf, (w) => w.handle(work, () => undefined));
  const deaf = () =>
    events.filter(
      (event) => event.kind === 'error' && event.what === 'listening for notifications',
    );
  for (const times of [1, 2]) {
    await until('it cannot listen', () => deaf().length >= times);
    await hf.enqueue(work, {});
    await until('it works all the same', () => worker.stats.completed === times);
  }
  expect(logger.lines.map(({ message }) => message)).not.toContain('the database answers again');
});

test('a connection that cannot be opened for a while is no refusal of what was to be written', async () => {
  let locked = false;
  const { password, ...parts } = partsOfUrl(db.url);
  const passwordNow = async () => {
    if (locked) throw new Error('the vault is sealed');
    return password as string;
  };
  const hf = client({ connection: { ...parts, password: passwordNow, application_name: 'vault' } });
  const { id } = await hf.enqueue(work, {});
  const values: unknown[] = [];
  const { worker, events } = start(hf, (w) =>
    w.handle(work, async (ctx) => {
      const cut = () => {
        locked = true;
        return db.rows(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
          WHERE datname = current_database() AND pid <> pg_backend_pid()`);
      };
      values.push(await ctx.once('charge', () => 7));
      await cut();
    }),
  );
  await until('it cannot settle', () =>
    events.some((event) => event.kind === 'error' && /vault is sealed/.test(String(event.error))),
  );
  locked = false;
  await until('it is counted', () => worker.stats.completed + worker.stats.failed > 0);
  expect(worker.stats).toMatchObject({ completed: 1, failed: 0 });
  expect(await db.hf.job(id)).toMatchObject({ status: 'completed', attempts: 1 });
  expect(values).toEqual([7]);
});

test('connection: PGOPTIONS counts for the connections of the engine too', async () => {
  vi.stubEnv('PGOPTIONS', '-c holdfast_test.from=env');
  const { rows } = await poolOf(engineConfig({ connectionString: db.url })).query(
    `SELECT current_setting('holdfast_test.from', true) AS given, current_setting('enable_seqscan') AS own`,
  );
  expect(rows).toEqual([{ given: 'env', own: 'off' }]);
});

test('connection: settings of pg go to the connections of the caller', async () => {
  const hf = client({ connection: { ...partsOfUrl(db.url), statement_timeout: 12_345 } });
  const { rows } = await partsOf(hf)!.pool().query('SHOW statement_timeout');
  expect(rows).toEqual([{ statement_timeout: '12345ms' }]);
  await completes({ connection: partsOfUrl(db.url) });
});

describe('a function for the password', () => {
  /** A user whose password can change. */
  async function user() {
    const name = `holdfast_test_${randomBytes(4).toString('hex')}`;
    const setPassword = (password: string) =>
      asAdmin((admin) => admin.query(`ALTER ROLE ${name} PASSWORD '${password}'`));
    await asAdmin((admin) => admin.query(`CREATE ROLE ${name} LOGIN SUPERUSER PASSWORD 'first'`));
    onTestFinished(async () => void (await asAdmin((admin) => admin.query(`DROP ROLE ${name}`))));
    return { name, setPassword };
  }

  test('is asked at every connect, by the keeper too, so that tokens may change', async () => {
    const { name, setPassword } = await user();
    let token = 'first';
    const asked: string[] = [];
    const password = async () => {
      asked.push(token);
      return token;
    };
    const url = new URL(db.url);
    [url.username, url.password] = [name, ''];
    const hf = client({ connectionString: url.toString(), connection: { password } });
    const { events } = start(hf, (worker) => worker.handle(work, () => undefined));
    await until('it runs', () => events.some(({ kind }) => kind === 'started'));
    await until('the keeper', async () => (await sessions('holdfast keeper')).length > 0);
    const [keeper] = await sessions('holdfast keeper');
    expect(keeper?.usename).toBe(name);
    await setPassword('second');
    token = 'second';
    await db.rows('SELECT pg_terminate_backend($1)', [keeper?.pid]);
    await until('the keeper is back', async () =>
      (await sessions('holdfast keeper')).some(({ pid }) => pid !== keeper?.pid),
    );
    expect(new Set(asked)).toEqual(new Set(['first', 'second']));
    await hf.enqueue(work, {});
    await until('it is completed', () => events.some(({ kind }) => kind === 'completed'));
  });

  test('that a pool has is used by the worker', async () => {
    const { name } = await user();
    let asked = 0;
    const password = () => {
      asked++;
      return 'first';
    };
    const pool = poolOf({ ...partsOfUrl(db.url), user: name, password });
    await completes({ pool });
    expect(asked).toBeGreaterThan(3);
  });

  test('that fails is reported and asked again', async () => {
    const { name } = await user();
    let broken = false;
    const password = async () => {
      if (broken) throw new Error('no token to be had');
      return 'first';
    };
    const hf = client({ connection: { ...partsOfUrl(db.url), user: name, password } });
    const { events } = start(hf, (worker) => worker.handle(work, () => undefined));
    await until('it is kept', () => events.some(({ kind }) => kind === 'heartbeat'));
    broken = true;
    const [keeper] = await sessions('holdfast keeper');
    await db.rows('SELECT pg_terminate_backend($1)', [keeper?.pid]);
    const FAILED = 'the function for the password failed: no token to be had';
    await until('it is told', () =>
      events.some((event) => event.kind === 'error' && String(event.error).includes(FAILED)),
    );
    broken = false;
    await until('the keeper is back', async () => (await sessions('holdfast keeper')).length > 0);
  });
});

describe('ssl', () => {
  test('with certificates and a key works for every connection, of the keeper too', async () => {
    const port = await tlsBefore(db.url);
    const ssl = { ca: CERTIFICATE, cert: Buffer.from(CERTIFICATE), key: KEY };
    const secured = { ...partsOfUrl(db.url), host: 'localhost', port, ssl };
    await completes({ pool: poolOf(secured) });
    const hf = client({ connection: secured });
    start(hf, (worker) => worker.handle(work, () => undefined));
    await until('the keeper', async () => (await sessions('holdfast keeper')).length > 0);
    await until('the listener', async () => (await sessions('holdfast listener')).length > 0);
  });

  test('with a function, which cannot be sent to a thread, makes no worker', () => {
    const ssl = { checkServerIdentity: () => undefined };
    const hf = client({ connection: { ...partsOfUrl(db.url), ssl } });
    expect(() => hf.worker()).toThrow(
      expect.objectContaining({
        code: 'OPTION_INVALID',
        message: expect.stringMatching(/ssl\.checkServerIdentity .*no worker was made/),
      }),
    );
  });
});
