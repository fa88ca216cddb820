/** When a watcher believes what it sees. Its sessions are real; the checks are made by hand. */
import pg from 'pg';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { INBOX, testDatabase } from '../../../../../test/support/database.js';
import { until } from '../../../../../test/support/until.js';
import { findGone, holdLiveness, markWatched } from '../../fleet/liveness.js';
import { lockKeyOf, register } from '../../fleet/registry.js';
import { type Executor, engineExecutor } from '../../postgres/queryable.js';
import { newConnection } from './connection.js';
import { monotonicMs } from './protocol.js';
import { CONFIRM_MS, FreeLocks, newWatch } from './watch.js';

const db = testDatabase();

/** Sessions age by the clock of this process, which is put forward instead of waited for. */
let skippedMs = 0;
beforeAll(() => {
  const now = process.hrtime.bigint;
  vi.spyOn(process.hrtime, 'bigint').mockImplementation(
    () => now() + BigInt(skippedMs) * 1_000_000n,
  );
});
afterAll(() => void vi.restoreAllMocks());

test('a lock that was free twice, a moment apart, makes its worker ripe; one that was held in between does not', () => {
  const freeLocks = new FreeLocks();
  expect(freeLocks.record(['a', 'b'], 0)).toEqual([]);
  expect(freeLocks.record(['a'], CONFIRM_MS - 1)).toEqual([]);
  expect(freeLocks.record(['a', 'b'], CONFIRM_MS)).toEqual(['a']);
  expect(freeLocks.record(['b'], 2 * CONFIRM_MS)).toEqual(['b']);
  expect(freeLocks.record([], 3 * CONFIRM_MS)).toEqual([]);
  expect(freeLocks.any).toBe(false);
});

test('two checks that lie far apart prove nothing: the watcher may have been frozen in between', () => {
  const freeLocks = new FreeLocks();
  freeLocks.record(['a'], 0);
  expect(freeLocks.record(['a'], 60_000)).toEqual([]);
  expect(freeLocks.record(['a'], 60_000 + CONFIRM_MS)).toEqual(['a']);
});

async function enter(id: string): Promise<void> {
  await register(db.engine, INBOX, { id, lockKey: lockKeyOf(id), handles: {}, metadata: {} });
}

/** A worker that promised to hold its lock, and has been seen since; and it does not. */
async function goneWorker(id: string): Promise<void> {
  await enter(id);
  await markWatched(db.engine, INBOX, id, true);
  await findGone(db.engine, INBOX, id, {});
}

/** With metadata its checks are heartbeats, when one is due. */
async function watcher(id: string, metadata?: () => object) {
  await enter(id);
  const told: unknown[][] = [];
  const connection = newConnection({
    address: { connectionString: db.url },
    pooled: false,
    prepare: true,
    names: INBOX,
    timeoutMs: 5_000,
    locks: () => true,
    foundPooler: () => {},
  });
  onTestFinished(() => connection.close(1_000));
  let confirmedAt = Number.NEGATIVE_INFINITY;
  const watch = newWatch({
    connection,
    names: INBOX,
    heartbeatMs: 10_000,
    locks: () => true,
    workerId: () => id,
    metadata: metadata ?? (() => ({})),
    confirmedAgoMs: () => (metadata ? monotonicMs() - confirmedAt : 0),
    confirmed: (_, sentAt) => {
      confirmedAt = sentAt;
      told.push(['beat']);
    },
    declaredDead: (dead) => told.push(['dead', dead]),
    tell: (kind, ...args) => told.push([kind, ...args]),
  });
  const check = async () => {
    if (!connection.db) await connection.open();
    return watch(connection.db as Executor);
  };
  const gone = () => told.flatMap(([kind, ids]) => (kind === 'gone' ? (ids as string[]) : []));
  const overdue = () => {
    confirmedAt = Number.NEGATIVE_INFINITY;
  };
  return { check, connection, told, gone, overdue, kinds: () => told.map(([kind]) => kind) };
}

const serverIsOld = () =>
  until('the server has been up for ten seconds', async () => {
    const text = `SELECT WHERE pg_postmaster_start_time() < now() - interval '10 seconds'`;
    return (await db.rows(text)).length === 1;
  });

test('a watcher declares nobody dead before its own session has lasted for a while', async () => {
  await serverIsOld();
  await goneWorker('gone-1');
  const { check, connection, gone } = await watcher('watcher-1');
  await until('its session is nearly old enough', async () => {
    skippedMs += 100;
    await check();
    return connection.ageMs > 500;
  });
  expect(gone()).toEqual([]);
  const sure = await until('it is declared dead', async () => {
    skippedMs += 100;
    await check();
    return gone().length > 0 && connection.ageMs;
  });
  expect(gone()).toEqual(['gone-1']);
  expect(sure).toBeGreaterThan(1_000);
});

