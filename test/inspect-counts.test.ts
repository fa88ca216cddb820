/** How many: exact while a queue is small, near the truth and cheap when it is not. */
import { beforeEach, describe, expect, test } from 'vitest';
import { countByStatus } from '../src/inspect/counts.js';
import { overview } from '../src/inspect/overview.js';
import { rate } from '../src/inspect/rates.js';
import { reading } from '../src/inspect/reading.js';
import { clearAll, plantArchived, plantJob, plantWorker } from './support/cli-plant.js';
import { INBOX, testDatabase } from './support/database.js';

const db = testDatabase();
beforeEach(() => clearAll(db));

const counts = (queue = 'inbox') =>
  reading(db.pool, (reader) => countByStatus(reader, { schema: 'holdfast', queue }));
const ageMs = (time: string | null) => Date.now() - Date.parse(time as string);

describe('a queue of up to 50,000 jobs is counted exactly', () => {
  test('an empty one', async () => {
    expect(await counts()).toMatchObject({
      pending: 0,
      scheduled: 0,
      processing: 0,
      deadLetter: 0,
      expired: 0,
      oldestDue: null,
      approximate: false,
      held: [],
    });
  });

  test('jobs in every state, ordered and not, with what each worker holds', async () => {
    for (let n = 0; n < 3; n++) await plantJob(db, { dueInMs: -60_000 });
    await plantJob(db, { ordering: 'key', key: 'order:1', dueInMs: -120_000 });
    await plantJob(db, { dueInMs: 60_000 });
    await plantJob(db, { status: 'processing', worker: 'w1' });
    await plantJob(db, { status: 'processing', worker: 'w1', leaseInMs: -1_000 });
    await plantJob(db, { status: 'processing', worker: 'w2' });
    await plantJob(db, { status: 'dead_letter' });
    await plantJob(db, { status: 'dead_letter', ordering: 'key_strict' });
    const found = await counts();
    expect(found).toMatchObject({
      pending: 5,
      scheduled: 1,
      processing: 3,
      deadLetter: 2,
      expired: 1,
      approximate: false,
    });
    expect(ageMs(found.oldestDue)).toBeGreaterThan(115_000);
    expect(ageMs(found.oldestDue)).toBeLessThan(150_000);
    expect([...found.held].sort((a, b) => (a.worker < b.worker ? -1 : 1))).toMatchObject([
      { worker: 'w1', jobs: 2, expired: 1 },
      { worker: 'w2', jobs: 1, expired: 0 },
    ]);
  });
});

describe('a larger one is estimated, and says so', () => {
  const ROWS = 60_000;
  const fill = (ordering: string, keys: number) =>
    db.rows(
      `WITH k AS MATERIALIZED (
         SELECT g, 'order:' || g AS key, holdfast.bucket_of('order:' || g) AS bucket
         FROM generate_series(0, $2::int - 1) AS g)
       INSERT INTO holdfast.inbox (type, partition_key, partition_bucket, payload, ordering, available_at)
       SELECT 'noop', k.key, k.bucket, '{}', $3::holdfast.ordering,
         now() - interval '1 minute' + n * interval '1 ms'
       FROM generate_series(1, $1::int) AS n JOIN k ON k.g = n % $2::int
       ORDER BY n`,
      [ROWS, keys, ordering],
    );
  /** The first so many of the queue, as workers claim them. */
  const claimFirst = (count: number, worker: string) =>
    db.rows(
      `UPDATE holdfast.inbox SET status = 'processing', claimed_by = $2, claimed_at = now(), attempts = 1,
         lease_expires_at = now() + interval '1 minute', lease_generation = 1
       WHERE position IN (SELECT position FROM holdfast.inbox WHERE status = 'pending'
         ORDER BY position LIMIT $1)`,
      [count, worker],
    );

  test('jobs without order: what is in flight and what is dead is found among them', async () => {
    await fill('none', 2_000);
    await claimFirst(300, 'w1');
    await claimFirst(100, 'w2');
    await db.rows(`UPDATE holdfast.inbox SET status = 'dead_letter', available_at = 'infinity'
      WHERE position IN (SELECT max(position) - g FROM holdfast.inbox, generate_series(1, 700) g GROUP BY g)`);
    await db.rows('ANALYZE holdfast.inbox');
    const found = await counts();
    expect(found.approximate).toBe(true);
    expect(found.deadLetter).toBe(700);
    expect(found.processing).toBe(400);
    expect(Math.abs(found.pending - (ROWS - 1_100))).toBeLessThan(ROWS * 0.02);
    expect(found.held.find((one) => one.worker === 'w1')?.jobs).toBe(300);
    // The first 400 of a minute ago are in flight.
    const oldest = (await db.rows<{ at: Date }>(
      `SELECT min(available_at) AS at FROM holdfast.inbox WHERE status = 'pending'`,
    )) as [{ at: Date }];
    expect(Math.abs(Date.parse(found.oldestDue as string) - oldest[0].at.getTime())).toBeLessThan(
      5,
    );
  });

  test('one bucket with all that is in flight', async () => {
    await fill('none', 1);
    await claimFirst(500, 'w1');
    await db.rows('ANALYZE holdfast.inbox');
    const found = await counts();
    expect(found).toMatchObject({ approximate: true, processing: 500 });
    expect(found.held).toMatchObject([{ worker: 'w1', jobs: 500 }]);
  });

  test('jobs with an order: the runs of the keys are in flight', async () => {
    await fill('key', 500);
    await claimFirst(750, 'w1');
    await db.rows('ANALYZE holdfast.inbox');
    const found = await counts();
    expect(found).toMatchObject({ approximate: true, processing: 750, deadLetter: 0 });
    expect(ageMs(found.oldestDue)).toBeGreaterThan(55_000);
  });

  test('one that the statistics do not know yet is not taken for a small one', async () => {
    await db.rows('ALTER TABLE holdfast.inbox SET (autovacuum_enabled = off)');
    await db.rows('ANALYZE holdfast.inbox');
    await fill('none', 100);
    const [before] = await db.rows<{ n: number }>(
      `SELECT reltuples::int AS n FROM pg_class WHERE oid = 'holdfast.inbox'::regclass`,
    );
    expect(before?.n).toBe(0);
    const found = await counts();
    expect(found.approximate).toBe(true);
    expect(found.pending).toBeGreaterThanOrEqual(50_000);
    await db.rows('ALTER TABLE holdfast.inbox RESET (autovacuum_enabled)');
  });
});

