/** The keeper with its real thread, in this process: what it keeps, and what it says of being alive. */
import type { Worker } from 'node:worker_threads';
import { expect, onTestFinished, test } from 'vitest';
import { claimAs, heldOf } from '../../../../../test/support/claiming.js';
import { INBOX, testDatabase } from '../../../../../test/support/database.js';
import { until } from '../../../../../test/support/until.js';
import { lockKeyOf, register } from '../../fleet/registry.js';
import { job } from '../../index.js';
import { newKeeper } from './keeper.js';
import { type KeeperSetup, monotonicMs } from './protocol.js';

const db = testDatabase();
const noop = job('noop');
const TTL_MS = 30_000;
const MARGIN_MS = TTL_MS / 10;

const enter = (id: string) =>
  register(db.engine, INBOX, { id, lockKey: lockKeyOf(id), handles: {}, metadata: {} });

async function keeping(id: string, more: Partial<KeeperSetup> = {}) {
  const threads: Worker[] = [];
  const onWorker = (thread: Worker) => void threads.push(thread);
  process.on('worker', onWorker);
  const registeredAt = monotonicMs();
  await enter(id);
  const told: unknown[][] = [];
  const tell =
    (kind: string) =>
    (...args: unknown[]) =>
      void told.push([kind, ...args]);
  const keeper = newKeeper(
    {
      address: { connectionString: db.url },
      asksPasswords: false,
      pooled: false,
      direct: null,
      livenessLock: true,
      schema: INBOX.schema,
      queues: [INBOX.queue],
      workerId: id,
      registeredAt,
      metadata: {},
      leaseMs: 60_000,
      renewMs: 400,
      heartbeatMs: 300,
      ttlMs: TTL_MS,
      stallMs: 60_000,
      prepare: true,
      ...more,
    },
    {
      ready: tell('ready'),
      lost: tell('lost'),
      dead: tell('dead'),
      beat: tell('beat'),
      gone: tell('gone'),
      epoch: tell('epoch'),
      drainAsked: tell('drainAsked'),
      error: tell('error'),
      load: () => ({
        ...{ running: 0, held: 0, trouble: null, queues: {} },
        attempts: { inbox: { failed: 0, completed: 0 } },
      }),
    },
  );
  onTestFinished(async () => {
    process.off('worker', onWorker);
    await keeper.stop();
  });
  const atFirst = keeper.aliveForMs();
  await keeper.start();
  const count = (kind: string) => told.filter(([one]) => one === kind).length;
  return { keeper, threads, told, count, atFirst };
}

async function claimedBy(id: string, count: number) {
  await db.hf.enqueueMany(Array.from({ length: count }, () => noop.item({})));
  const rows = await claimAs(db.engine, id, { types: ['noop'], leaseMs: 25_000 });
  return rows.map((row) => ({ ...heldOf(row), batch: null }));
}

/** Jobs whose lease was renewed for longer than a claim lasts. */
const renewed = async (id: string) => {
  const text = `SELECT count(*)::int FROM holdfast.inbox
    WHERE claimed_by = $1 AND lease_expires_at > now() + interval '30 s'`;
  return (await db.rows<{ count: number }>(text, [id]))[0]?.count;
};

const sessions = () =>
  db.rows<{ locks: number }>(
    `SELECT (SELECT count(*)::int FROM pg_locks AS l WHERE l.pid = a.pid AND l.locktype = 'advisory') AS locks
     FROM pg_stat_activity AS a
     WHERE a.application_name = 'holdfast keeper' AND a.datname = current_database()`,
  );

test('one session does it all: heartbeats, renewals and the lock', async () => {
  const { keeper, count, told } = await keeping('one');
  keeper.hold(INBOX.queue, await claimedBy('one', 3));
  await keeper.watched(10_000);
  await until('three leases are renewed', async () => (await renewed('one')) === 3);
  await until('some heartbeats', () => count('beat') >= 3);
  expect(await sessions()).toEqual([{ locks: 1 }]);
  expect(told.filter(([kind]) => kind === 'error' || kind === 'lost')).toEqual([]);
});

