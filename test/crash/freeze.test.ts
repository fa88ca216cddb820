/**
 * Processes that are frozen past their lease (SIGSTOP; in life a paused virtual machine) and wake up
 * again: what they still do counts for nothing, they learn of it, and they go on working.
 */
import { expect, test } from 'vitest';
import { Child, QUICK, readyWorker } from '../support/child.js';
import { blockedStatement, type Ground, ground, jobs } from '../support/ground.js';
import { longTest } from '../support/long.js';
import { until } from '../support/until.js';

/** Nobody is declared dead: only leases run out. */
const UNDYING = { ...QUICK, heartbeat: '10s', ttl: '60s' } as const;

async function archived(db: Ground, id: string) {
  const rows = await db.rows(
    `SELECT claimed_by, lease_generation::int AS generation, status::text, completed_at::text
     FROM holdfast.inbox_archive WHERE id = $1`,
    [id],
  );
  expect(rows).toHaveLength(1);
  return rows[0];
}

/** The worker takes part again: a new job is completed by it, with nobody else there. */
async function goesOn(db: Ground, worker: Child, workerId: string): Promise<void> {
  const { id } = await db.hf.enqueue(jobs.noop, {});
  const done = await until('the new job is completed', async () => {
    if (worker.exit) throw new Error(worker.describe());
    const row = await db.hf.job(id);
    return row?.status === 'completed' && row;
  });
  expect(done).toMatchObject({ claimedBy: workerId, leaseGeneration: 1, attempts: 1 });
}

test('a frozen worker that was declared dead loses its job, is told so, and registers again', async () => {
  const db = await ground();
  const frozen = await readyWorker(db.url);
  const { id } = await db.hf.enqueue(jobs.gated, { firstOnly: true });
  await frozen.hears('handling', { id, generation: 1 });
  const other = await readyWorker(db.url);

  frozen.signal('SIGSTOP');
  await other.hears('handling', { id, generation: 2 });
  await db.completed(1);
  await until('it is declared dead', async () => {
    const [row] = await db.rows<{ status: string }>(
      'SELECT status FROM holdfast.workers WHERE id = $1',
      [frozen.workerId],
    );
    return row?.status === 'dead';
  });
  other.signal('SIGTERM');
  await other.exited;
  const before = await archived(db, id);
  frozen.signal('SIGCONT');

  expect(await frozen.hears('aborted', { id, generation: 1 })).toMatchObject({
    code: 'LEASE_LOST',
  });
  const reregistered = await frozen.hears('reregistered');
  expect(reregistered).toMatchObject({ was: frozen.workerId });
  expect(reregistered.workerId).not.toBe(frozen.workerId);
  await goesOn(db, frozen, reregistered.workerId as string);
  expect((await frozen.ask('stats')).stats).toMatchObject({ lost: 1, completed: 1, failed: 0 });
  expect(await archived(db, id)).toEqual(before);
  expect(before).toMatchObject({ claimed_by: other.workerId, generation: 2, status: 'completed' });
});

test.each(['late', 'guarded'] as const)(
  'a completion of a worker that was frozen past its lease moves nothing (%s)',
  async (type) => {
    const db = await ground();
    const frozen = await readyWorker(db.url, { ...UNDYING, lease: '1s', renewEvery: '300ms' });
    const { id } = await db.hf.enqueue(jobs[type], { ms: 800, thenGated: true });
    await frozen.hears('handling', { id, generation: 1 });
    frozen.signal('SIGSTOP');
    const other = await readyWorker(db.url, UNDYING);
    await other.hears('handling', { id, generation: 2 });
    // The handler's time is long over, so it ends at once, before anybody can tell it.
    frozen.signal('SIGCONT');
    await frozen.hears('lost', { id, generation: 1 });
    expect(await db.hf.job(id)).toMatchObject({
      status: 'processing',
      claimedBy: other.workerId,
      leaseGeneration: 2,
    });

    other.tell({ do: 'finish', id });
    await db.completed(1);
    other.signal('SIGTERM');
    await other.exited;
    expect(await db.hf.job(id)).toMatchObject({ claimedBy: other.workerId, leaseGeneration: 2 });
    const effects = await db.rows('SELECT generation::int FROM effects');
    expect(effects).toEqual(type === 'guarded' ? [{ generation: 2 }] : []);
    await goesOn(db, frozen, frozen.workerId);
    expect((await frozen.ask('stats')).stats).toMatchObject({ lost: 1, completed: 1, failed: 0 });
    expect(frozen.heard('reregistered')).toBeUndefined();
  },
);

