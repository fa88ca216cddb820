/**
 * Who is told of an insert: everybody who waits for hints of that queue, at the commit; if nobody waits, no
 * notification is sent at all. An insert itself needs no right for it and cannot fail by it.
 */
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { afterEach, describe, expect, onTestFinished, test } from 'vitest';
import {
  ACTIVE,
  channelOf,
  hintQueue,
  holdListening,
  holdQueueLock,
  leaveQueueLock,
  setNotify,
  WANTS_HINTS,
} from '../../packages/holdfast/src/fleet/wake.js';
import { holdfast, job } from '../../packages/holdfast/src/index.js';
import { bucketOf } from '../../packages/holdfast/src/job/key.js';
import type { Names } from '../../packages/holdfast/src/postgres/names.js';
import { engineExecutor } from '../../packages/holdfast/src/postgres/queryable.js';
import { INBOX, testDatabase } from '../support/database.js';
import { asAdmin } from '../support/empty-database.js';
import { quietLogger } from '../support/logger.js';
import { until } from '../support/until.js';

const db = testDatabase();
const work = job<{ n?: number; secret?: string }>('work');
const ORDERS = { schema: 'holdfast', queue: 'orders' } as const;
const step = job<{ secret?: string }>('step', { queue: 'orders' });
/** Session locks on this database; others run beside this one. */
const LOCKS = `SELECT pid FROM pg_locks WHERE locktype = 'advisory'
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`;
/** Tenths of a second since 1970, and of which types the jobs are. */
const TIME = /^\d{11}:(work|send)$/;

/** A worker's session: it listens, and waits for hints when it is told to. */
async function session(names: Names = INBOX) {
  const channel = await channelOf(db.plain, names);
  const client = new pg.Client({ connectionString: db.url });
  await client.connect();
  client.on('error', () => undefined);
  onTestFinished(() => client.end());
  const heard: string[] = [];
  client.on('notification', ({ payload }) => void heard.push(payload ?? ''));
  await client.query(`LISTEN "${channel}"`);
  const on = engineExecutor(client, { prepare: false });
  return {
    client,
    wait: () => holdQueueLock(on, names, WANTS_HINTS),
    waitNoMore: () => leaveQueueLock(on, names, WANTS_HINTS),
    /** As a worker that listens, and was not active in any queue lately. */
    listen: () => holdListening(on, names),
    beActive: () => holdQueueLock(on, names, ACTIVE),
    beQuiet: () => leaveQueueLock(on, names, ACTIVE),
    /** Everything that was said to it so far: notifications come in the order of their commits. */
    async told(): Promise<string[]> {
      const end = `end ${randomBytes(6).toString('hex')}`;
      await db.rows('SELECT pg_notify($1, $2)', [channel, end]);
      await until('the last word', () => heard.includes(end));
      return heard.splice(0).filter((word) => !word.startsWith('end'));
    },
  };
}

async function waiting(names: Names = INBOX) {
  const one = await session(names);
  await one.wait();
  return one;
}

async function keyed(): Promise<void> {
  await db.hf.createQueue('orders', { ordering: 'key' });
  onTestFinished(async () => void (await db.rows('DELETE FROM holdfast.orders')));
}

async function transaction() {
  const client = new pg.Client({ connectionString: db.url });
  await client.connect();
  onTestFinished(() => client.end());
  await client.query('BEGIN');
  return client;
}

afterEach(() => db.rows('DELETE FROM holdfast.inbox'));

