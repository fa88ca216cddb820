/** A fleet on one queue: every job is run once, by one process. */
import { expect, test } from 'vitest';
import { readyWorker } from '../support/child.js';
import { ground, jobs } from '../support/ground.js';
import { long } from '../support/long.js';

const JOBS = long(6_000, 20_000);

test(`eight processes share ${JOBS} jobs, and no job is run twice`, async () => {
  const db = await ground();
  const items = Array.from({ length: JOBS }, (_, n) =>
    jobs.recorded.item({}, { partitionKey: `order:${n % 600}` }),
  );
  await db.hf.enqueueMany(items.slice(0, JOBS / 2));
  const fleet = await Promise.all(
    Array.from({ length: 8 }, () => readyWorker(db.url, { poll: '50ms', concurrency: 50 })),
  );
  // The second half comes while the fleet is at work, so claims meet a queue that grows and shrinks.
  await db.hf.enqueueMany(items.slice(JOBS / 2));
  await db.completed(JOBS);

  for (const worker of fleet) worker.signal('SIGTERM');
  for (const worker of fleet)
    expect(await worker.exited, worker.describe()).toMatchObject({ code: 0 });
  expect(fleet.filter((worker) => worker.heard('refused'))).toEqual([]);
  const [archive] = await db.rows(
    `SELECT count(*)::int, count(DISTINCT id)::int AS jobs, max(attempts) AS attempts,
       max(lease_generation)::int AS generations, count(DISTINCT claimed_by)::int AS workers
     FROM holdfast.inbox_archive`,
  );
  expect(archive).toMatchObject({ count: JOBS, jobs: JOBS, attempts: 1 });
  expect(archive).toMatchObject({ workers: 8 });
  const [starts] = await db.rows(
    'SELECT count(*)::int, count(DISTINCT job_id)::int AS jobs FROM starts',
  );
  expect(starts).toEqual({ count: JOBS, jobs: JOBS });
  expect(await db.rows('SELECT * FROM holdfast.inbox')).toEqual([]);
}, 120_000);
