/** The loop side of waking: a wish for hints becomes a lock, and what a hint says reaches the queue. */
import { afterEach, expect, onTestFinished, test } from 'vitest';
import { INBOX, testDatabase } from '../../../../../test/support/database.js';
import { until } from '../../../../../test/support/until.js';
import type { Hint } from '../../claim/source.js';
import { lockKeyOf, register } from '../../fleet/registry.js';
import { channelOf, hintQueue } from '../../fleet/wake.js';
import { job } from '../../job/job.js';
import { bucketOf } from '../../job/key.js';
import { newWakeups, type Wakeups, type WakeupsDeps } from './wakeups.js';

const db = testDatabase();
const work = job('work');

/** The locks of those who wait for hints. */
const LOCKS = `SELECT l.pid FROM pg_locks AS l
  WHERE l.locktype = 'advisory' AND l.granted AND l.mode = 'ShareLock'
    AND l.classid = 'holdfast.inbox'::regclass AND l.objid = 0
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`;
const SESSIONS = `SELECT pid FROM pg_stat_activity
  WHERE application_name = 'holdfast listener' AND datname = current_database()`;

const waiters = async () => (await db.rows(LOCKS)).length;

afterEach(() => db.rows('DELETE FROM holdfast.inbox'));

type Told = Hint & { readonly queue: string };

async function wakeups(
  workerId: string,
  options: Partial<WakeupsDeps> = {},
  queues: readonly string[] = ['inbox'],
) {
  const seen = {
    hints: [] as Told[],
    listening: [] as string[],
    changes: 0,
    errors: [] as string[],
  };
  const channels = new Map<string, string>();
  for (const queue of queues)
    channels.set(await channelOf(db.plain, { schema: 'holdfast', queue }), queue);
  const wakeups = newWakeups({
    address: { connectionString: db.url },
    on: true,
    livenessLock: true,
    schema: 'holdfast',
    channels,
    workerId,
    other: db.plain,
    hint: (queue, hint) => void seen.hints.push({ queue, ...hint }),
    listening: (queue) => void seen.listening.push(queue),
    fleetChanged: () => void seen.changes++,
    reportError: (what, error) => void seen.errors.push(`${what}: ${(error as Error).message}`),
    ...options,
  });
  wakeups.start();
  onTestFinished(() => wakeups.stop());
  if (options.on !== false) await until('it listens', () => wakeups.listening());
  return { wakeups, seen };
}

const enqueue = (delayMs = 0) => db.hf.enqueue(work, {}, { partitionKey: 'key', delay: delayMs });
const hears = (on: Wakeups, queue = 'inbox') => until('it hears', () => on.getsHints(queue));

test('whoever wants hints is told from when on jobs are due; whoever does not is not told', async () => {
  const { wakeups: on, seen } = await wakeups('one');
  // A queue in which nothing has happened is told of by itself.
  expect(on.getsHints('inbox')).toBe(true);
  on.want('inbox', false);
  await until('it is not told', () => !on.getsHints('inbox'));
  await enqueue();
  on.want('inbox', true);
  on.want('inbox', true);
  await hears(on);
  const before = Date.now();
  await enqueue();
  await until('a hint', () => seen.hints.length > 0);
  on.want('inbox', false);
  await until('nobody waits', async () => (await waiters()) === 0);
  expect(on.getsHints('inbox')).toBe(false);
  await enqueue();
  on.want('inbox', true);
  await hears(on);
  await enqueue(2_000);
  await until('another hint', () => seen.hints.length > 1);
  expect(seen.hints).toHaveLength(2);
  const [first, second] = seen.hints as [Told, Told];
  // A queue that is read by time is told of which types they are.
  const said = { queue: 'inbox', since: expect.any(Date), buckets: null, types: ['work'] };
  expect(first).toEqual(said);
  // The clock of the database is the clock of this machine; tenths are rounded down.
  expect((first.since as Date).getTime()).toBeGreaterThan(before - 200);
  expect((second.since as Date).getTime()).toBeGreaterThan(before + 1_800);
  expect(seen.errors).toEqual([]);
});

