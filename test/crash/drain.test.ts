/**
 * The end of a drain, whatever handlers do: two seconds after the grace period the process is gone, and
 * what it had in hand is back in the queue with its attempt. `GONE_MS` adds a second for busy machines.
 */
import { expect, onTestFinished, test } from 'vitest';
import { job } from '../../src/index.js';
import { type Child, type ChildWorkerOptions, QUICK, readyWorker } from '../support/child.js';
import { type Ground, ground, jobs, type Task } from '../support/ground.js';
import { until } from '../support/until.js';

const GRACE_MS = 1_000;
const GONE_MS = GRACE_MS + 3_000;
const DRAINS: ChildWorkerOptions = { ...QUICK, grace: GRACE_MS };
const QUIET = { code: 0, signal: null };
const FORCED = { code: null, signal: 'SIGKILL' };

const hanging = ['never', 'blocked', 'blocked_in_transaction', 'spin_later'] as const;
const [never, blocked, blockedInTransaction, spinLater] = hanging.map((type) =>
  job<Task>(type),
) as [
  ReturnType<typeof job<Task>>,
  ReturnType<typeof job<Task>>,
  ReturnType<typeof job<Task>>,
  ReturnType<typeof job<Task>>,
];

/** What is in the queue: how often each state, with how many attempts spent and crashes counted. */
async function queue(db: Ground): Promise<Record<string, number>> {
  const rows = await db.rows<{ state: string; count: number }>(
    `SELECT concat_ws('/', status, attempts, crashes) AS state, count(*)::int
     FROM holdfast.inbox GROUP BY 1`,
  );
  return Object.fromEntries(rows.map(({ state, count }) => [state, count]));
}

async function statuses(db: Ground): Promise<string[]> {
  const rows = await db.rows<{ status: string }>('SELECT status FROM holdfast.workers');
  return rows.map(({ status }) => status);
}

const drains = (db: Ground) =>
  until('the drain is announced', async () => (await statuses(db)).includes('draining'));

/** Sends the signal, and checks that the process ends as it should, and in time. */
async function endsInTime(worker: Child, how: object): Promise<number> {
  const at = performance.now();
  worker.signal('SIGTERM');
  await until('the process ends', () => worker.exit, { timeoutMs: 20_000 });
  const tookMs = performance.now() - at;
  expect(worker.exit, worker.describe()).toEqual(how);
  expect(tookMs).toBeLessThan(GONE_MS);
  return tookMs;
}

/** A worker that runs a job of each kind; all are under way. */
async function running(db: Ground, kinds: readonly { type: string }[], task: Task = {}) {
  const worker = await readyWorker(db.url, DRAINS);
  const items = kinds.map((kind) => (kind as ReturnType<typeof job<Task>>).of(task));
  const enqueued = await db.hf.enqueueMany(items);
  for (const { id } of enqueued) await worker.hears('handling', { id });
  return worker;
}

test.each([
  ['never ends', never],
  ['is stuck in a query', blocked],
  ["is stuck in a query of its job's transaction", blockedInTransaction],
] as const)('a handler that %s does not keep the process', async (_, kind) => {
  const db = await ground();
  const worker = await running(db, [kind, kind, jobs.gated], { stubborn: true });
  const tookMs = await endsInTime(worker, QUIET);
  expect(tookMs).toBeGreaterThan(GRACE_MS - 50);
  expect(await queue(db)).toEqual({ 'pending/0/0': 3 });
  expect(await statuses(db)).toEqual(['dead']);
  expect(await db.rows('SELECT FROM effects')).toEqual([]);
});

test('a handler that spins when the signal comes does not keep the process, nor the jobs beside it', async () => {
  const db = await ground();
  const worker = await running(db, [jobs.gated, jobs.gated, jobs.gated]);
  const { id } = await db.hf.enqueue(jobs.spin, { ms: 600_000 });
  await worker.hears('handling', { id });
  const tookMs = await endsInTime(worker, FORCED);
  expect(tookMs).toBeGreaterThan(GRACE_MS - 50);
  expect(await queue(db)).toEqual({ 'pending/0/0': 4 });
  expect(await statuses(db)).toEqual(['dead']);
  expect(worker.describe()).toMatch(/4 of 4 jobs were handed back/);
});

test('a handler that begins to spin after the signal does not keep the process', async () => {
  const db = await ground();
  const worker = await running(db, [jobs.gated, spinLater], { ms: 400, stubborn: true });
  await endsInTime(worker, FORCED);
  expect(await queue(db)).toEqual({ 'pending/0/0': 2 });
  expect(await statuses(db)).toEqual(['dead']);
});

test('a handler that begins to spin after its job was handed back does not keep the process', async () => {
  const db = await ground();
  const worker = await running(db, [spinLater], { ms: GRACE_MS + 700 });
  // Whether the process had ended before is a question of milliseconds.
  worker.signal('SIGTERM');
  const at = performance.now();
  await until('the process ends', () => worker.exit, { timeoutMs: 20_000 });
  expect(performance.now() - at).toBeLessThan(GONE_MS);
  expect(await queue(db)).toEqual({ 'pending/0/0': 1 });
});

