/**
 * Who is notified of an insert: the owner of the bucket, if it sleeps, at the commit, and nobody else. An
 * insert itself needs no right for it and cannot fail by it.
 */
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import {
  channelOf,
  FLEET_CHANNEL,
  fallAsleep,
  getUp,
  publishRing,
  setNotify,
  tellOwners,
} from '../src/fleet/wake.js';
import { job } from '../src/index.js';
import { bucketOf } from '../src/job/key.js';
import type { Names } from '../src/postgres/names.js';
import { engineExecutor } from '../src/postgres/queryable.js';
import { INBOX, testDatabase } from './support/database.js';
import { asAdmin } from './support/empty-database.js';
import { until } from './support/until.js';

const db = testDatabase();
const work = job<{ n?: number; secret?: string }>('work');
const [ANN, BOB] = [101, -202];
/** Session locks on this database; others run beside this one. */
const LOCKS = `SELECT pid FROM pg_locks WHERE locktype = 'advisory'
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`;
let epoch = 0;

/** Ann owns the even buckets and Bob the odd ones. */
const halves = Array.from({ length: 1024 }, (_, bucket) => (bucket % 2 === 0 ? ANN : BOB));
const publish = (types: string[] | null = null, owners: readonly (number | null)[] = halves) =>
  publishRing(db.plain, INBOX, ++epoch, [{ types, owners }]);

const keyOf = (parity: 0 | 1, from = 0): string => {
  for (let n = from; ; n++) if (bucketOf(`key:${n}`) % 2 === parity) return `key:${n}`;
};
const [even, odd] = [keyOf(0), keyOf(1)];

/** A worker's session: it listens, and sleeps when it is told to. */
async function session(lockKey: number, names: Names = INBOX) {
  const client = new pg.Client({ connectionString: db.url });
  await client.connect();
  client.on('error', () => undefined);
  onTestFinished(() => client.end());
  const heard: string[] = [];
  client.on('notification', ({ payload }) => void heard.push(payload ?? ''));
  await client.query(`LISTEN "${channelOf(lockKey)}"`);
  const on = engineExecutor(client, { prepare: false });
  return {
    client,
    sleep: async () => expect(await fallAsleep(on, names, lockKey)).toBe(true),
    rise: async () => expect(await getUp(on, names, lockKey)).toBe(true),
    /** Everything that was said to it so far: notifications come in the order of their commits. */
    async told(): Promise<string[]> {
      const end = randomBytes(6).toString('hex');
      await db.rows('SELECT pg_notify($1, $2)', [channelOf(lockKey), end]);
      await until('the last word', () => heard.includes(end));
      return heard.splice(0).filter((word) => word !== end);
    },
  };
}

async function transaction() {
  const client = new pg.Client({ connectionString: db.url });
  await client.connect();
  onTestFinished(() => client.end());
  await client.query('BEGIN');
  return client;
}

beforeEach(() => publish());
afterEach(() => db.rows('DELETE FROM holdfast.inbox'));

