/**
 * The end of a process that no longer turns: its keeper hands the jobs back when the grace period is
 * over, says so, and ends the process. These are keepers alone, in processes of their own; the same with
 * handlers and all is in drain.test.ts.
 */
import { randomUUID } from 'node:crypto';
import { rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { engineExecutor } from '../../src/postgres/queryable.js';
import { TWICE_MS } from '../../src/worker/signals.js';
import { Child } from '../support/child.js';
import { claimAs, heldOf } from '../support/claiming.js';
import { type Ground, ground, jobs } from '../support/ground.js';
import { until } from '../support/until.js';

const GRACE_MS = 700;
/** Two seconds after the grace period a process is gone; a busy machine takes a little longer. */
const GONE_MS = GRACE_MS + 2_500;

type Kept = Child & { workerId: string; ids: string[] };

/** A process that holds three jobs and would drain on a signal, if its main thread turned. */
async function holding(db: Ground, graceMs = GRACE_MS): Promise<Kept> {
  const setup = { handleSignals: true, graceMs };
  const child = new Child('keeper', { url: db.url, setup });
  const { workerId } = await child.hears('watched');
  await db.hf.enqueueMany([1, 2, 3].map(() => jobs.noop.of({})));
  const engine = engineExecutor(db.pool, { prepare: false });
  const claimed = await claimAs(engine, workerId as string, { types: ['noop'] });
  const held = claimed.map(heldOf);
  expect(held).toHaveLength(3);
  const command = {
    do: 'hold',
    ids: held.map(({ id }) => id),
    generations: held.map(({ generation }) => generation),
  };
  child.tell(command);
  await child.hears('holding');
  return Object.assign(child, { workerId: workerId as string, ids: command.ids });
}

function spinFile() {
  const path = join(tmpdir(), `holdfast-spin-${randomUUID()}`);
  onTestFinished(() => rmSync(path, { force: true }));
  return { path, write: () => writeFileSync(path, '') };
}

async function spinning(db: Ground, graceMs = GRACE_MS) {
  const child = await holding(db, graceMs);
  const file = spinFile();
  child.tell({ do: 'spin', untilFile: file.path });
  await child.hears('spinning');
  return Object.assign(child, { file });
}

const queue = (db: Ground) =>
  db.rows(
    `SELECT status::text, attempts, crashes, count(*)::int FROM holdfast.inbox GROUP BY 1, 2, 3`,
  );
const BACK = [{ status: 'pending', attempts: 0, crashes: 0, count: 3 }];
const HELD = [{ status: 'processing', attempts: 1, crashes: 0, count: 3 }];

async function status(db: Ground, workerId: string): Promise<string | undefined> {
  const text = 'SELECT status FROM holdfast.workers WHERE id = $1';
  return (await db.rows<{ status: string }>(text, [workerId]))[0]?.status;
}

test('a process that spins at the signal ends with its grace period; its jobs go back unspent', async () => {
  const db = await ground();
  const worker = await spinning(db);
  const at = performance.now();
  worker.signal('SIGTERM');
  await until('it drains', async () => (await status(db, worker.workerId)) === 'draining');
  expect(await queue(db)).toEqual(HELD);
  expect(await worker.exited).toEqual({ code: null, signal: 'SIGKILL' });
  const tookMs = performance.now() - at;
  expect(tookMs).toBeGreaterThan(GRACE_MS);
  expect(tookMs).toBeLessThan(GONE_MS);
  expect(await queue(db)).toEqual(BACK);
  expect(await status(db, worker.workerId)).toBe('dead');
  expect(worker.describe()).toMatch(/no progress; 3 of 3 jobs were handed back/);
});

test('a job whose row is locked does not keep the others from going back', async () => {
  const db = await ground();
  const worker = await spinning(db);
  const lock = await db.pool.connect();
  onTestFinished(() => lock.release(true));
  await lock.query('BEGIN');
  await lock.query('SELECT FROM holdfast.inbox WHERE id = $1 FOR UPDATE', [worker.ids[1]]);
  worker.signal('SIGTERM');
  await worker.exited;
  await lock.query('COMMIT');
  const states = await queue(db);
  expect(states).toContainEqual({ ...BACK[0], count: 2 });
  expect(states).toContainEqual({ ...HELD[0], count: 1 });
  // Its owner is known to be dead with a job in hand, so others may take that one at once.
  const [row] = await db.rows('SELECT status, empty_handed FROM holdfast.workers WHERE id = $1', [
    worker.workerId,
  ]);
  expect(row).toEqual({ status: 'dead', empty_handed: false });
});

test('a second signal to a process that spins ends it now, and its jobs still go back', async () => {
  const db = await ground();
  const worker = await spinning(db, 60_000);
  const first = performance.now();
  worker.signal('SIGTERM');
  await until('it drains', async () => (await status(db, worker.workerId)) === 'draining');
  await until('the next is a second one', () => performance.now() - first > 2 * TWICE_MS);
  const at = performance.now();
  worker.signal('SIGINT');
  expect(await worker.exited).toEqual({ code: null, signal: 'SIGKILL' });
  expect(performance.now() - at).toBeLessThan(2_000);
  expect(await queue(db)).toEqual(BACK);
  expect(worker.describe()).toMatch(/second signal/);
});

test('a main thread that turns but does not stop in time is ended, if a signal asked for it', async () => {
  const db = await ground();
  const worker = await holding(db);
  const at = performance.now();
  worker.signal('SIGTERM');
  await worker.hears('signal');
  const drain = { do: 'drain', graceMs: GRACE_MS, signalled: true };
  worker.tell(drain);
  expect(await worker.exited).toEqual({ code: null, signal: 'SIGKILL' });
  const tookMs = performance.now() - at;
  expect(tookMs).toBeGreaterThan(GRACE_MS + 1_400);
  expect(tookMs).toBeLessThan(GONE_MS);
  expect(await queue(db)).toEqual(BACK);
});

test('handlers that are left after the worker has stopped do not keep the process', async () => {
  const db = await ground();
  const worker = await holding(db);
  const at = performance.now();
  worker.signal('SIGTERM');
  await worker.hears('signal');
  const drain = { do: 'drain', graceMs: GRACE_MS, signalled: true };
  const stop = { do: 'stop', guard: true, thenSpin: true };
  worker.tell(drain);
  worker.tell(stop);
  await worker.hears('stopped');
  expect(await worker.exited).toEqual({ code: null, signal: 'SIGKILL' });
  expect(performance.now() - at).toBeLessThan(GONE_MS);
});

test('a process that has stopped ends by itself: a guard does not keep it', async () => {
  const db = await ground();
  const worker = await holding(db, 60_000);
  worker.signal('SIGTERM');
  await worker.hears('signal');
  const drain = { do: 'drain', graceMs: 60_000, signalled: true };
  const stop = { do: 'stop', guard: true };
  worker.tell(drain);
  worker.tell(stop);
  expect(await worker.exited).toEqual({ code: 0, signal: null });
});

test('without a signal nothing is ended by force', async () => {
  const db = await ground();
  const worker = await holding(db, 100);
  const file = spinFile();
  const drain = { do: 'drain', graceMs: 100, signalled: false };
  worker.tell(drain);
  await worker.hears('draining');
  worker.tell({ do: 'spin', untilFile: file.path });
  await worker.hears('spinning');
  const other = await spinning(db, 100);
  other.signal('SIGTERM');
  await other.exited;
  expect(worker.exit).toBeNull();
  file.write();
  worker.tell({ do: 'stop' });
  expect(await worker.exited).toEqual({ code: 0, signal: null });
});

test('a main thread that hears the signal late knows how late', async () => {
  const db = await ground();
  const worker = await spinning(db, 60_000);
  const at = performance.now();
  worker.signal('SIGTERM');
  await until('it drains', async () => (await status(db, worker.workerId)) === 'draining');
  worker.file.write();
  worker.tell({ do: 'sinceSignal' });
  const { generation } = await worker.hears('sinceSignal');
  const knownMs = performance.now() - at;
  expect(generation).toBeGreaterThan(400);
  expect(generation).toBeLessThanOrEqual(knownMs + 5);
});

test('a signal that the program itself takes no notice of ends nothing', async () => {
  const db = await ground();
  const worker = await holding(db, 100);
  worker.signal('SIGTERM');
  await worker.hears('signal');
  // Longer than a process would have that follows the signal and does not end.
  let answers = 0;
  await until('the signal is forgotten', async () => {
    worker.tell({ do: 'sinceSignal' });
    await until('an answer', () => worker.count('sinceSignal') > answers);
    answers = worker.count('sinceSignal');
    return worker.messages.findLast(({ kind }) => kind === 'sinceSignal')?.generation === 0;
  });
  expect(await queue(db)).toEqual(HELD);
  worker.tell({ do: 'stop' });
  expect(await worker.exited).toEqual({ code: 0, signal: null });
});
