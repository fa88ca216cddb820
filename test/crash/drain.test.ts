/**
 * The end of a drain: two seconds after the grace period the process is gone, also when handlers do not end,
 * and its jobs are back in the queue with their attempt. `GONE_MS` adds a second for busy machines. Only a
 * handler that blocks the event loop keeps the process, until its supervisor kills it.
 */
import { expect, onTestFinished, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { type Child, type ChildWorkerOptions, QUICK, readyWorker } from '../support/child.js';
import { type Ground, ground, jobs, type Task } from '../support/ground.js';
import { long } from '../support/long.js';
import { until } from '../support/until.js';

const GRACE_MS = 1_000;
const GONE_MS = GRACE_MS + 3_000;
const DRAINS: ChildWorkerOptions = { ...QUICK, grace: GRACE_MS };
const QUIET = { code: 0, signal: null };

const never = job<Task>('never');
const blocked = job<Task>('blocked');
const blockedInTransaction = job<Task>('blocked_in_transaction');

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
  const items = kinds.map((kind) => (kind as ReturnType<typeof job<Task>>).item(task));
  const enqueued = await db.hf.enqueueMany(items);
  for (const { id } of enqueued) await worker.hears('handling', { id });
  return worker;
}

test.each([
  ['never ends', [never, never]],
  [
    "is stuck in a query, of its own or of its job's transaction",
    [blocked, blocked, blockedInTransaction, blockedInTransaction],
  ],
] as const)('a handler that %s does not keep the process', async (_, kinds) => {
  const db = await ground();
  const worker = await running(db, [...kinds, jobs.gated], { stubborn: true });
  const tookMs = await endsInTime(worker, QUIET);
  expect(tookMs).toBeGreaterThan(GRACE_MS - 50);
  expect(await queue(db)).toEqual({ 'pending/0/0': kinds.length + 1 });
  expect(await statuses(db)).toEqual(['dead']);
  expect(await db.rows('SELECT FROM effects')).toEqual([]);
  if (kinds[0] === never)
    expect(worker.describe()).toMatch(/handlers that did not end kept the process/);
});

test('a process that spins keeps its jobs until its supervisor kills it; then others run them soon', async () => {
  const db = await ground();
  const task = { firstOnly: true };
  const worker = await running(db, [jobs.gated, jobs.gated, jobs.gated], task);
  const { id } = await db.hf.enqueue(jobs.spin, { ms: 600_000, ...task });
  await worker.hears('handling', { id });
  const other = await readyWorker(db.url, DRAINS);
  worker.signal('SIGTERM');
  await until('its leases were renewed', async () => {
    const text = `SELECT FROM holdfast.inbox WHERE lease_expires_at > claimed_at + interval '11 s'`;
    return (await db.rows(text)).length === 4;
  });
  expect(worker.exit).toBeNull();
  worker.signal('SIGKILL');
  await db.completed(4, 10_000);
  expect((await other.ask('stats')).stats).toMatchObject({ completed: 4, lost: 0 });
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

// What waits for either waits for both; in full each is locked alone, too.
test.each([
  'holdfast.inbox, holdfast.workers',
  ...long([], ['holdfast.inbox', 'holdfast.workers']),
])('a process that waits for a lock on %s ends in time', async (tables) => {
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
});

test('a fleet that is restarted one by one under load loses no lease, spends no attempt and runs no job twice', async () => {
  const db = await ground();
  // A machine that is busy with other tests must not look like a crash.
  const calm = { heartbeat: '1s', ttl: '30s', lease: '60s' } as const;
  const options: ChildWorkerOptions = { ...QUICK, ...calm, concurrency: 5, grace: '20s' };
  let fleet = await Promise.all([1, 2, 3].map(() => readyWorker(db.url, options)));
  const total = long(600, 3_000);
  const enqueueing = (async () => {
    for (let n = 0; n < total; n += 100) {
      await db.hf.enqueueMany(
        // So many keys that every worker has some.
        Array.from({ length: 100 }, (_, more) =>
          jobs.guarded.item({ ms: 5 }, { partitionKey: `k${(n + more) % 700}` }),
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
    expect(leaving.heard('reregistered')).toBeUndefined();
  }
  for (const worker of fleet) expect(worker.heard('reregistered')).toBeUndefined();
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