describe('an insert', () => {
  test('tells the owner of its bucket, and only while that one sleeps', async () => {
    const [ann, bob] = [await session(ANN), await session(BOB)];
    await db.hf.enqueue(work, {}, { key: even });
    await ann.sleep();
    await db.hf.enqueue(work, {}, { key: odd });
    expect([await ann.told(), await bob.told()]).toEqual([[], []]);
    await db.hf.enqueue(work, {}, { key: even });
    expect([await ann.told(), await bob.told()]).toEqual([[`inbox:${bucketOf(even)}`], []]);
    await bob.sleep();
    await ann.rise();
    await db.hf.enqueue(work, {}, { key: even });
    await db.hf.enqueue(work, {}, { key: odd });
    expect([await ann.told(), await bob.told()]).toEqual([[], [`inbox:${bucketOf(odd)}`]]);
  });

  test('tells nobody whose session has ended', async () => {
    const ann = await session(ANN);
    const other = await session(ANN);
    await ann.sleep();
    await ann.client.end();
    await until('the lock is gone', async () => {
      return (await db.rows(LOCKS)).length === 0;
    });
    await db.hf.enqueue(work, {}, { key: even });
    expect(await other.told()).toEqual([]);
  });

  test('of several jobs in one statement is told once, with their buckets', async () => {
    const ann = await session(ANN);
    await ann.sleep();
    const keys = [even, keyOf(0, 100), even, odd];
    await db.hf.enqueueMany(keys.map((key) => work.of({}, { key })));
    const [word, ...more] = await ann.told();
    expect(more).toEqual([]);
    const buckets = word?.replace('inbox:', '').split(',').map(Number);
    expect(new Set(buckets)).toEqual(new Set([bucketOf(even), bucketOf(keyOf(0, 100))]));
    expect(buckets).toHaveLength(2);
  });

  test('of thousands of jobs is told once to each owner, to look everywhere', async () => {
    const [ann, bob] = [await session(ANN), await session(BOB)];
    await ann.sleep();
    await bob.sleep();
    await db.hf.enqueueMany(Array.from({ length: 3_000 }, (_, n) => work.of({ n })));
    expect([await ann.told(), await bob.told()]).toEqual([['inbox:*'], ['inbox:*']]);
  });

  test('of a job for later tells nobody; of one that is due by its own statement it does', async () => {
    const ann = await session(ANN);
    await ann.sleep();
    await db.hf.enqueue(work, {}, { key: even, delay: '1s' });
    await db.hf.enqueueMany([1, 2].map(() => work.of({}, { key: even, delay: '1h' })));
    expect(await ann.told()).toEqual([]);
    const tx = await transaction();
    await tx.query('SELECT now()');
    await db.hf.enqueue(work, {}, { key: even, tx });
    await tx.query('COMMIT');
    expect(await ann.told()).toHaveLength(1);
  });

  test('that is rolled back was never heard', async () => {
    const ann = await session(ANN);
    await ann.sleep();
    const tx = await transaction();
    await db.hf.enqueue(work, {}, { key: even, tx });
    await tx.query('ROLLBACK');
    expect(await ann.told()).toEqual([]);
  });

  test('is heard at its commit, however late that comes', async () => {
    const ann = await session(ANN);
    await ann.sleep();
    const tx = await transaction();
    await db.hf.enqueue(work, {}, { key: even, tx });
    expect(await ann.told()).toEqual([]);
    await tx.query('COMMIT');
    expect(await ann.told()).toEqual([`inbox:${bucketOf(even)}`]);
  });

  test('is heard whichever way it came in', async () => {
    const ann = await session(ANN);
    await ann.sleep();
    await db.hf.enqueue(work, {}, { key: even, idempotencyKey: 'k' });
    await db.hf.enqueue(work, {}, { key: even, idempotencyKey: 'k' });
    await db.rows(`SELECT holdfast.inbox_enqueue('work', '{}', key => $1)`, [even]);
    await db.rows(
      `INSERT INTO holdfast.inbox (type, partition_key, partition_bucket, payload)
       VALUES ('work', $1, $2, '{}')`,
      [even, bucketOf(even)],
    );
    expect(await ann.told()).toEqual(Array(3).fill(`inbox:${bucketOf(even)}`));
  });

  test('says nothing of what is in the job', async () => {
    const ann = await session(ANN);
    await ann.sleep();
    const headers = { secret: 'canary-4711' };
    await db.hf.enqueue(work, { secret: 'canary-4711' }, { key: even, headers });
    const keys = Array.from({ length: 40 }, (_, n) =>
      work.of({ secret: 'canary-4711' }, { key: `canary-4711:${n}` }),
    );
    await db.hf.enqueueMany(keys);
    const told = await ann.told();
    expect(told).toHaveLength(2);
    for (const word of told) expect(word).toMatch(/^inbox:[\d,]+$/);
  });
});