describe('the rate', () => {
  test('is that of the last minute, by how jobs ended', async () => {
    for (let n = 0; n < 30; n++) await plantArchived(db, { endedAgoMs: n * 1_000 });
    await plantArchived(db, { status: 'cancelled' });
    await plantArchived(db, { status: 'dead_letter' });
    await plantArchived(db, { endedAgoMs: 120_000 });
    expect(await reading(db.pool, (reader) => rate(reader, INBOX))).toEqual({
      windowMs: 60_000,
      completed: 30,
      cancelled: 1,
      discarded: 1,
      completedPerSecond: 0.5,
      atLeast: false,
    });
  });

  test('of a queue too fast to count a minute of is that of its last seconds', async () => {
    await db.rows(
      `INSERT INTO holdfast.inbox_archive (id, created_at, completed_at, lease_generation, partition_bucket,
         attempts, max_attempts, version, status, priority, type, partition_key, payload)
       SELECT holdfast.new_id(), now(), now() - n * interval '1 ms' - interval '1 s', 1, 1, 1, 5, 1, 'completed', 2, 'noop', 'k', '{}'
       FROM generate_series(1, 55000) AS n`,
    );
    const found = await reading(db.pool, (reader) => rate(reader, INBOX));
    expect(found).toMatchObject({ windowMs: 5_000, atLeast: false });
    expect(found.completedPerSecond).toBeGreaterThan(300);
    expect(found.completedPerSecond).toBeLessThanOrEqual(1_000);
  });
});

test('the overview joins queues and workers: each worker with all that it holds anywhere', async () => {
  await db.hf.createQueue('outbox');
  await plantWorker(db, { id: 'w1' });
  await plantWorker(db, { id: 'w2', status: 'draining' });
  await plantWorker(db, { id: 'gone', status: 'dead' });
  await plantJob(db, { status: 'processing', worker: 'w1' });
  await plantJob(db, { queue: 'outbox', status: 'processing', worker: 'w1', leaseInMs: -1 });
  await plantJob(db, { queue: 'outbox' });
  const seen = await reading(db.pool, (reader) => overview(reader, 'holdfast'));
  expect(
    seen.queues.map(({ queue, counts }) => [queue.name, counts.pending, counts.processing]),
  ).toEqual([
    ['inbox', 0, 1],
    ['outbox', 1, 1],
  ]);
  expect(seen.workers.map(({ worker, held, expired }) => [worker.id, held, expired])).toEqual([
    ['w1', 2, 1],
    ['w2', 0, 0],
  ]);
  const all = await reading(db.pool, (reader) => overview(reader, 'holdfast', { withDead: true }));
  expect(all.workers.map(({ worker }) => worker.id)).toEqual(['w1', 'gone', 'w2']);
});