describe('an insert', () => {
  test('tells all who listen as soon as one of them waits, and nobody before', async () => {
    const [ann, bob] = [await session(), await session()];
    await db.hf.enqueue(work, {});
    expect([await ann.told(), await bob.told()]).toEqual([[], []]);
    await ann.wait();
    await bob.wait();
    await ann.waitNoMore();
    await db.hf.enqueue(work, {});
    for (const one of [ann, bob]) expect(await one.told()).toEqual([expect.stringMatching(TIME)]);
    await bob.waitNoMore();
    await db.hf.enqueue(work, {});
    expect([await ann.told(), await bob.told()]).toEqual([[], []]);
  });

  test('tells nobody when the session of the only one who waited has ended', async () => {
    const [ann, bob] = [await waiting(), await session()];
    await ann.client.end();
    await until('the lock is gone', async () => (await db.rows(LOCKS)).length === 0);
    await db.hf.enqueue(work, {});
    expect(await bob.told()).toEqual([]);
  });

  test('into a queue in which nobody is active tells whoever listens at all', async () => {
    const [ann, bob] = [await session(), await session()];
    await ann.listen();
    await db.hf.enqueue(work, {});
    for (const one of [ann, bob]) expect(await one.told()).toHaveLength(1);
    // Whoever is active there says whether hints are wanted.
    await bob.beActive();
    await db.hf.enqueue(work, {});
    expect(await ann.told()).toEqual([]);
    await bob.wait();
    await db.hf.enqueue(work, {});
    expect(await ann.told()).toHaveLength(1);
    await bob.waitNoMore();
    await bob.beQuiet();
    await db.hf.enqueue(work, {});
    expect(await ann.told()).toHaveLength(1);
    expect((await db.rows(LOCKS)).length, 'the insert left no lock').toBe(1);
  });

  test('of many types names them, up to twenty', async () => {
    const ann = await waiting();
    const types = Array.from({ length: 21 }, (_, n) => job(`type${n}`));
    await db.hf.enqueueMany([types[1], types[0], types[1]].map((type) => type?.item({}) as never));
    await db.hf.enqueueMany(types.map((type) => type.item({})));
    const [two, many] = (await ann.told()).map((word) => word.split(':')[1]);
    expect([two, many]).toEqual(['type0,type1', '*']);
  });

  test('of many jobs in one statement is told once, with the time of the first', async () => {
    const ann = await waiting();
    const from = Math.floor(Date.now() / 100);
    await db.hf.enqueueMany([3_000, 1_000, 2_000].map((delay) => work.item({}, { delay })));
    await db.hf.enqueueMany(Array.from({ length: 3_000 }, (_, n) => work.item({ n })));
    const told = (await ann.told()).map((word) => Number(word.split(':')[0]));
    const [first, second, ...more] = told as [number, number];
    expect(more).toEqual([]);
    expect(first - from).toBeGreaterThanOrEqual(10);
    expect(first - from).toBeLessThan(25);
    expect(second - from).toBeLessThan(25);
  });

  test('into a queue that is read by key is told with its buckets, or with * when they are many', async () => {
    await keyed();
    const ann = await waiting(ORDERS);
    const keys = ['a', 'b', 'c', 'a'];
    await db.hf.enqueueMany(keys.map((key) => step.item({}, { partitionKey: key })));
    await db.hf.enqueueMany(
      Array.from({ length: 200 }, (_, n) => step.item({}, { partitionKey: `k${n}` })),
    );
    const [few, many, ...more] = (await ann.told()).map((word) => word.split(':')) as string[][];
    expect(more).toEqual([]);
    for (const word of [few, many]) expect(word?.[0]).toMatch(/^\d{11}$/);
    const buckets = few?.[1]?.split(',').map(Number);
    expect(buckets).toHaveLength(3);
    expect(new Set(buckets)).toEqual(new Set(keys.map(bucketOf)));
    expect(many?.[1]).toBe('*');
  });

  test('of a job that is due within a minute is told; of a later one it is not', async () => {
    const ann = await waiting();
    await db.hf.enqueue(work, {}, { delay: '1h' });
    await db.hf.enqueueMany([1, 2].map(() => work.item({}, { delay: '70s' })));
    expect(await ann.told()).toEqual([]);
    await db.hf.enqueue(work, {}, { delay: '50s' });
    const tx = await transaction();
    await tx.query('SELECT now()');
    await db.hf.enqueue(work, {}, { tx });
    await tx.query('COMMIT');
    expect(await ann.told()).toHaveLength(2);
  });

  test('that is rolled back was never heard', async () => {
    const ann = await waiting();
    const tx = await transaction();
    await db.hf.enqueue(work, {}, { tx });
    await tx.query('ROLLBACK');
    expect(await ann.told()).toEqual([]);
  });

  test('is heard at its commit, however late that comes, with the time from which it is due', async () => {
    const ann = await waiting();
    const tx = await transaction();
    const { id } = await db.hf.enqueue(work, {}, { tx });
    expect(await ann.told()).toEqual([]);
    await tx.query('COMMIT');
    const [row] = await db.rows<{ at: string }>(
      'SELECT floor(extract(epoch FROM available_at) * 10)::text AS at FROM holdfast.inbox WHERE id = $1',
      [id],
    );
    expect(await ann.told()).toEqual([`${row?.at}:work`]);
  });

  test('is heard whichever way it came in', async () => {
    const ann = await waiting();
    await db.hf.enqueue(work, {}, { idempotencyKey: 'k' });
    await db.hf.enqueue(work, {}, { idempotencyKey: 'k' });
    await db.rows(`SELECT holdfast.inbox_enqueue('work', '{}', partition_key => 'k')`);
    await db.rows(
      `INSERT INTO holdfast.inbox (type, partition_key, partition_bucket, payload)
       VALUES ('work', 'k', $1, '{}')`,
      [bucketOf('k')],
    );
    const told = await ann.told();
    expect(told).toHaveLength(3);
    for (const word of told) expect(word).toMatch(TIME);
  });

  test.each([
    ['holdfast', 'inbox'],
    ['holdfast', 'parcels'],
    ['other', 'inbox'],
    ['other', 'parcels'],
  ])(
    'into %s.%s is not heard where holdfast.notify is off, as for two-phase commits',
    async (schema, queue) => {
      const hf = holdfast({ connectionString: db.url, schema, logger: quietLogger });
      onTestFinished(() => hf.close());
      await hf.migrate();
      if (queue !== 'inbox') await hf.createQueue(queue);
      const ann = await waiting({ schema, queue });
      const send = job<object>('send', { queue });
      const tx = await transaction();
      await tx.query("SET LOCAL holdfast.notify = 'off'");
      const { id } = await hf.enqueue(send, {}, { tx });
      await hf.update(id, { delay: 0 }, { tx, queue });
      await tx.query('COMMIT');
      expect(await ann.told()).toEqual([]);
      await hf.enqueue(send, {});
      expect(await ann.told()).toHaveLength(1);
      await db.rows(`DELETE FROM ${schema}.${queue}`);
    },
  );

  test('says nothing of what is in the job', async () => {
    await keyed();
    const [ann, bob] = [await waiting(), await waiting(ORDERS)];
    const headers = { secret: 'canary-4711' };
    await db.hf.enqueue(work, { secret: 'canary-4711' }, { partitionKey: 'canary-4711', headers });
    const items = Array.from({ length: 40 }, (_, n) =>
      step.item({ secret: 'canary-4711' }, { partitionKey: `canary-4711:${n}` }),
    );
    await db.hf.enqueueMany(items);
    expect(await ann.told()).toEqual([expect.stringMatching(TIME)]);
    expect(await bob.told()).toEqual([expect.stringMatching(/^\d{11}:[\d,]+$/)]);
  });
});

