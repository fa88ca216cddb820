/** A handler that blocks the event loop, beside others in the same process. */
import { randomUUID } from 'node:crypto';
import { rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { type ChildWorkerOptions, QUICK, readyWorker } from '../support/child.js';
import { claimInFlight, type Ground, ground, jobs, type Task } from '../support/ground.js';
import { until } from '../support/until.js';

const LEASE_MS = 2_500;
const SHORT = { ...QUICK, lease: LEASE_MS, renewEvery: '300ms' } as const;

/** The file that ends a spin. */
function spinFile() {
  const path = join(tmpdir(), `holdfast-spin-${randomUUID()}`);
  onTestFinished(() => rmSync(path, { force: true }));
  return { path, write: () => writeFileSync(path, '') };
}

/** A worker with five jobs that wait and one that spins; all six have been started. */
async function spinning(db: Ground, options: ChildWorkerOptions, task: Task) {
  const worker = await readyWorker(db.url, { ...options, concurrency: 10 });
  const waiting = await db.hf.enqueueMany(
    Array.from({ length: 5 }, () => jobs.gated.item({ firstOnly: true })),
  );
  for (const { id } of waiting) await worker.hears('handling', { id });
  const spin = await db.hf.enqueue(jobs.spin, { firstOnly: true, ...task });
  await worker.hears('handling', { id: spin.id });
  return { worker, waiting: waiting.map(({ id }) => id), spin: spin.id };
}

function archive(db: Ground) {
  return db.rows(
    `SELECT claimed_by AS by, lease_generation::int AS generation, attempts, count(*)::int
     FROM holdfast.inbox_archive WHERE status = 'completed' GROUP BY 1, 2, 3`,
  );
}

test('a handler that spins for longer than its lease costs no job of its process a lease', async () => {
  const db = await ground();
  // The TTL is over in the spin, too, unless heartbeats go on.
  const options = { ...SHORT, stallLimit: '30s' } as const;
  const { worker, waiting, spin } = await spinning(db, options, { ms: 1.6 * LEASE_MS });
  // Somebody who would take over what is let go.
  await readyWorker(db.url, options);
  await worker.hears('spun', { id: spin });
  for (const id of waiting) worker.tell({ do: 'finish', id });
  await db.completed(6);

  expect(await archive(db)).toEqual([
    { by: worker.workerId, generation: 1, attempts: 1, count: 6 },
  ]);
  expect((await worker.ask('stats')).stats).toMatchObject({ lost: 0, completed: 6 });
});

test('a process that spins beyond its stall limit is relieved of its jobs, and settles none', async () => {
  const db = await ground();
  const options = { ...SHORT, stallLimit: '500ms' } as const;
  const file = spinFile();
  const { worker, waiting, spin } = await spinning(db, options, { untilFile: file.path });
  const other = await readyWorker(db.url);
  await db.completed(6);
  other.signal('SIGTERM');
  await other.exited;
  file.write();

  await worker.hears('spun', { id: spin });
  for (const id of waiting) {
    expect(await worker.hears('aborted', { id })).toMatchObject({ code: 'LEASE_LOST' });
  }
  await until('all six are lost', async () => (await worker.ask('stats')).stats?.lost === 6);
  expect((await worker.ask('stats')).stats).toMatchObject({ completed: 0, failed: 0 });
  expect(await archive(db)).toEqual([{ by: other.workerId, generation: 2, attempts: 1, count: 6 }]);
});

test('a job whose lease ran out before its process could look at it is not started', async () => {
  const db = await ground();
  await db.hf.pause();
  const worker = await readyWorker(db.url, SHORT);
  const { id } = await db.hf.enqueue(jobs.gated, { firstOnly: true });
  const letGo = await claimInFlight(db);
  const file = spinFile();
  worker.tell({ do: 'spin', untilFile: file.path });
  await worker.hears('spinning');
  // The claim takes the job now, and its answer waits for the event loop.
  await letGo();
  await until('it is claimed', async () => (await db.hf.job(id))?.claimedBy === worker.workerId);
  const other = await readyWorker(db.url);
  await other.hears('handling', { id, generation: 2 });
  await db.completed(1);
  other.signal('SIGTERM');
  await other.exited;
  file.write();
  // One claim at a time: when it has claimed again, it has looked at that answer.
  await db.hf.enqueue(jobs.noop, {});
  await db.completed(2);
  expect(worker.heard('handling')).toBeUndefined();
});