test('in a queue that is read by key it is told which buckets; * means all of them', async () => {
  await db.hf.createQueue('orders', { ordering: 'key' });
  const { wakeups: on, seen } = await wakeups('keyed', {}, ['inbox', 'orders']);
  on.want('orders', true);
  await hears(on, 'orders');
  const ordered = job('work', { queue: 'orders' });
  const keys = ['a', 'b', 'a'];
  await db.hf.enqueueMany(keys.map((key) => ordered.item({}, { partitionKey: key })));
  await db.hf.enqueueMany(
    Array.from({ length: 200 }, (_, n) => ordered.item({}, { partitionKey: `k${n}` })),
  );
  const back = { runAt: '2020-01-01 00:00:00+00', partitionBucket: 7 };
  await hintQueue(db.plain, { schema: 'holdfast', queue: 'orders' }, [back]);
  // Anybody may send one; these would make a claim fail.
  for (const hint of ['0:1.5', '0:1024', '0:-1', '0:_'])
    await db.rows(`SELECT pg_notify(concat('holdfast_', 'holdfast.orders'::regclass::oid), $1)`, [
      hint,
    ]);
  await hintQueue(db.plain, { schema: 'holdfast', queue: 'orders' }, [back]);
  await until('four hints', () => seen.hints.length >= 4);
  expect(seen.hints.pop()).toEqual(seen.hints.at(-1));
  const [few, many, old] = seen.hints as [Told, Told, Told];
  expect(few.queue).toBe('orders');
  expect(new Set(few.buckets)).toEqual(new Set(keys.map(bucketOf)));
  expect(many).toMatchObject({ since: expect.any(Date), buckets: null, types: null });
  // What came back is told of with the time from which it is due, however old that is.
  expect(old).toMatchObject({ since: new Date('2020-01-01T00:00:00Z'), buckets: [7], types: null });
});

test('when it begins to hear it says so, because what came just before was not told of', async () => {
  const { wakeups: on, seen } = await wakeups('two', {});
  expect(seen.listening).toEqual(['inbox']);
  on.want('inbox', true);
  await until('it says so again', () => seen.listening.length === 2);
  expect(on.getsHints('inbox')).toBe(true);
});

test('the last wish wins, however fast they come', async () => {
  const { wakeups: on, seen } = await wakeups('three');
  for (let n = 0; n < 500; n++) {
    on.want('inbox', n % 2 === 0);
    if (n % 5 === 0) await Promise.resolve();
    if (n % 50 === 49) await db.rows('SELECT 1');
  }
  await until('nobody waits', async () => (await waiters()) === 0 && !on.getsHints('inbox'));
  on.want('inbox', true);
  await hears(on);
  expect(await waiters()).toBe(1);
  on.want('inbox', false);
  await until('the lock is gone', async () => (await waiters()) === 0);
  expect(seen.errors).toEqual([]);
});

test('a lost session is a reason to read everywhere; on the next one it hears again by itself', async () => {
  const { wakeups: on, seen } = await wakeups('four');
  on.want('inbox', true);
  await hears(on);
  await db.rows(`SELECT pg_terminate_backend(pid) FROM (${SESSIONS}) AS s`);
  await until('it is told to read', () => seen.hints.length === 1);
  expect(seen.hints).toEqual([{ queue: 'inbox', since: null, buckets: null, types: null }]);
  await hears(on);
  expect(seen.listening.length).toBeGreaterThanOrEqual(2);
  expect(seen.changes).toBe(2);
  await enqueue();
  await until('a hint', () => seen.hints.length > 1);
  expect(seen.hints[1]).toMatchObject({ queue: 'inbox', since: expect.any(Date), buckets: null });
});

test('under a new id its session holds the liveness lock of that one, and hears', async () => {
  const { wakeups: on, seen } = await wakeups('five');
  on.want('inbox', true);
  await hears(on);
  await until('it has its lock', () => seen.listening.length === 2);
  on.identify('six');
  await until('it has another session', () => seen.listening.length > 2);
  await hears(on);
  const held = await db.rows<{ key: string }>(
    `SELECT l.objid::text AS key FROM pg_locks AS l JOIN (${SESSIONS}) AS s USING (pid)
     WHERE l.locktype = 'advisory' AND l.classid <> 'holdfast.inbox'::regclass`,
  );
  const keys = held.map(({ key }) => Number(key) | 0);
  expect(keys).toContain(lockKeyOf('six'));
  expect(keys).not.toContain(lockKeyOf('five'));
  expect(seen.errors).toEqual([]);
});

test('a change of the membership is heard', async () => {
  const { seen } = await wakeups('eight');
  const before = seen.changes;
  await register(db.engine, INBOX, { id: 'new', lockKey: 1, handles: {}, metadata: {} });
  await until('it was told', () => seen.changes > before);
});

test('switched off it never listens, and whoever wants hints is not held up', async () => {
  await until(
    'the sessions of other tests ended',
    async () => (await db.rows(SESSIONS)).length === 0,
  );
  const { wakeups: on } = await wakeups('nine', { on: false });
  on.want('inbox', true);
  on.want('inbox', false);
  on.want('inbox', true);
  expect([on.listening(), on.getsHints('inbox')]).toEqual([false, false]);
  expect(await db.rows(SESSIONS)).toEqual([]);
});