describe('a producer', () => {
  async function role(grants: string): Promise<pg.Client> {
    const user = `holdfast_test_${randomBytes(4).toString('hex')}`;
    await db.rows(
      `CREATE ROLE ${user} LOGIN PASSWORD 'secret'; ${grants.replaceAll('$user', user)}`,
    );
    const url = new URL(db.url);
    [url.username, url.password] = [user, 'secret'];
    const client = new pg.Client({ connectionString: url.toString() });
    await client.connect();
    onTestFinished(async () => {
      await client.end();
      await db.rows(`DROP OWNED BY ${user}`);
      await asAdmin((admin) => admin.query(`DROP ROLE ${user}`));
    });
    return client;
  }
  const INSERT = `(type, partition_key, partition_bucket, payload)
    VALUES ('work', 'k', ${bucketOf('k')}, '{}')`;

  test('with no right but INSERT wakes a worker', async () => {
    const ann = await waiting();
    const client = await role(`GRANT USAGE ON SCHEMA holdfast TO $user;
      GRANT INSERT ON holdfast.inbox TO $user; GRANT USAGE ON holdfast.inbox_position_seq TO $user`);
    await client.query(`INSERT INTO holdfast.inbox ${INSERT}`);
    await client.query(`INSERT INTO holdfast.inbox ${INSERT}, ('work', 'k', 0, '{}')`);
    expect(await ann.told()).toHaveLength(2);
    await expect(client.query('SELECT id FROM holdfast.inbox')).rejects.toMatchObject({
      code: '42501',
    });
  });

  test('that sees the queue only through a view of the owner wakes a worker', async () => {
    const ann = await waiting();
    const client = await role(`CREATE SCHEMA app; GRANT USAGE ON SCHEMA app TO $user;
      CREATE VIEW app.jobs AS SELECT type, partition_key, partition_bucket, payload FROM holdfast.inbox;
      GRANT INSERT ON app.jobs TO $user; GRANT USAGE ON holdfast.inbox_position_seq TO $user`);
    await client.query(`INSERT INTO app.jobs ${INSERT}`);
    expect(await ann.told()).toHaveLength(1);
  });

  test.each(['inbox', 'orders'])(
    'cannot have the functions behind an insert into %s use operators of its own',
    async (queue) => {
      await keyed();
      const ann = await waiting({ schema: 'holdfast', queue });
      const client = await role(`GRANT USAGE ON SCHEMA holdfast TO $user;
        CREATE SCHEMA evil AUTHORIZATION $user; GRANT INSERT ON holdfast.${queue} TO $user;
        GRANT USAGE ON holdfast.${queue}_position_seq TO $user`);
      onTestFinished(async () => void (await db.rows('DROP SCHEMA IF EXISTS evil CASCADE')));
      const alike = ['text', 'holdfast.inbox_status', 'timestamptz', 'bigint', 'integer', 'float8'];
      const pairs = [...alike.map((type) => [type, type]), ['bigint', 'integer']];
      for (const [n, [left, right]] of [...pairs, ['timestamptz', 'interval']].entries()) {
        await client.query(`CREATE FUNCTION evil.f${n}(${left}, ${right}) RETURNS boolean
          LANGUAGE plpgsql AS $$ BEGIN RAISE 'hijacked'; END $$`);
        const sides = `LEFTARG = ${left}, RIGHTARG = ${right}`;
        for (const name of ['=', '<>', '<', '>', '>=', '+', '*'])
          await client.query(`CREATE OPERATOR evil.${name} (FUNCTION = evil.f${n}, ${sides})`);
      }
      await client.query('SET search_path = evil, pg_catalog');
      await client.query(`INSERT INTO holdfast.${queue} ${INSERT}`);
      await client.query(`INSERT INTO holdfast.${queue} ${INSERT}, ('work', 'k', 0, '{}')`);
      expect(await ann.told()).toHaveLength(2);
    },
  );

  test.each(['inbox', 'orders'])(
    'cannot have the functions behind an insert into %s use temporary types of its own',
    async (queue) => {
      await keyed();
      const ann = await waiting({ schema: 'holdfast', queue });
      const client = await role(`GRANT USAGE ON SCHEMA holdfast TO $user;
        GRANT INSERT ON holdfast.${queue} TO $user;
        GRANT USAGE ON holdfast.${queue}_position_seq TO $user`);
      await client.query(`CREATE FUNCTION pg_temp.hijack() RETURNS boolean
        LANGUAGE plpgsql AS $$ BEGIN RAISE 'hijacked'; END $$`);
      // Where a function names no schema for a type, the temporary one comes first.
      for (const name of ['text', 'timestamptz', 'int4', 'int8', 'float8', 'bool', 'uuid', 'jsonb'])
        await client.query(
          `CREATE DOMAIN pg_temp.${name} AS pg_catalog.${name} CHECK (pg_temp.hijack())`,
        );
      await client.query(`INSERT INTO holdfast.${queue} ${INSERT}`);
      expect(await ann.told()).toHaveLength(1);
    },
  );

  test('cannot hang the function on a table of its own, where it would run with the rights of the owner', async () => {
    const client = await role(`GRANT USAGE ON SCHEMA holdfast TO $user`);
    await client.query(
      'CREATE TEMP TABLE mine (type text, partition_bucket int, available_at timestamptz)',
    );
    const attempt = client.query(`CREATE TRIGGER wake AFTER INSERT ON mine
      REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION holdfast.inbox_wake()`);
    await expect(attempt).rejects.toMatchObject({ code: '42501' });
  });
});

