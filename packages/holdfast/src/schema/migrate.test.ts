/** Migrating: safe from everywhere at once, into a schema of any good name, and never by surprise. */
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { asAdmin, emptyDatabases, onDatabase } from '../../../../test/support/empty-database.js';
import { quietLogger } from '../../../../test/support/logger.js';
import { netSchema } from '../../../../test/support/net-schema.js';
import { testWorkers } from '../../../../test/support/workers.js';
import { holdfast, job } from '../index.js';
import { LATEST, MIGRATIONS } from './migrations.js';

const makeDatabase = emptyDatabases();
const start = testWorkers();
const work = job('work');
const open: { close(): Promise<void> }[] = [];
afterAll(() => Promise.all(open.map((hf) => hf.close())));

function connect(connectionString: string, schema?: string) {
  const hf = holdfast({ connectionString, logger: quietLogger, ...(schema && { schema }) });
  open.push(hf);
  return hf;
}

async function shapeOf(url: string): Promise<string> {
  const pool = new pg.Pool({ connectionString: url });
  try {
    return await netSchema(pool);
  } finally {
    await pool.end();
  }
}

/** Every migration of this code, applied then or not at all. */
const statesWith = (appliedAt: unknown) =>
  MIGRATIONS.map(({ id, name }) => ({ id, name, appliedAt, known: true }));

/** An id by enqueue in SQL, which uses the schema's own function for it. */
const newId = async (url: string, schema = 'holdfast') =>
  onDatabase(url, async (client) => {
    const { rows } = await client.query(`SELECT id FROM ${schema}.inbox_enqueue('work', '{}')`);
    return rows[0].id as string;
  });

describe('an empty database', () => {
  let url: string;
  beforeAll(async () => {
    url = await makeDatabase();
  });

  test('is reported as unmigrated, and nothing is made by asking', async () => {
    const hf = connect(url);
    expect(await hf.migrationStates()).toEqual(statesWith(null));
    expect(await hf.pendingSql()).toContain('CREATE TABLE holdfast.inbox');
    const { rows } = await onDatabase(url, (client) =>
      client.query(`SELECT nspname FROM pg_namespace WHERE nspname = 'holdfast'`),
    );
    expect(rows).toEqual([]);
  });

  test('is migrated once by ten that come at once, and all ten find it done', async () => {
    const states = await Promise.all(Array.from({ length: 10 }, () => connect(url).migrate()));
    const [first] = states;
    expect(first).toEqual(statesWith(expect.any(Date)));
    for (const one of states) expect(one).toEqual(first);
    expect(first?.[0]?.appliedAt?.getTime()).toBeGreaterThan(Date.now() - 60_000);
  });

  test('then needs nothing more', async () => {
    const hf = connect(url);
    const before = await hf.migrationStates();
    expect(await hf.migrate()).toEqual(before);
    expect(await hf.pendingSql()).toBe('');
  });

  test('runs jobs', async () => {
    const hf = connect(url);
    const { id } = await hf.enqueue(work, {});
    expect(await hf.job(id)).toMatchObject({ status: 'pending' });
  });
});

test('ten that come at once do so whatever isolation level the database prefers', async () => {
  const url = await makeDatabase();
  const name = new URL(url).pathname.slice(1);
  await asAdmin((client) =>
    client.query(`ALTER DATABASE ${name} SET default_transaction_isolation = 'serializable'`),
  );
  const states = await Promise.all(Array.from({ length: 10 }, () => connect(url).migrate()));
  expect(states.every((one) => one[0]?.appliedAt !== null)).toBe(true);
});

test('the printed SQL runs as it is, and makes the same schema as migrate()', async () => {
  const [byHand, byCall] = [await makeDatabase(), await makeDatabase()];
  const sql = await connect(byHand).pendingSql();
  await onDatabase(byHand, (client) => client.query(sql));
  await connect(byCall).migrate();
  expect(await shapeOf(byHand)).toBe(await shapeOf(byCall));
  expect(await connect(byHand).pendingSql()).toBe('');
  expect(await connect(byHand).migrate()).toEqual(statesWith(expect.any(Date)));
});