test('a job that a worker claims while it registers again keeps its lease', async () => {
  const db = await ground();
  // A registration takes as long as the test wants.
  await db.pool.query(`
    CREATE FUNCTION wait_for_test() RETURNS trigger LANGUAGE plpgsql AS
      'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NEW; END';
    CREATE TRIGGER slow BEFORE INSERT ON holdfast.workers
      FOR EACH ROW EXECUTE FUNCTION wait_for_test()`);
  const worker = await readyWorker(db.url, { ...QUICK, lease: '2s' });
  const lock = await db.pool.connect();
  try {
    await lock.query('SELECT pg_advisory_lock(1)');
    await lock.query(`UPDATE holdfast.workers SET status = 'dead'`);
    await blockedStatement(db, 'INSERT INTO holdfast.workers');
    const { id } = await db.hf.enqueue(jobs.gated, {});
    // It may claim before it is registered, or wait until it is: both are fine.
    await worker.hears('handling', { id }, 1_000).catch(() => undefined);
    await lock.query('SELECT pg_advisory_unlock(1)');
    await worker.hears('reregistered');
    await worker.hears('handling', { id });

    const renewed = await until('its lease is renewed for a while, or lost', async () => {
      const [row] = await db.rows<{ keptMs: number }>(
        `SELECT extract(epoch FROM lease_expires_at - claimed_at)::float8 * 1000 AS "keptMs"
         FROM holdfast.inbox WHERE id = $1 AND lease_generation = 1 AND status = 'processing'`,
        [id],
      );
      return !row ? 'lost' : row.keptMs > 5_000 && 'kept';
    });
    expect(renewed).toBe('kept');
    worker.tell({ do: 'finish', id });
    await db.completed(1);
    // The commit can be seen before the worker has read its answer.
    const stats = async () => (await worker.ask('stats')).stats;
    await until('it is counted', async () => (await stats())?.completed === 1);
    expect((await stats())?.lost).toBe(0);
  } finally {
    lock.release(true);
  }
});

longTest(
  'a worker that freezes in a round of maintenance does not stop that of the fleet',
  async () => {
    const db = await ground();
    // A queue without any job has rare rounds.
    await db.hf.enqueue(jobs.noop, {}, { delay: '1h' });
    const frozen = await readyWorker(db.url);
    await frozen.hears('maintained');
    const lock = await db.pool.connect();
    try {
      await lock.query('BEGIN; LOCK TABLE holdfast.workers IN EXCLUSIVE MODE');
      await blockedStatement(db, `w.status IN ('alive', 'draining')`);
      frozen.signal('SIGSTOP');
      await lock.query('COMMIT');
    } finally {
      lock.release(true);
    }
    await readyWorker(db.url);
    await until('the frozen worker is declared dead', async () => {
      const [row] = await db.rows<{ status: string }>(
        'SELECT status FROM holdfast.workers WHERE id = $1',
        [frozen.workerId],
      );
      return row?.status === 'dead';
    });
  },
);

const HEARTBEAT_MS = 1_000;
const TTL_MS = 2_500;
/** Longer than the TTL, and than three checks of the main thread: a shorter freeze may pass for a stall. */
const FROZEN_MS = 4_500;

type FrozenKeeper = Awaited<ReturnType<typeof frozenKeeper>>;