test('a queue tells those who wait for its own jobs', async () => {
  await db.hf.createQueue('outbox');
  const [ann, bob] = [await session(), await waiting({ schema: 'holdfast', queue: 'outbox' })];
  await db.hf.enqueue(work, {});
  await db.hf.enqueue(job('send', { queue: 'outbox' }), {});
  expect([await ann.told(), await bob.told()]).toEqual([[], [expect.stringMatching(TIME)]]);
});

test('notifications of a queue can be switched off and on again', async () => {
  const ann = await waiting();
  const admin = new pg.Client({ connectionString: db.url });
  await admin.connect();
  onTestFinished(() => admin.end());
  await setNotify(admin, INBOX, false);
  await db.hf.enqueue(work, {});
  const back = { runAt: '2020-01-01 00:00:00+00', partitionBucket: 7 };
  await hintQueue(db.plain, INBOX, [back]);
  expect(await ann.told()).toEqual([]);
  await setNotify(admin, INBOX, true);
  await db.hf.enqueue(work, {});
  await hintQueue(db.plain, INBOX, [back]);
  expect(await ann.told()).toEqual([expect.stringMatching(TIME), '15778368000:7']);
  const missing = setNotify(admin, { schema: 'holdfast', queue: 'nowhere' }, false);
  await expect(missing).rejects.toMatchObject({ code: 'QUEUE_UNKNOWN' });
});