describe('the name of the schema', () => {
  let url: string;
  beforeAll(async () => {
    url = await makeDatabase();
  });

  test.each(['jobs', 'tenant_7', '_x', 'order', 'inbox', 'public', 'a'.repeat(63)])(
    'may be %s',
    async (schema) => {
      const hf = connect(url, schema);
      await hf.migrate();
      const { id } = await hf.enqueue(work, {}, { idempotencyKey: 'k' });
      expect((await hf.enqueue(work, {}, { idempotencyKey: 'k' })).id).toBe(id);
      expect(await newId(url, `"${schema}"`)).not.toBe(id);
      expect(await hf.createQueue('outbox')).toBe(true);
      const { rows } = await onDatabase(url, (client) =>
        client.query(`SELECT 1 FROM pg_namespace WHERE nspname = 'holdfast'`),
      );
      expect(rows).toEqual([]);
    },
  );

  test('printed SQL and migrate() agree on it', async () => {
    const sql = await connect(url, 'printed').pendingSql();
    await onDatabase(url, (client) => client.query(sql));
    expect(await connect(url, 'printed').pendingSql()).toBe('');
    await newId(url, 'printed');
  });

  test.each([
    '',
    'Jobs',
    '1st',
    'a b',
    'a-b',
    'pg_catalog',
    'a'.repeat(64),
    'x"; DROP SCHEMA public CASCADE; --',
    "x'; DROP SCHEMA public CASCADE; --",
    'x.y',
    'é',
    'x\0',
    'x\n',
    5,
    ['x'],
  ])('may not be %j', (schema) => {
    expect(() => holdfast({ connectionString: url, schema: schema as string })).toThrow(
      expect.objectContaining({ code: 'NAME_INVALID' }),
    );
  });
});

