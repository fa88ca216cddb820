/** Processes that are killed: their jobs are run again by others, and soon. */
import { expect, test } from 'vitest';
import { QUICK, readyWorker } from '../support/child.js';
import { ground, jobs } from '../support/ground.js';
import { until } from '../support/until.js';

test('a job whose process is killed runs again elsewhere, and its guarded effect happens once', async () => {
  const db = await ground();
  const first = await readyWorker(db.url);
  const { id } = await db.hf.enqueue(jobs.guarded, { firstOnly: true });
  await first.hears('handling', { id, generation: 1 });
  const second = await readyWorker(db.url);

  first.signal('SIGKILL');
  await second.hears('handling', { id, generation: 2 });
  await db.completed(1);

  expect(await db.rows('SELECT generation::int, pid FROM effects')).toEqual([
    { generation: 2, pid: second.pid },
  ]);
  expect(await db.hf.job(id)).toMatchObject({
    status: 'completed',
    leaseGeneration: 2,
    claimedBy: second.workerId,
  });
  expect(await db.rows('SELECT id FROM holdfast.inbox')).toEqual([]);
});

test("a dead worker's jobs are taken over long before their lease is over", async () => {
  const db = await ground();
  const first = await readyWorker(db.url, { ...QUICK, lease: '60s' });
  const { id } = await db.hf.enqueue(jobs.gated, { firstOnly: true });
  await first.hears('handling', { id });
  const held = await db.hf.job(id);
  const second = await readyWorker(db.url, { ...QUICK, lease: '60s' });

  first.signal('SIGKILL');
  await second.hears('handling', { id, generation: 2 });
  await db.completed(1);

  const [{ early }] = (await db.rows(
    `SELECT extract(epoch FROM $2::timestamptz - completed_at)::float8 AS early
     FROM holdfast.inbox_archive WHERE id = $1`,
    [id, held?.leaseExpiresAt],
  )) as [{ early: number }];
  expect(early).toBeGreaterThan(30);
});

test('a batch whose process is killed: what was done stays done, each of the others runs again', async () => {
  const db = await ground();
  const first = await readyWorker(db.url);
  await db.hf.enqueueMany(Array.from({ length: 6 }, () => jobs.batched.item({})));
  await until('both batches run', () => first.count('handling') === 6);
  await db.completed(2);
  const second = await readyWorker(db.url);

  first.signal('SIGKILL');
  await db.completed(6);

  expect(second.count('handling')).toBe(4);
  expect(
    await db.rows(`SELECT lease_generation::int AS generation, count(*)::int AS jobs
      FROM holdfast.inbox_archive GROUP BY 1 ORDER BY 1`),
  ).toEqual([
    { generation: 1, jobs: 2 },
    { generation: 2, jobs: 4 },
  ]);
  expect(await db.rows('SELECT id FROM holdfast.inbox')).toEqual([]);
});
