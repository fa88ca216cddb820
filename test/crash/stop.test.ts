/** Stopping: SIGTERM asks for a drain, and a drain ends. */
import { expect, test } from 'vitest';
import { ALONE_FROM } from '../../packages/holdfast/src/claim/suspects.js';
import { TWICE_MS } from '../../packages/holdfast/src/worker/signals.js';
import { type Child, QUICK, readyWorker } from '../support/child.js';
import { claimInFlight, type Ground, ground, jobs } from '../support/ground.js';
import { Line } from '../support/line.js';
import { longTest } from '../support/long.js';
import { until } from '../support/until.js';

const GRACE_MS = 500;
/** Two seconds after the grace period a process is gone; a busy machine takes a little longer. */
const GONE_MS = GRACE_MS + 3_500;

/** How many jobs are in the queue in each state, with how many attempts spent. */
async function queue(db: Ground): Promise<Record<string, number>> {
  const rows = await db.rows<{ state: string; count: number }>(
    `SELECT status || '/' || attempts AS state, count(*)::int FROM holdfast.inbox GROUP BY 1`,
  );
  return Object.fromEntries(rows.map(({ state, count }) => [state, count]));
}

async function exits(child: Child, code: number): Promise<void> {
  await until('the process ends', () => child.exit, { timeoutMs: 10_000 });
  expect(child.exit, child.describe()).toEqual({ code, signal: null });
}

/** Nobody is left in the registry who would have to be missed first. */
async function everybodyLeft(db: Ground): Promise<void> {
  expect(await db.rows(`SELECT id, status FROM holdfast.workers WHERE status <> 'dead'`)).toEqual(
    [],
  );
}

const draining = (db: Ground) =>
  until('the drain is announced', async () => {
    const text = `SELECT FROM holdfast.workers WHERE status = 'draining'`;
    return (await db.rows(text)).length === 1;
  });

const handled = (child: Child) => child.messages.filter(({ kind }) => kind === 'handling');

test('running handlers finish within the grace period and waiting jobs stay unspent', async () => {
  const db = await ground();
  await db.hf.enqueueMany(Array.from({ length: 10 }, () => jobs.gated.item({})));
  const worker = await readyWorker(db.url, { ...QUICK, concurrency: 2 });
  await until('two handlers run', () => handled(worker).length === 2);
  worker.signal('SIGTERM');
  await draining(db);
  expect(await queue(db)).toEqual({ 'processing/1': 2, 'pending/0': 8 });
  for (const { id } of handled(worker)) worker.tell({ do: 'finish', id: id as string });
  await exits(worker, 0);

  await db.completed(2);
  expect(await queue(db)).toEqual({ 'pending/0': 8 });
  expect(worker.messages.at(-1)).toMatchObject({ kind: 'ended', stats: { completed: 2, lost: 0 } });
  expect(worker.heard('aborted')).toBeUndefined();
  await everybodyLeft(db);
});

test('a second SIGTERM ends the process at once', async () => {
  const db = await ground();
  await db.hf.enqueue(jobs.gated, {});
  const worker = await readyWorker(db.url, { ...QUICK, grace: '60s' });
  await worker.hears('handling');
  const at = performance.now();
  worker.signal('SIGTERM');
  await draining(db);
  await until('it is not taken for the same signal', () => performance.now() - at > 2 * TWICE_MS);
  expect(worker.exit).toBeNull();
  worker.signal('SIGTERM');
  await exits(worker, 143);
});

test('a signal that a supervisor sends twice is one, and the worker drains', async () => {
  const db = await ground();
  const { id } = await db.hf.enqueue(jobs.gated, {});
  const worker = await readyWorker(db.url, { ...QUICK, grace: '60s' });
  await worker.hears('handling', { id });
  worker.signal('SIGTERM');
  worker.signal('SIGTERM');
  worker.signal('SIGINT');
  await draining(db);
  worker.tell({ do: 'finish', id });
  await exits(worker, 0);
  await db.completed(1);
});