describe('another queue', () => {
  let hf: ReturnType<typeof connect>;
  beforeAll(async () => {
    hf = connect(await makeDatabase());
    await hf.migrate();
  });

  test('is created once, also by ten at once', async () => {
    const made = await Promise.all(Array.from({ length: 10 }, () => hf.createQueue('outbox')));
    expect(made.filter(Boolean)).toHaveLength(1);
    expect(await hf.createQueue('outbox')).toBe(false);
    expect(await hf.createQueue('inbox')).toBe(false);
  });

  test.each(['order', 'select', 'user', 'projection_2', 'a'.repeat(40)])(
    'may be called %s',
    async (queue) => {
      expect(await hf.createQueue(queue)).toBe(true);
      const own = job('own', { queue });
      const first = await hf.enqueue(own, {}, { idempotencyKey: 'k' });
      expect(await hf.enqueue(own, {}, { idempotencyKey: 'k' })).toMatchObject({ id: first.id });
      expect(await hf.job(first.id, { queue })).toMatchObject({ status: 'pending' });
      expect(await hf.cancel([first.id], { reason: 'no', queue })).toEqual([first.id]);
    },
  );

  test('two long names that differ in their last letter are two queues', async () => {
    expect(await hf.createQueue(`${'b'.repeat(39)}1`)).toBe(true);
    expect(await hf.createQueue(`${'b'.repeat(39)}2`)).toBe(true);
  });

  test.each([
    '',
    'Outbox',
    '1st',
    '_x',
    'a-b',
    'a.b',
    'workers',
    'queues',
    'migrations',
    'outbox_archive',
    'outbox_effects',
    'inbox_status',
    'pg_x',
    'a'.repeat(41),
    'x"; DROP TABLE holdfast.inbox; --',
    "x'); DROP TABLE holdfast.inbox; --",
    'x\0',
    null,
    7,
  ])('may not be called %j', async (queue) => {
    await expect(hf.createQueue(queue as string)).rejects.toMatchObject({ code: 'NAME_INVALID' });
  });

  test('with a bad name is refused by a rejected promise in every call', async () => {
    const bad = 'x"; DROP TABLE holdfast.inbox; --';
    const calls = [
      () => hf.job(crypto.randomUUID(), { queue: bad }),
      () => hf.pause(bad),
      () => hf.resume(bad),
      () => hf.retry([], { queue: bad }),
      () => hf.discard([], { queue: bad }),
      () => hf.cancel([], { queue: bad }),
      () => hf.configureQueue(bad, {}),
      () => hf.enqueue(job('x', { queue: bad }), {}),
    ];
    for (const call of calls) {
      let answer: Promise<unknown> = Promise.resolve();
      expect(() => {
        answer = call();
      }, `${call}`).not.toThrow();
      await expect(answer).rejects.toMatchObject({ code: 'NAME_INVALID' });
    }
  });

  test('does not overwrite a table that is in its way', async () => {
    const url = await makeDatabase();
    const other = connect(url);
    await other.migrate();
    await onDatabase(url, (client) => client.query('CREATE TABLE holdfast.mine (precious int)'));
    await expect(other.createQueue('mine')).rejects.toMatchObject({
      code: 'QUEUE_EXISTS',
      cause: expect.objectContaining({ code: '42P07' }),
    });
    await onDatabase(url, (client) => client.query('SELECT precious FROM holdfast.mine'));
    const { rows } = await onDatabase(url, (client) =>
      client.query('SELECT name FROM holdfast.queues'),
    );
    expect(rows).toEqual([{ name: 'inbox' }]);
  });

  test('that does not exist, or with times out of range, cannot be configured', async () => {
    await expect(hf.configureQueue('nowhere', {})).rejects.toMatchObject({ code: 'QUEUE_UNKNOWN' });
    for (const settings of [
      { effectRetention: '1ms' },
      { archiveRetention: '11y' as '11d' },
    ] as const) {
      await expect(hf.configureQueue('outbox', settings)).rejects.toMatchObject({
        code: 'OPTION_INVALID',
      });
    }
    await hf.configureQueue('outbox', { archiveRetention: 0 });
  });
});

describe('a schema of another age', () => {
  let url: string;
  beforeAll(async () => {
    url = await makeDatabase();
    await connect(url).migrate();
  });
  const future = (breaksBefore: number) =>
    onDatabase(url, (client) =>
      client.query(
        `INSERT INTO holdfast.migrations (id, name, breaks_before) VALUES ($1, 'future', $2)
         ON CONFLICT (id) DO UPDATE SET breaks_before = excluded.breaks_before`,
        [LATEST + 1, breaksBefore],
      ),
    );

  test('that is newer, and says that it can be shared, is worked with', async () => {
    await future(LATEST);
    const hf = connect(url);
    const { worker, stop } = start(hf, (w) => w.handle(work, () => undefined));
    await hf.enqueue(work, {});
    await expect.poll(() => worker.stats.completed, { timeout: 10_000 }).toBe(1);
    await stop();
    expect((await hf.migrate()).at(-1)).toMatchObject({
      id: LATEST + 1,
      name: 'future',
      known: false,
    });
    expect(await hf.pendingSql()).toBe('');
  });

  test('that is newer, and cannot be shared, is refused', async () => {
    await future(LATEST + 1);
    const run = connect(url)
      .worker({ handleSignals: false })
      .handle(work, () => undefined)
      .run();
    await expect(run).rejects.toMatchObject({
      code: 'SCHEMA_TOO_NEW',
      message: expect.stringMatching(/upgrade holdfast/),
    });
  });

  test('that has no tables at all is refused with the way out', async () => {
    const run = connect(url, 'nothing')
      .worker({ handleSignals: false })
      .handle(work, () => undefined)
      .run();
    await expect(run).rejects.toMatchObject({
      code: 'SCHEMA_MISSING',
      message: expect.stringContaining('holdfast migrate'),
    });
  });
});