/** A keeper alone, in a process that is frozen for longer than its TTL. */
async function frozenKeeper(db: Ground) {
  const setup = { heartbeatMs: HEARTBEAT_MS, ttlMs: TTL_MS, stallMs: 1_000 };
  const child = new Child('keeper', { url: db.url, setup });
  const { workerId } = await child.hears('watched');
  await child.hears('beat');
  const isSure = () => child.messages.findLast(({ kind }) => /alive|unsure/.test(kind));
  await until('it is sure to be alive', () => isSure()?.kind === 'alive');
  child.signal('SIGSTOP');
  await until('it was not seen for longer than its TTL', async () => {
    const text = `SELECT FROM holdfast.workers WHERE id = $1
      AND last_seen_at < now() - $2::integer * interval '1 ms'`;
    return (await db.rows(text, [workerId, FROZEN_MS])).length === 1;
  });
  const before = child.messages.length;
  /** What it has said since then. */
  const says = (kind: string) =>
    until(kind, () => child.messages.slice(before).find((message) => message.kind === kind), {
      everyMs: 1,
    });
  const said = (kind: string) =>
    child.messages.slice(before).filter((message) => message.kind === kind);
  return Object.assign(child, { workerId: workerId as string, says, said });
}

/** It is not sure to be alive before a heartbeat is confirmed. */
async function wakesUnsure(db: Ground, worker: FrozenKeeper): Promise<void> {
  const lock = await db.pool.connect();
  try {
    // Heartbeats wait, and fail, as long as the test wants.
    await lock.query('BEGIN; LOCK TABLE holdfast.workers IN EXCLUSIVE MODE');
    worker.signal('SIGCONT');
    await worker.says('unsure');
    await worker.says('error');
    expect([...worker.said('alive'), ...worker.said('beat')]).toEqual([]);
    await lock.query('COMMIT');
    await worker.says('alive');
    await worker.says('beat');
  } finally {
    lock.release(true);
  }
  expect(worker.heard('dead')).toBeUndefined();
}

/** It beats at once, and does not call its main thread stalled. */
async function beatsAtOnce(_: Ground, worker: FrozenKeeper): Promise<void> {
  const at = performance.now();
  worker.signal('SIGCONT');
  await worker.says('beat');
  // A few milliseconds; a busy machine takes longer.
  expect(performance.now() - at).toBeLessThan(0.9 * HEARTBEAT_MS);
  await until('the next ones, too', () => worker.said('beat').length > 2);
  expect(worker.said('error')).toEqual([]);
}

/** Declared dead, it is told at once, and acts again when its new id is confirmed. */
async function learnsOfItsDeath(db: Ground, worker: FrozenKeeper): Promise<void> {
  await db.rows(`UPDATE holdfast.workers SET status = 'dead'`);
  const at = performance.now();
  worker.signal('SIGCONT');
  expect(await worker.says('dead')).toMatchObject({ workerId: worker.workerId });
  expect(performance.now() - at).toBeLessThan(0.9 * HEARTBEAT_MS);
  await worker.says('unsure');
  expect([...worker.said('alive'), ...worker.said('beat')]).toEqual([]);
  worker.tell({ do: 'reregister' });
  const { workerId, generation } = await worker.says('reregistered');
  expect(generation).toBe(-1);
  expect(await worker.says('beat')).toMatchObject({ workerId });
  await worker.says('alive');
}

longTest(
  'a process that wakes up is unsure before a heartbeat is confirmed, beats at once, and learns at once that it is dead',
  async () => {
    const parts = [wakesUnsure, beatsAtOnce, learnsOfItsDeath];
    // All are frozen at the same time, each with a database of its own.
    const frozen = await Promise.all(
      parts.map(async () => {
        const db = await ground();
        return [db, await frozenKeeper(db)] as const;
      }),
    );
    for (const [n, part] of parts.entries()) await part(...(frozen[n] as (typeof frozen)[number]));
  },
);