test('handlers that ignore their signal, in a transaction or not, do not hold the process, and their attempts are restored', async () => {
  const db = await ground();
  const items = [jobs.gated, jobs.guarded].map((kind) => kind.item({ stubborn: true }));
  const ids = (await db.hf.enqueueMany(items)).map(({ id }) => id);
  const worker = await readyWorker(db.url, { ...QUICK, grace: GRACE_MS });
  for (const id of ids) await worker.hears('handling', { id });
  const asked = performance.now();
  worker.signal('SIGTERM');
  for (const id of ids)
    expect(await worker.hears('aborted', { id })).toMatchObject({ code: 'STOPPED' });
  await worker.hears('ended');
  expect(performance.now() - asked).toBeLessThan(GONE_MS);
  for (const id of ids) {
    expect(await db.hf.job(id)).toMatchObject({
      status: 'pending',
      attempts: 0,
      leaseGeneration: 1,
    });
  }
  expect(await db.rows('SELECT * FROM effects')).toEqual([]);
  await exits(worker, 0);
  expect(performance.now() - asked).toBeLessThan(GONE_MS);
  await everybodyLeft(db);
});

test('jobs that arrive with a claim that was under way at the stop go back unspent', async () => {
  const db = await ground();
  await db.hf.pause();
  const worker = await readyWorker(db.url);
  await db.hf.enqueueMany([1, 2, 3].map(() => jobs.gated.item({})));
  const letGo = await claimInFlight(db);
  worker.signal('SIGTERM');
  // It should wait for the answer; whether it does shows when it has had the time to end without.
  await worker.hears('stopped', {}, 1_000).catch(() => undefined);
  await letGo();
  await exits(worker, 0);
  expect(await queue(db)).toEqual({ 'pending/0': 3 });
  expect(worker.heard('handling')).toBeUndefined();
});

test('a worker whose database is away stops all the same', async () => {
  const db = await ground();
  await db.hf.enqueue(jobs.gated, { stubborn: true });
  const line = await Line.to(db.url);
  await line.mend();
  const worker = await readyWorker(line.url, { ...QUICK, grace: GRACE_MS });
  await worker.hears('handling');
  line.cut();
  await worker.hears('error');
  worker.signal('SIGTERM');
  await exits(worker, 0);
});

longTest(
  'at a stop a job that runs alone is finished, and the other suspects stay unspent',
  async () => {
    const db = await ground();
    const options = { ...QUICK, concurrency: 5 } as const;
    const crashed = await readyWorker(db.url, options);
    await db.hf.enqueueMany(Array.from({ length: 5 }, () => jobs.gated.item({})));
    await until('five handlers run', () => handled(crashed).length === 5);
    // It was not the first crash: one more, and they run alone.
    await db.rows('UPDATE holdfast.inbox SET crashes = $1, started = true', [ALONE_FROM - 1]);
    crashed.signal('SIGKILL');
    const worker = await readyWorker(db.url, options);
    const alone = (await worker.hears('handling')).id as string;
    expect(await queue(db)).toEqual({ 'processing/1': 1, 'pending/0': 4 });
    worker.signal('SIGTERM');
    await draining(db);
    // Whoever ends the process from now on, it is not the job.
    await until('it is blamed no more', async () => {
      return (await db.rows('SELECT FROM holdfast.inbox WHERE isolated')).length === 0;
    });
    worker.tell({ do: 'finish', id: alone });
    await exits(worker, 0);
    expect(handled(worker)).toHaveLength(1);
    await db.completed(1);
    expect(await queue(db)).toEqual({ 'pending/0': 4 });
    await everybodyLeft(db);
  },
);

test('a worker that lost everything it held stops at once', async () => {
  const db = await ground();
  const worker = await readyWorker(db.url, { ...QUICK, lease: '2s', grace: '60s' });
  await db.hf.enqueueMany(Array.from({ length: 5 }, () => jobs.gated.item({})));
  await until('five handlers run', () => handled(worker).length === 5);
  worker.signal('SIGSTOP');
  await until('its leases are over', async () => {
    const text = 'SELECT FROM holdfast.inbox WHERE lease_expires_at > now()';
    return (await db.rows(text)).length === 0;
  });
  await db.hf.pause();
  worker.signal('SIGCONT');
  await until('it has lost all five', async () => (await worker.ask('stats')).stats?.lost === 5);
  worker.signal('SIGTERM');
  await exits(worker, 0);
});