test('a watcher whose session broke waits for the others to come back first', async () => {
  await serverIsOld();
  await goneWorker('gone-2');
  const { check, connection, gone } = await watcher('watcher-2');
  await check();
  await db.rows(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
     WHERE application_name = 'holdfast keeper' AND datname = current_database()`,
  );
  await until('the session is a new one', async () => {
    await check().catch(() => undefined);
    return connection.reconnected;
  });
  await until('it is older than a first session has to be', async () => {
    skippedMs += 500;
    await check();
    return connection.ageMs > 7_000;
  });
  expect(gone()).toEqual([]);
  await until('it is declared dead', async () => {
    skippedMs += 500;
    await check();
    return gone().includes('gone-2');
  });
  expect(connection.ageMs).toBeGreaterThan(15_000);
});

test('a worker is watched from when it holds its lock, and its registry row says so', async () => {
  const { check, kinds, connection } = await watcher('watcher-3');
  const watched = () =>
    db.rows(`SELECT holds_liveness_lock AS watched FROM holdfast.workers WHERE id = 'watcher-3'`);
  expect(await watched()).toEqual([{ watched: false }]);
  await check();
  expect(connection.lockedFor).toBe('watcher-3');
  expect(await watched()).toEqual([{ watched: true }]);
  expect(kinds()).toContain('watched');
});

test('a watcher that was declared dead itself is told by its next check', async () => {
  const { check, told } = await watcher('watcher-4');
  await check();
  await db.rows(`UPDATE holdfast.workers SET status = 'dead' WHERE id = 'watcher-4'`);
  await check();
  expect(told).toContainEqual(['dead', 'watcher-4']);
});

test('the larger the fleet, the rarer the checks of each; one that finds a free lock is repeated soon', async () => {
  await db.rows(`UPDATE holdfast.workers SET status = 'dead'`);
  const { check, connection } = await watcher('watcher-5');
  const waits = async () => {
    const all: number[] = [];
    expect(await check()).toBeLessThanOrEqual(6_250);
    for (let n = 0; n < 20; n++) all.push(await check());
    return [Math.min(...all), Math.max(...all)] as [number, number];
  };
  const [alone] = await waits();
  expect(alone).toBeGreaterThanOrEqual(2_250);
  await enter('second');
  const [least, most] = await waits();
  expect(least).toBeGreaterThanOrEqual(750);
  expect(most).toBeLessThanOrEqual(1_250);
  for (let n = 0; n < 18; n++) await enter(`crowd-${n}`);
  const [leastOf20, mostOf20] = await waits();
  expect(leastOf20).toBeGreaterThanOrEqual(3_750);
  expect(mostOf20).toBeLessThanOrEqual(6_250);

  skippedMs += 5_000;
  expect(connection.ageMs).toBeGreaterThan(5_000);
  await markWatched(db.engine, INBOX, 'crowd-0', true);
  expect(await check()).toBe(CONFIRM_MS);
  const back = new pg.Client({ connectionString: db.url });
  await back.connect();
  onTestFinished(() => back.end());
  await holdLiveness(engineExecutor(back, { prepare: false }), INBOX, 'crowd-0');
  expect(await check()).toBeGreaterThanOrEqual(3_750);
});

test('a check is a heartbeat, if one is due; so an idle worker of a large fleet sends one of both', async () => {
  await db.rows(`UPDATE holdfast.workers SET status = 'dead'`);
  for (let n = 0; n < 60; n++) await enter(`many-${n}`);
  const { check, kinds } = await watcher('watcher-6', () => ({ load: { running: 3 } }));
  const row = async () => {
    const text = `SELECT metadata -> 'load' ->> 'running' AS running, last_seen_at::text AS seen
      FROM holdfast.workers WHERE id = 'watcher-6'`;
    return (await db.rows<{ running: string; seen: string }>(text))[0];
  };
  const before = await row();
  await check();
  const after = await row();
  expect(after?.running).toBe('3');
  expect(after?.seen).not.toBe(before?.seen);
  expect(kinds()).toContain('beat');
  // Not due yet: only a check. The next one comes in time for the next heartbeat.
  const waitMs = await check();
  expect((await row())?.seen).toBe(after?.seen);
  expect(waitMs).toBeGreaterThan(9_000);
  expect(waitMs).toBeLessThan(10_000);
});

test('a check of a worker that was declared dead is no heartbeat', async () => {
  const { check, kinds } = await watcher('watcher-7', () => ({}));
  await db.rows(`UPDATE holdfast.workers SET status = 'dead' WHERE id = 'watcher-7'`);
  await check();
  expect(kinds()).toContain('dead');
  expect(kinds()).not.toContain('beat');
});

test('a heartbeat that finds its row locked is tried again soon, but not in a hot loop', async () => {
  await db.rows(`UPDATE holdfast.workers SET status = 'dead'`);
  const { check, kinds, overdue } = await watcher('watcher-8', () => ({}));
  await check();
  const beats = () => kinds().filter((kind) => kind === 'beat').length;
  expect(beats()).toBe(1);
  const lock = await db.pool.connect();
  onTestFinished(() => lock.release(true));
  await lock.query(`BEGIN; SELECT FROM holdfast.workers WHERE id = 'watcher-8' FOR UPDATE`);
  overdue();
  expect(await check()).toBeGreaterThanOrEqual(750);
  expect(beats()).toBe(1);
  await lock.query('COMMIT');
  await check();
  expect(beats()).toBe(2);
});