test('a handler that spins for less than the grace period completes, and the drain is a quiet one', async () => {
  const db = await ground();
  const worker = await readyWorker(db.url, { ...DRAINS, grace: '10s' });
  const { id } = await db.hf.enqueue(jobs.spin, { ms: 1_500 });
  await worker.hears('handling', { id });
  worker.signal('SIGTERM');
  expect(await worker.exited, worker.describe()).toEqual(QUIET);
  await db.completed(1);
  expect(worker.messages.at(-1)).toMatchObject({ kind: 'ended', stats: { completed: 1, lost: 0 } });
});

test('a grace period begins with the signal, also when a handler kept it from being heard', async () => {
  const db = await ground();
  const graceMs = 3_000;
  const worker = await readyWorker(db.url, { ...DRAINS, grace: graceMs });
  const waiting = await db.hf.enqueue(jobs.gated, { stubborn: true });
  await worker.hears('handling', { id: waiting.id });
  const { id } = await db.hf.enqueue(jobs.spin, { ms: 2_000 });
  await worker.hears('handling', { id });
  const at = performance.now();
  worker.signal('SIGTERM');
  await worker.hears('aborted', { id: waiting.id });
  const tookMs = performance.now() - at;
  expect(tookMs).toBeGreaterThan(graceMs - 200);
  expect(tookMs).toBeLessThan(graceMs + 1_000);
  expect(await worker.exited, worker.describe()).toEqual(QUIET);
  await db.completed(1);
  expect(await queue(db)).toEqual({ 'pending/0/0': 1 });
});

test('a second signal ends a process at once that spins', async () => {
  const db = await ground();
  const worker = await readyWorker(db.url, { ...DRAINS, grace: '60s' });
  const { id } = await db.hf.enqueue(jobs.spin, { ms: 600_000 });
  await worker.hears('handling', { id });
  worker.signal('SIGTERM');
  await drains(db);
  expect(worker.exit).toBeNull();
  const at = performance.now();
  worker.signal('SIGTERM');
  expect(await worker.exited).toEqual(FORCED);
  expect(performance.now() - at).toBeLessThan(2_000);
  expect(await queue(db)).toEqual({ 'pending/0/0': 1 });
});

test.each(['holdfast.inbox', 'holdfast.workers', 'holdfast.inbox, holdfast.workers'])(
  'a process that waits for a lock on %s ends in time',
  async (tables) => {
    const db = await ground();
    const worker = await running(db, [jobs.gated, jobs.gated], { stubborn: true, firstOnly: true });
    const lock = await db.pool.connect();
    onTestFinished(() => lock.release(true));
    await lock.query(`BEGIN; LOCK TABLE ${tables} IN ACCESS EXCLUSIVE MODE`);
    await endsInTime(worker, QUIET);
    await lock.query('ROLLBACK');
    // Somebody else runs them all the same: what was not handed back is taken over.
    await readyWorker(db.url);
    await db.completed(2);
  },
);

test('a fleet that is restarted one by one under load loses no lease, spends no attempt and runs no job twice', async () => {
  const db = await ground();
  // A machine that is busy with other tests must not look like a crash.
  const calm = { heartbeat: '1s', ttl: '30s', lease: '60s' } as const;
  const options: ChildWorkerOptions = { ...QUICK, ...calm, concurrency: 5, grace: '20s' };
  let fleet = await Promise.all([1, 2, 3].map(() => readyWorker(db.url, options)));
  const total = 1_500;
  const enqueueing = (async () => {
    for (let n = 0; n < total; n += 100) {
      await db.hf.enqueueMany(
        // So many keys that every worker has some.
        Array.from({ length: 100 }, (_, more) =>
          jobs.guarded.of({ ms: 5 }, { key: `k${(n + more) % 700}` }),
        ),
      );
    }
  })();
  for (let round = 0; round < 3; round++) {
    const [leaving, ...rest] = fleet as [Child, ...typeof fleet];
    await until('it has done something', async () => {
      return ((await leaving.ask('stats')).stats?.completed ?? 0) > 20;
    });
    leaving.signal('SIGTERM');
    fleet = [...rest, await readyWorker(db.url, options)];
    expect(await leaving.exited, leaving.describe()).toEqual(QUIET);
    expect(leaving.messages.at(-1)).toMatchObject({ kind: 'ended', stats: { lost: 0, failed: 0 } });
    expect(leaving.heard('reborn')).toBeUndefined();
  }
  for (const worker of fleet) expect(worker.heard('reborn')).toBeUndefined();
  await enqueueing;
  await db.completed(total);
  expect(await queue(db)).toEqual({});
  // What is handed back and claimed again has another generation, but no attempt more, and no history.
  expect(
    await db.rows(
      `SELECT count(*)::int, max(attempts) AS attempts FROM holdfast.inbox_archive WHERE history IS NULL`,
    ),
  ).toEqual([{ count: total, attempts: 1 }]);
  expect(
    await db.rows('SELECT count(*)::int, count(DISTINCT job_id)::int AS jobs FROM effects'),
  ).toEqual([{ count: total, jobs: total }]);
}, 180_000);
