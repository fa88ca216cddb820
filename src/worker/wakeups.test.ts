/** The loop side of waking: wishes become locks; losses and floods get sleepers up. */
import { afterEach, expect, onTestFinished, test } from 'vitest';
import { INBOX, testDatabase } from '../../test/support/database.js';
import { until } from '../../test/support/until.js';
import { lockKeyOf, register } from '../fleet/registry.js';
import { job } from '../job/job.js';
import { bucketOf } from '../job/key.js';
import { RingPublisher } from './ring-publisher.js';
import { Wakeups, type WakeupsGround } from './wakeups.js';

const db = testDatabase();
const work = job('work');
const bucket = bucketOf('key');
let epoch = 0;

/** The locks of sleepers: of the queue's table, and in this database. */
const LOCKS = `SELECT l.objid::integer AS key FROM pg_locks AS l
  WHERE l.locktype = 'advisory' AND l.classid = 'holdfast.inbox'::regclass
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`;
const SESSIONS = `SELECT pid FROM pg_stat_activity
  WHERE application_name = 'holdfast listener' AND datname = current_database()`;

const sleepers = async () => (await db.rows<{ key: number }>(LOCKS)).filter(({ key }) => key !== 0);

afterEach(() => db.rows('DELETE FROM holdfast.inbox'));

/** The only worker of the queue, with a listener. */
async function wakeups(workerId: string, options: Partial<WakeupsGround> = {}) {
  const seen = {
    hints: [] as (readonly number[] | null)[],
    risen: 0,
    changes: 0,
    troubles: [] as string[],
  };
  const wakeups = new Wakeups({
    connectionString: db.url,
    on: true,
    liveness: true,
    schema: 'holdfast',
    queues: ['inbox'],
    workerId,
    other: db.plain,
    hint: (_, buckets) => void seen.hints.push(buckets),
    risen: () => void seen.risen++,
    fleetChanged: () => void seen.changes++,
    trouble: (what, error) => void seen.troubles.push(`${what}: ${(error as Error).message}`),
    ...options,
  });
  wakeups.start();
  onTestFinished(() => wakeups.stop());
  await own(wakeups, workerId);
  if (options.on !== false) await until('it listens', () => wakeups.listening());
  return { wakeups, seen };
}

async function own(on: Wakeups, workerId: string): Promise<void> {
  const key = lockKeyOf(workerId);
  on.publish('inbox', ++epoch, [{ types: null, owners: Array(1024).fill(key) }]);
  await until('the ring is published', async () => {
    const [row] = await db.rows('SELECT owners[1] AS first FROM holdfast.inbox_ring');
    return row?.first === key;
  });
}

const enqueue = () => db.hf.enqueue(work, {}, { key: 'key' });

test('asleep it is told of the bucket of every job; awake it is not', async () => {
  const { wakeups: on, seen } = await wakeups('one');
  expect(await on.sleep('inbox')).toBe(true);
  expect(await on.sleep('inbox')).toBe(true);
  await enqueue();
  await until('a hint', () => seen.hints.length > 0);
  on.rise('inbox');
  on.rise('inbox');
  await until('it is awake', async () => (await sleepers()).length === 0);
  await enqueue();
  await on.sleep('inbox');
  await enqueue();
  await until('another hint', () => seen.hints.length > 1);
  expect(seen.hints).toEqual([[bucket], [bucket]]);
  expect(seen.troubles).toEqual([]);
});

test('the last wish wins, however fast they come, and every wish is answered', async () => {
  const { wakeups: on } = await wakeups('two');
  const answers: Promise<boolean>[] = [];
  for (let n = 0; n < 500; n++) {
    answers.push(on.sleep('inbox'));
    if (n % 5 === 0) await Promise.resolve();
    if (n % 50 === 49) await answers.at(-1);
    on.rise('inbox');
  }
  expect(await Promise.all(answers)).toHaveLength(500);
  await until('it is awake', async () => (await sleepers()).length === 0);
  expect(await on.sleep('inbox')).toBe(true);
  expect(await sleepers()).toEqual([{ key: lockKeyOf('two') }]);
  on.rise('inbox');
  await until('all its locks are gone', async () => (await db.rows(LOCKS)).length === 0);
});