describe('the published ring', () => {
  test('speaks of the types that it names', async () => {
    const ann = await session(ANN);
    await ann.sleep();
    await publish(['other', 'work']);
    await db.hf.enqueue(work, {}, { key: even });
    await publish(['other']);
    await db.hf.enqueue(work, {}, { key: even });
    await db.hf.enqueueMany([1, 2].map(() => work.of({}, { key: even })));
    expect(await ann.told()).toHaveLength(1);
  });

  test('may be missing, or have no owner for a bucket: the insert goes through, and nobody is told', async () => {
    const ann = await session(ANN);
    await ann.sleep();
    await publish(null, Array(1024).fill(null));
    await db.hf.enqueue(work, {}, { key: even });
    await db.hf.enqueueMany([1, 2].map(() => work.of({}, { key: even })));
    await db.rows('DELETE FROM holdfast.inbox_ring');
    await db.hf.enqueue(work, {}, { key: even });
    await db.hf.enqueueMany([1, 2].map(() => work.of({}, { key: even })));
    expect(await ann.told()).toEqual([]);
    expect(await db.rows('SELECT id FROM holdfast.inbox')).toHaveLength(6);
  });

  test('is replaced by a later epoch as a whole, and by no earlier one', async () => {
    const parts = () =>
      db.rows(
        'SELECT types, owners[1] AS first, epoch::int FROM holdfast.inbox_ring ORDER BY part',
      );
    const ring = (at: number, ...types: string[]) =>
      publishRing(
        db.plain,
        INBOX,
        at,
        types.map((type) => ({ types: [type], owners: Array(1024).fill(at) })),
      );
    epoch += 10;
    const at = epoch;
    await ring(at, 'a', 'b', 'c');
    expect(await ring(at, 'x')).toBe(false);
    expect(await ring(at - 1, 'x')).toBe(false);
    expect(await parts()).toEqual(
      ['a', 'b', 'c'].map((type) => ({ types: [type], first: at, epoch: at })),
    );
    expect(await ring(at + 1, 'd')).toBe(true);
    expect(await parts()).toEqual([{ types: ['d'], first: at + 1, epoch: at + 1 }]);
    epoch++;
  });

  test('is the newest one after many workers have published at once', async () => {
    const from = epoch;
    await Promise.all(
      Array.from({ length: 24 }, (_, n) => {
        const at = from + 1 + Math.floor(n / 4);
        const groups = Array.from({ length: 1 + (at % 3) }, (_, part) => ({
          types: [`${at}.${part}`],
          owners: Array(1024).fill(at),
        }));
        return publishRing(db.plain, INBOX, at, groups);
      }),
    );
    epoch = from + 6;
    const newest = await db.rows<{ epoch: number }>(
      'SELECT epoch::int FROM holdfast.inbox_ring WHERE part = 0',
    );
    expect(newest).toEqual([{ epoch }]);
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
    VALUES ('work', '${even}', ${bucketOf(even)}, '{}')`;

  test('with no right but INSERT wakes a sleeper', async () => {
    const ann = await session(ANN);
    await ann.sleep();
    const client = await role(`GRANT USAGE ON SCHEMA holdfast TO $user;
      GRANT INSERT ON holdfast.inbox TO $user; GRANT USAGE ON holdfast.inbox_position_seq TO $user`);
    await client.query(`INSERT INTO holdfast.inbox ${INSERT}`);
    await client.query(`INSERT INTO holdfast.inbox ${INSERT}, ('work', 'k', 0, '{}')`);
    expect(await ann.told()).toHaveLength(2);
    await expect(client.query('SELECT types FROM holdfast.inbox_ring')).rejects.toMatchObject({
      code: '42501',
    });
  });

  test('that sees the queue only through a view of the owner wakes a sleeper', async () => {
    const ann = await session(ANN);
    await ann.sleep();
    const client = await role(`CREATE SCHEMA app; GRANT USAGE ON SCHEMA app TO $user;
      CREATE VIEW app.jobs AS SELECT type, partition_key, partition_bucket, payload FROM holdfast.inbox;
      GRANT INSERT ON app.jobs TO $user; GRANT USAGE ON holdfast.inbox_position_seq TO $user`);
    await client.query(`INSERT INTO app.jobs ${INSERT}`);
    expect(await ann.told()).toHaveLength(1);
  });

  test('cannot have the functions behind an insert use operators of its own', async () => {
    const ann = await session(ANN);
    await ann.sleep();
    const client =
      await role(`GRANT USAGE ON SCHEMA holdfast TO $user; CREATE SCHEMA evil AUTHORIZATION $user;
      GRANT INSERT ON holdfast.inbox TO $user; GRANT USAGE ON holdfast.inbox_position_seq TO $user`);
    onTestFinished(() => void db.rows('DROP SCHEMA IF EXISTS evil CASCADE'));
    const pairs = ['text, text', 'holdfast.inbox_status, holdfast.inbox_status'];
    for (const [n, pair] of [...pairs, 'holdfast.ordering, holdfast.ordering'].entries()) {
      await client.query(`CREATE FUNCTION evil.f${n}(${pair}) RETURNS boolean LANGUAGE plpgsql AS
        $$ BEGIN RAISE 'hijacked'; END $$`);
      const [left, right] = pair.split(', ');
      for (const name of ['=', '<>']) {
        const sides = `LEFTARG = ${left}, RIGHTARG = ${right}`;
        await client.query(`CREATE OPERATOR evil.${name} (FUNCTION = evil.f${n}, ${sides})`);
      }
    }
    await client.query('SET search_path = evil, pg_catalog');
    await client.query(`INSERT INTO holdfast.inbox ${INSERT}`);
    await client.query(`INSERT INTO holdfast.inbox ${INSERT}, ('work', 'k', 0, '{}')`);
    expect(await ann.told()).toHaveLength(2);
  });

  test('of a job that is not due tells nobody at all', async () => {
    const ann = await session(ANN);
    await ann.sleep();
    const everybody = new pg.Client({ connectionString: db.url });
    const heard: string[] = [];
    everybody.on('notification', ({ channel }) => heard.push(channel));
    await everybody.connect();
    onTestFinished(() => everybody.end());
    await everybody.query('LISTEN holdfast_');
    await db.hf.enqueue(work, {}, { key: even, delay: '1h' });
    await everybody.query('SELECT 1');
    expect(heard).toEqual([]);
    expect(await ann.told()).toEqual([]);
  });

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

test('a queue tells its own sleepers, by its own name', async () => {
  await db.hf.createQueue('outbox');
  const OUTBOX = { schema: 'holdfast', queue: 'outbox' };
  await publishRing(db.plain, OUTBOX, 1, [{ types: null, owners: halves }]);
  const ann = await session(ANN, OUTBOX);
  await ann.sleep();
  await db.hf.enqueue(work, {}, { key: even });
  await db.hf.enqueue(job('send', { queue: 'outbox' }), {}, { key: even });
  expect(await ann.told()).toEqual([`outbox:${bucketOf(even)}`]);
});

test('notifications of a queue can be switched off and on again', async () => {
  const ann = await session(ANN);
  await ann.client.query(`LISTEN ${FLEET_CHANNEL}`);
  await ann.sleep();
  const admin = new pg.Client({ connectionString: db.url });
  await admin.connect();
  onTestFinished(() => admin.end());
  await setNotify(admin, INBOX, false);
  await db.hf.enqueue(work, {}, { key: even });
  await tellOwners(db.plain, INBOX, [7]);
  expect(await ann.told()).toEqual([]);
  await setNotify(admin, INBOX, true);
  await db.hf.enqueue(work, {}, { key: even });
  await tellOwners(db.plain, INBOX, [7, 3, 7]);
  expect(await ann.told()).toEqual([`inbox:${bucketOf(even)}`, 'holdfast:inbox:7,3']);
  const missing = setNotify(admin, { schema: 'holdfast', queue: 'nowhere' }, false);
  await expect(missing).rejects.toMatchObject({ code: 'QUEUE_UNKNOWN' });
});