test('behind a pooler a second session, past it, holds the lock', async () => {
  const { keeper, count, told } = await keeping('two', {
    pooled: true,
    direct: { connectionString: db.url },
  });
  keeper.hold(INBOX.queue, await claimedBy('two', 3));
  await keeper.watched(10_000);
  await until('three leases are renewed', async () => (await renewed('two')) === 3);
  await until('some heartbeats', () => count('beat') >= 3);
  expect((await sessions()).map(({ locks }) => locks).sort()).toEqual([0, 1]);
  expect(told.filter(([kind]) => kind === 'error' || kind === 'lost')).toEqual([]);
});

test('behind a pooler whose direct way is closed, heartbeats and renewals go on', async () => {
  const direct = { connectionString: 'postgres://nobody@127.0.0.1:1/none' };
  const { keeper, count } = await keeping('closed', { pooled: true, direct });
  keeper.hold(INBOX.queue, await claimedBy('closed', 1));
  await until('a lease is renewed', async () => (await renewed('closed')) === 1);
  await until('some heartbeats', () => count('beat') >= 3);
});

test('a thread that dies is started again, knows what is held, and beats', async () => {
  const { keeper, threads, count } = await keeping('restarted');
  const [kept, left] = await claimedBy('restarted', 2);
  keeper.hold(INBOX.queue, [kept, left] as NonNullable<typeof kept>[]);
  keeper.drop(left as NonNullable<typeof left>);
  await keeper.watched(10_000);
  await threads[0]?.terminate();
  await db.rows(`UPDATE holdfast.inbox SET lease_expires_at = now() + interval '25 s'`);
  const beats = count('beat');
  await until('what is held is renewed', async () => (await renewed('restarted')) === 1);
  await until('a heartbeat', () => count('beat') > beats);
  expect(threads).toHaveLength(2);
  expect(await sessions()).toEqual([{ locks: 1 }]);
});

test('a broken session is replaced, and neither lease nor lock is lost', async () => {
  const { keeper, count } = await keeping('broken');
  await keeper.watched(10_000);
  keeper.hold(INBOX.queue, await claimedBy('broken', 2));
  await db.rows(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
     WHERE application_name = 'holdfast keeper' AND datname = current_database()`,
  );
  await until('two leases are renewed', async () => (await renewed('broken')) === 2);
  await until('the lock is held', async () => (await sessions())[0]?.locks === 1);
  expect(count('dead')).toBe(0);
});

test('a registration counts as the first heartbeat, and each one that is confirmed extends it', async () => {
  const { keeper, count, atFirst } = await keeping('alive', { heartbeatMs: 1_000 });
  const full = TTL_MS - MARGIN_MS;
  expect(atFirst).toBeGreaterThan(full - 1_000);
  expect(atFirst).toBeLessThanOrEqual(full);
  await until('it has run down a little', () => keeper.aliveForMs() < full - 300);
  const before = count('beat');
  await until('a heartbeat', () => count('beat') > before);
  expect(keeper.aliveForMs()).toBeGreaterThan(full - 300);
});

test('a worker whose heartbeats are not confirmed may not be alive after its TTL; nor is a dead one', async () => {
  const { keeper, count } = await keeping('cut-off', { ttlMs: 900, heartbeatMs: 300 });
  await until('a heartbeat', () => count('beat') > 0);
  const lock = await db.pool.connect();
  onTestFinished(() => lock.release(true));
  await lock.query('BEGIN; LOCK TABLE holdfast.workers IN EXCLUSIVE MODE');
  await until('it is not sure to be alive', () => keeper.aliveForMs() < 0);
  const before = count('beat');
  await lock.query('COMMIT');
  await until('it is', () => keeper.aliveForMs() > 0);
  await until('it is told', () => count('beat') > before);

  await db.rows(`UPDATE holdfast.workers SET status = 'dead' WHERE id = 'cut-off'`);
  await until('it is told of its death', () => count('dead') === 1);
  await until('it may not act', () => keeper.aliveForMs() < 0);
  await enter('reregistered');
  const beats = count('beat');
  keeper.identify('reregistered');
  expect(keeper.aliveForMs()).toBeLessThan(0);
  await until('its new id is confirmed', () => keeper.aliveForMs() > 0);
  await until('it is told', () => count('beat') > beats);
});