describe('a role that may not create schemas', () => {
  const role = `holdfast_migrator_${randomBytes(4).toString('hex')}`;
  let url: string;
  let own: string;
  beforeAll(async () => {
    url = await makeDatabase();
    await asAdmin((client) => client.query(`CREATE ROLE ${role} LOGIN PASSWORD 'secret'`));
    const as = new URL(url);
    as.username = role;
    as.password = 'secret';
    own = as.toString();
  });
  afterAll(async () => {
    await onDatabase(url, (client) => client.query(`DROP OWNED BY ${role} CASCADE`));
    await asAdmin((client) => client.query(`DROP ROLE ${role}`));
  });

  test('is told so by Postgres when there is no schema for it', async () => {
    await expect(connect(own).migrate()).rejects.toMatchObject({ code: '42501' });
  });

  test.each(['migrate()', 'the printed SQL'])(
    'can fill one that was made for it by %s',
    async (how) => {
      const schema = how === 'migrate()' ? 'by_call' : 'by_hand';
      await onDatabase(url, (client) =>
        client.query(`CREATE SCHEMA ${schema} AUTHORIZATION ${role}`),
      );
      const hf = connect(own, schema);
      if (how === 'migrate()') await hf.migrate();
      else await onDatabase(own, async (client) => client.query(await hf.pendingSql()));
      expect(await hf.migrationStates()).toEqual(statesWith(expect.any(Date)));
      await hf.enqueue(work, {});
    },
  );
});

test('a migration that fails leaves nothing behind', async () => {
  const url = await makeDatabase();
  await onDatabase(url, async (client) => {
    await client.query('CREATE SCHEMA holdfast');
    await client.query('CREATE TABLE holdfast.inbox (in_the_way int)');
  });
  await expect(connect(url).migrate()).rejects.toMatchObject({ code: '42P07' });
  const { rows } = await onDatabase(url, (client) =>
    client.query(`SELECT relname FROM pg_class WHERE relnamespace = 'holdfast'::regnamespace`),
  );
  expect(rows).toEqual([{ relname: 'inbox' }]);
});

describe('without uuidv7() in the server, as before Postgres 18', () => {
  let url: string;
  beforeAll(async () => {
    url = await makeDatabase();
    await onDatabase(url, async (client) => {
      const { rows } = await client.query(
        `SELECT oid::regprocedure::text AS name FROM pg_proc WHERE proname = 'uuidv7'`,
      );
      for (const { name } of rows)
        await client.query(`ALTER FUNCTION pg_catalog.${name} RENAME TO uuidv7_hidden`);
    });
    await connect(url).migrate();
  });

  test('ids are UUIDs of version 7 all the same, with the time in front', async () => {
    const { rows } = await onDatabase(url, (client) =>
      client.query<{ id: string; before: string; after: string }>(
        `SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint - 1 AS before,
           holdfast.new_id() AS id, (extract(epoch FROM clock_timestamp()) * 1000)::bigint + 1 AS after
         FROM generate_series(1, 2000)`,
      ),
    );
    for (const { id, before, after } of rows) {
      expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
      const ms = Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16);
      expect(ms).toBeGreaterThanOrEqual(Number(before));
      expect(ms).toBeLessThanOrEqual(Number(after));
    }
    expect(new Set(rows.map(({ id }) => id)).size).toBe(2_000);
    expect(new Set(rows.map(({ id }) => id[19])).size).toBe(4);
    const byTime = rows.map(({ id }) => id.slice(0, 13));
    expect(byTime).toEqual([...byTime].sort());
  });

  test('jobs are enqueued in SQL and in TypeScript', async () => {
    const hf = connect(url);
    const { id } = await hf.enqueue(work, {});
    expect((await newId(url)) > id).toBe(true);
  });
});