test('a lost session gets it up, to look everywhere; it sleeps and hears again on the next one', async () => {
  const { wakeups: on, seen } = await wakeups('three');
  await on.sleep('inbox');
  await db.rows(`SELECT pg_terminate_backend(pid) FROM (${SESSIONS}) AS s`);
  await until('it is up', () => seen.risen === 1);
  expect(seen.hints).toEqual([null]);
  await until('it listens again', () => on.listening());
  expect(seen.changes).toBe(2);
  expect(await on.sleep('inbox')).toBe(true);
  await enqueue();
  await until('a hint', () => seen.hints.length > 1);
  expect(seen.hints[1]).toEqual([bucket]);
});

test('a flood of notifications gets it up, and it stays up for a while', async () => {
  const { wakeups: on, seen } = await wakeups('four');
  await on.sleep('inbox');
  await db.rows(`SELECT pg_notify($1, 'inbox:' || n) FROM generate_series(1, 60) AS n`, [
    `holdfast_${lockKeyOf('four')}`,
  ]);
  await until('it is up', () => seen.risen === 1);
  expect(on.maySleep('inbox')).toBe(false);
  expect(await on.sleep('inbox')).toBe(false);
  expect(seen.hints).toContain(null);
  await until('no lock is left', async () => (await sleepers()).length === 0);
});

test('under a new id it sleeps and is woken under that one', async () => {
  const { wakeups: on, seen } = await wakeups('six');
  await on.sleep('inbox');
  on.identify('seven');
  await until('it is up', () => seen.risen === 1);
  await until('it listens', () => on.listening());
  await own(on, 'seven');
  await on.sleep('inbox');
  expect(await sleepers()).toEqual([{ key: lockKeyOf('seven') }]);
  await enqueue();
  await until('a hint', () => seen.hints.length > 1);
  expect(seen.troubles).toEqual([]);
});

test('a change of the membership is heard', async () => {
  const { seen } = await wakeups('eight');
  const before = seen.changes;
  await register(db.engine, INBOX, { id: 'new', lockKey: 1, handles: {}, metadata: {} });
  await until('it was told', () => seen.changes > before);
});

test('switched off it neither listens nor sleeps, and still tells others who owns what', async () => {
  const { wakeups: on } = await wakeups('nine', { on: false });
  expect(on.listening()).toBe(false);
  expect(await on.sleep('inbox')).toBe(false);
  on.rise('inbox');
  expect(await db.rows(SESSIONS)).toEqual([]);
});

test('a ring that could not be published is told, and published a little later, or when the fleet is next read', async () => {
  const troubles: string[] = [];
  let away = true;
  let retryMs = 60_000;
  const publisher = new RingPublisher({
    db: { run: (...args) => (away ? Promise.reject(new Error('away')) : db.plain.run(...args)) },
    schema: 'holdfast',
    trouble: (what, error) => void troubles.push(`${what}: ${(error as Error).message}`),
    get retryMs() {
      return retryMs;
    },
  });
  onTestFinished(() => publisher.stop());
  const publish = (at: number) =>
    publisher.publish('inbox', at, [{ types: null, owners: Array(1024).fill(at) }]);
  const published = (at: number) =>
    until('it is published', async () => {
      const [row] = await db.rows('SELECT owners[1] AS first FROM holdfast.inbox_ring');
      return row?.first === at;
    });
  publish(++epoch);
  await until('it was told', () => troubles.length > 0);
  expect(troubles).toEqual(['publishing the ring of inbox: away']);
  away = false;
  publish(epoch);
  await published(epoch);

  away = true;
  retryMs = 20;
  publish(++epoch);
  await until('it was tried again', () => troubles.length > 2);
  away = false;
  await published(epoch);
});
