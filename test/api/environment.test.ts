/** Where PGHOST and its like are all that is said: as with pg, for every connection of a program and of the command. */
import { userInfo } from 'node:os';
import pg from 'pg';
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { Session } from '../../packages/holdfast/src/cli/session.js';
import { holdfast, job } from '../../packages/holdfast/src/index.js';
import { findAddress, sendable } from '../../packages/holdfast/src/postgres/connect/address.js';
import { engineConfig, plainPool } from '../../packages/holdfast/src/postgres/connect/pool.js';
import { testDatabase } from '../support/database.js';
import { quietLogger } from '../support/logger.js';
import { testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();

const VARIABLES = ['HOST', 'PORT', 'USER', 'DATABASE', 'PASSWORD', 'SSLMODE', 'OPTIONS', 'SERVICE'];

/** Where connections of this config lead, as the driver reads it. */
function led(config?: pg.ClientConfig) {
  const { host, port, user, database, password, ssl } = new pg.Client(config);
  return { host, port, user, database, password, ssl };
}

test.each<Record<string, string>>([
  { PGHOST: 'db.test' },
  { PGPORT: '5555' },
  { PGUSER: 'ann' },
  { PGDATABASE: 'shop' },
  { PGHOST: '/var/run/postgresql', PGDATABASE: 'shop' },
  { PGHOST: 'db.test', PGPORT: '5555', PGUSER: 'ann', PGPASSWORD: 'p@:/?#', PGDATABASE: 'shop x' },
  { PGHOST: 'db.test', PGSSLMODE: 'disable' },
  { PGHOST: 'db.test', PGSSLMODE: 'require' },
  { PGHOST: 'db.test', PGSSLMODE: 'verify-full' },
  { PGHOST: 'db.test', PGSSLMODE: 'no-verify' },
  // As pg, and not as psql: the service is not read.
  { PGHOST: 'db.test', PGSERVICE: 'other' },
])('with %o alone, every connection leads where one of pg does', (given) => {
  for (const name of ['DATABASE_URL', ...VARIABLES.map((one) => `PG${one}`)])
    vi.stubEnv(name, given[name] ?? '');
  onTestFinished(() => void vi.unstubAllEnvs());
  const { address } = findAddress({}, process.env);
  // Without USER in the environment pg knows no user; see below.
  const { user } = pg.defaults;
  if (!user) pg.defaults.user = 'someone';
  onTestFinished(() => {
    pg.defaults.user = user;
  });
  const wanted = led();
  expect(led(address)).toEqual(wanted);
  expect(led(engineConfig(address))).toEqual(wanted);
  expect(led(plainPool(address, 1, quietLogger).options as pg.ClientConfig)).toEqual(wanted);
  expect(led(sendable(address))).toEqual(wanted);
  expect(
    led(new Session(undefined, undefined, process.env).pool.options as pg.ClientConfig),
  ).toEqual(wanted);
});

test('a program and its worker run with PG variables alone', async () => {
  const { hostname, port, username, password, pathname } = new URL(db.url);
  vi.stubEnv('DATABASE_URL', '');
  for (const [name, value] of Object.entries({
    ...{ PGHOST: hostname, PGPORT: port, PGUSER: username, PGPASSWORD: password },
    ...{ PGDATABASE: pathname.slice(1), PGSSLMODE: 'disable' },
  }))
    vi.stubEnv(name, value);
  onTestFinished(() => void vi.unstubAllEnvs());
  const hf = holdfast({ logger: quietLogger });
  onTestFinished(() => hf.close());
  const greet = job('greet');
  start(hf, (worker) =>
    worker.handle(greet, ({ transaction }) => transaction(async () => 'hello')),
  );
  const { id } = await hf.enqueue(greet, {});
  expect(await hf.wait(id, { timeout: '20s' })).toMatchObject({ result: 'hello' });
  // It looked at the database of the test, and leases are kept by a thread of its own.
  expect(await db.hf.job(id)).toMatchObject({ status: 'completed' });
});

describe('without USER in the environment', () => {
  const me = userInfo().username;
  beforeEach(() => {
    const { user } = pg.defaults;
    pg.defaults.user = undefined;
    for (const name of ['USER', 'USERNAME', 'PGUSER']) vi.stubEnv(name, undefined);
    onTestFinished(() => {
      pg.defaults.user = user;
      vi.unstubAllEnvs();
    });
  });

  test.each<[pg.ClientConfig, string, string]>([
    [{}, me, me],
    [{ host: 'db.test', database: 'shop' }, me, 'shop'],
    [{ connectionString: 'postgres://db.test/shop' }, me, 'shop'],
    [{ connectionString: 'postgres://db.test' }, me, me],
    [{ connectionString: 'postgres://db.test/shop?sslmode=disable' }, me, 'shop'],
    [{ connectionString: 'socket:/tmp?db=shop' }, me, 'shop'],
    [{ connectionString: '/tmp shop' }, me, 'shop'],
    [{ user: 'ann', database: 'shop' }, 'ann', 'shop'],
    [{ connectionString: 'postgres://ann@db.test/shop' }, 'ann', 'shop'],
    [{ connectionString: 'postgres://db.test/shop?user=ann' }, 'ann', 'shop'],
    [{ connectionString: '/tmp shop', user: 'ann' }, 'ann', 'shop'],
  ])('%o connects as the user of the system, if it names none', (config, user, database) => {
    const wanted = { ...led(config), user, database };
    expect(led(engineConfig(config))).toEqual(wanted);
    expect(led(plainPool(config, 1, quietLogger).options as pg.ClientConfig)).toEqual(wanted);
  });

  test('a program, its worker and the command run with a URL that names no user', async () => {
    const { hostname, port, username, pathname } = new URL(db.url);
    const role = pg.escapeIdentifier(me);
    if (username !== me) {
      await db.rows(`CREATE ROLE ${role} LOGIN SUPERUSER PASSWORD 'system'`);
      onTestFinished(async () => void (await db.rows(`DROP ROLE ${role}`)));
      vi.stubEnv('PGPASSWORD', 'system');
    } else vi.stubEnv('PGPASSWORD', decodeURIComponent(new URL(db.url).password));
    const url = `postgres://${hostname}:${port}${pathname}`;
    const hf = holdfast({ connectionString: url, listenUrl: url, logger: quietLogger });
    onTestFinished(() => hf.close());
    const greet = job('greet_me');
    const { running, stop } = start(hf, (worker) =>
      worker.handle(greet, ({ transaction }) =>
        transaction(async (tx) => (await tx.query('SELECT current_user AS me')).rows[0].me),
      ),
    );
    const { id } = await hf.enqueue(greet, {});
    const waited = hf.wait(id, { timeout: '20s' });
    // A keeper that cannot connect ends run().
    await Promise.race([waited, running]);
    expect(await waited).toMatchObject({ result: me });
    await stop();
    const { pool } = new Session(url, undefined);
    expect((await pool.query('SELECT current_user AS me')).rows).toEqual([{ me }]);
    await pool.end();
    await hf.close();
  });
});

test('PGSERVICE by itself names no database, and the error says why', () => {
  const env = { PGSERVICE: 'shop' };
  const message = expect.stringMatching(
    /no database to connect to.*PGSERVICE is set, but .*write out/,
  );
  expect(() => findAddress({}, env)).toThrow(expect.objectContaining({ message }));
  expect(() => new Session(undefined, undefined, env)).toThrow(
    expect.objectContaining({ message }),
  );
});
