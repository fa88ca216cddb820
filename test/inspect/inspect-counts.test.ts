/** How many: exact while a queue is small; near the truth and cheap when it is not; what runs, exact always. */
import { beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { listJobs } from '../../packages/holdfast/src/inspect/job/list.js';
import { countByStatus } from '../../packages/holdfast/src/inspect/queue/counts.js';
import { oldestByTime, oldestDue } from '../../packages/holdfast/src/inspect/queue/oldest.js';
import { overview } from '../../packages/holdfast/src/inspect/queue/overview.js';
import { rate } from '../../packages/holdfast/src/inspect/queue/size.js';
import { reading } from '../../packages/holdfast/src/inspect/reading/reading.js';
import { text } from '../../packages/holdfast/src/postgres/statement.js';
import {
  clearAll,
  plantArchived,
  plantClaim,
  plantJob,
  plantWorker,
} from '../support/cli-plant.js';
import { INBOX, testDatabase } from '../support/database.js';

const db = testDatabase();
beforeAll(() => db.hf.createQueue('orders', { ordering: 'key' }));
beforeEach(() => clearAll(db));

const counts = (queue = 'inbox', budgetMs?: number) =>
  reading(db.pool, (reader) =>
    countByStatus(
      reader,
      { schema: 'holdfast', queue },
      budgetMs === undefined ? {} : { budgetMs },
    ),
  );
const PLAN = { 'QUERY PLAN': text };
const ageMs = (time: string | null) => Date.now() - Date.parse(time as string);

// First: a session may report the rows of a large queue long after they were truncated.
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
    ['orders', 0, 0],
    ['outbox', 1, 1],
  ]);
  expect(seen.workers.map(({ worker, held, expired }) => [worker.id, held, expired])).toEqual([
    ['w1', 2, 1],
    ['w2', 0, 0],
  ]);
  const all = await reading(db.pool, (reader) => overview(reader, 'holdfast', { withDead: true }));
  expect(all.workers.map(({ worker }) => worker.id)).toEqual(['w1', 'gone', 'w2']);
});

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

  test('jobs in every state, with what each worker holds', async () => {
    for (let n = 0; n < 3; n++) await plantJob(db, { dueInMs: -60_000 });
    await plantJob(db, { key: 'order:1', dueInMs: -120_000, crashes: 2 });
    await plantJob(db, { dueInMs: 60_000 });
    await plantJob(db, { status: 'processing', worker: 'w1' });
    await plantJob(db, { status: 'processing', worker: 'w1', leaseInMs: -1_000 });
    await plantJob(db, { status: 'processing', worker: 'w2' });
    await plantJob(db, { status: 'dead_letter' });
    await plantJob(db, { status: 'dead_letter', parked: true });
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

test('the oldest due job of a queue by key is found behind more dead letters than are read by age', async () => {
  await db.rows(`INSERT INTO holdfast.orders (id, type, partition_key, partition_bucket, payload, status, available_at, parked)
    SELECT ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, 'noop', 'd', 0, '{}', 'dead_letter', 'infinity', true
    FROM generate_series(1, 10100) AS n`);
  // Heads of keys that are read before it.
  await db.rows(`INSERT INTO holdfast.orders (type, partition_key, partition_bucket, payload)
    SELECT 'noop', 'k' || n, 1, '{}' FROM generate_series(1, 2100) AS n`);
  await plantJob(db, {
    queue: 'orders',
    key: 'z',
    id: '00000000-0000-7000-8000-000000010200',
    dueInMs: -60_000,
  });
  await db.rows('UPDATE holdfast.orders SET partition_bucket = 1023 WHERE partition_key = $1', [
    'z',
  ]);
  const oldest = await reading(db.pool, (reader) =>
    oldestDue(reader, { schema: 'holdfast', queue: 'orders' }, true),
  );
  expect(ageMs(oldest.oldestDue)).toBeGreaterThan(55_000);
});

describe('a larger one is estimated, and says so', () => {
  const ROWS = 60_000;
  const fill = (queue: string, keys: number) =>
    db.rows(
      `WITH k AS MATERIALIZED (
         SELECT g, 'order:' || g AS key, holdfast.bucket_of('order:' || g) AS bucket
         FROM generate_series(0, $2::int - 1) AS g)
       INSERT INTO holdfast.${queue} (type, partition_key, partition_bucket, payload, available_at, parked)
       SELECT 'noop', k.key, k.bucket, '{}', now() - interval '1 minute' + n * interval '1 ms', false
       FROM generate_series(1, $1::int) AS n JOIN k ON k.g = n % $2::int
       ORDER BY n`,
      [ROWS, keys],
    );
  /** So many, from the front of the queue or, with an offset, from deep inside it. */
  const claim = async (queue: string, count: number, worker: string, offset = 0) => {
    const pending = await db.rows<{ id: string }>(
      `SELECT id FROM holdfast.${queue} WHERE status = 'pending' ORDER BY position OFFSET $2 LIMIT $1`,
      [count, offset],
    );
    const ids = pending.map(({ id }) => id);
    // In two statements: where the statistics call the table empty, a join of the two reads it for every row.
    await db.rows(
      `UPDATE holdfast.${queue} SET status = 'processing', claimed_by = $2, claimed_at = now(), attempts = 1,
         lease_expires_at = now() + interval '1 minute', lease_generation = 1
       WHERE id = ANY ($1)`,
      [ids, worker],
    );
    await plantClaim(db, queue, worker, ids);
    return ids;
  };
  const oldestPending = async (queue: string) => {
    const [row] = await db.rows<{ at: Date }>(
      `SELECT min(available_at) AS at FROM holdfast.${queue} WHERE status = 'pending'`,
    );
    return row?.at.getTime() as number;
  };

  test('by time: what runs is exact wherever it lies, and so is how long the oldest waits', async () => {
    await fill('inbox', 2_000);
    await claim('inbox', 300, 'w1');
    // Behind tens of thousands of older due jobs, such as those of types that nobody handles.
    const deep = await claim('inbox', 100, 'w2', 50_000);
    await db.rows(
      `UPDATE holdfast.inbox SET lease_expires_at = now() - interval '1 s' WHERE id = ANY ($1)`,
      [deep.slice(0, 40)],
    );
    await db.rows(`UPDATE holdfast.inbox SET status = 'dead_letter', available_at = 'infinity'
      WHERE position > (SELECT max(position) - 700 FROM holdfast.inbox)`);
    await db.rows(`UPDATE holdfast.inbox SET available_at = now() + interval '1 hour'
      WHERE status = 'pending' AND position > (SELECT position FROM holdfast.inbox WHERE status = 'pending'
        ORDER BY position DESC OFFSET 70 LIMIT 1)`);
    await db.rows('ANALYZE holdfast.inbox');
    const found = await counts();
    expect(found).toMatchObject({
      approximate: true,
      deadLetterApproximate: false,
      deadLetter: 700,
      processing: 400,
      expired: 40,
      scheduled: 70,
    });
    expect(found.held).toMatchObject([
      { worker: 'w1', jobs: 300, expired: 0 },
      { worker: 'w2', jobs: 100, expired: 40 },
    ]);
    expect(Math.abs(found.pending - (ROWS - 1_100))).toBeLessThan(ROWS * 0.02);
    // A list of what runs finds all of it at once, too.
    const running = { statuses: ['processing'] };
    const page = await reading(db.pool, (reader) =>
      listJobs(reader, INBOX, running, { limit: 1_000, order: 'oldest', byClaims: true }),
    );
    expect(page).toMatchObject({ jobs: { length: 400 }, next: null });
    // After a reset the server's counters begin anew; what was counted once still tells.
    await db.rows(`SELECT pg_stat_reset_single_table_counters('holdfast.inbox'::regclass)`);
    expect(Math.abs((await counts()).pending - (ROWS - 1_100))).toBeLessThan(ROWS * 0.1);
    expect(Date.parse(found.oldestDue as string)).toBe(await oldestPending('inbox'));
  });

  test('right after a burst, when the statistics call the queue empty, it is still read in order, and is not taken for a small one', async () => {
    await db.rows('ALTER TABLE holdfast.inbox SET (autovacuum_enabled = off)');
    onTestFinished(async () => {
      await db.rows('ALTER TABLE holdfast.inbox RESET (autovacuum_enabled)');
    });
    await db.rows('ANALYZE holdfast.inbox');
    await fill('inbox', 100);
    const [before] = await db.rows<{ n: number }>(
      `SELECT reltuples::int AS n FROM pg_class WHERE oid = 'holdfast.inbox'::regclass`,
    );
    expect(before?.n).toBe(0);
    const plan = await reading(db.pool, (reader) =>
      reader.run(
        { ...oldestByTime, text: `EXPLAIN ${oldestByTime.text}`, columns: PLAN },
        INBOX,
        [],
      ),
    );
    expect(plan.map((row) => row['QUERY PLAN']).join('\n')).not.toMatch(/Sort|Seq Scan/);
    const found = await counts();
    expect(found.approximate).toBe(true);
    expect(found.pending).toBeGreaterThanOrEqual(50_000);
  });

  test('a suspect, which is not in the index that claims read, is still the oldest; and a claim of which some jobs have ended, or were claimed again, counts none twice', async () => {
    await fill('inbox', 100);
    await plantJob(db, { crashes: 3, dueInMs: -3_600_000 });
    const ids = await claim('inbox', 10, 'w1');
    await db.rows('DELETE FROM holdfast.inbox WHERE id = $1', [ids[0]]);
    // Released, and claimed once more by the same worker; and another by another one.
    await plantClaim(db, 'inbox', 'w1', [ids[1] as string]);
    await db.rows(`UPDATE holdfast.inbox SET claimed_by = 'w2' WHERE id = $1`, [ids[2]]);
    await plantClaim(db, 'inbox', 'w2', [ids[2] as string]);
    await db.rows('ANALYZE holdfast.inbox');
    const found = await counts();
    expect(ageMs(found.oldestDue)).toBeGreaterThan(3_590_000);
    expect(found.held).toMatchObject([
      { worker: 'w1', jobs: 8 },
      { worker: 'w2', jobs: 1 },
    ]);
  });

  test.each([
    ['many keys', 5_000],
    ['one key', 1],
  ])('by key, %s', async (_, keys) => {
    await fill('orders', keys);
    await claim('orders', 750, 'w1');
    await db.rows('ANALYZE holdfast.orders');
    const found = await counts('orders');
    expect(found).toMatchObject({
      approximate: true,
      processing: 750,
      deadLetter: 0,
      scheduled: null,
    });
    expect(found.held).toMatchObject([{ worker: 'w1', jobs: 750 }]);
    expect(Date.parse(found.oldestDue as string)).toBe(await oldestPending('orders'));
  });

  test('by key, with more dead letters in front than are read: the heads of keys tell', async () => {
    await fill('orders', 3_000);
    await db.rows(`UPDATE holdfast.orders SET status = 'dead_letter', available_at = 'infinity', parked = true
      WHERE position < (SELECT position FROM holdfast.orders ORDER BY position OFFSET 12000 LIMIT 1)`);
    await db.rows('ANALYZE holdfast.orders');
    const found = await counts('orders', 0);
    expect(found.deadLetterApproximate).toBe(true);
    expect(Math.abs(found.deadLetter - 12_000)).toBeLessThan(1_200);
    // An act on many of them is seen at once, and not when the table is vacuumed.
    await db.rows(`UPDATE holdfast.orders SET type = 'retried', status = 'pending', available_at = now(), parked = false
      WHERE status = 'dead_letter' AND id IN (SELECT d.id FROM holdfast.orders AS d WHERE d.status = 'dead_letter' LIMIT 1500)`);
    expect(Math.abs((await counts('orders', 0)).deadLetter - 10_500)).toBeLessThan(1_000);
    await db.rows(`UPDATE holdfast.orders SET status = 'dead_letter', available_at = 'infinity', parked = true
      WHERE type = 'retried'`);
    expect(await counts('orders', 60_000)).toMatchObject({
      deadLetter: 12_000,
      deadLetterApproximate: false,
    });
    const late = Date.parse(found.oldestDue as string) - (await oldestPending('orders'));
    expect(late).toBeGreaterThanOrEqual(0);
    expect(late).toBeLessThan(1_000);
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

test('beside many dead letters no fewer wait than wait for their time', async () => {
  await db.hf.createQueue('letters');
  await db.rows('ALTER TABLE holdfast.letters SET (autovacuum_enabled = off)');
  await db.rows(`INSERT INTO holdfast.letters (partition_bucket, type, partition_key, payload, status, available_at, parked)
    SELECT 1, 'x', 'k', '{}', CASE WHEN n > 100 THEN 'dead_letter' ELSE 'pending' END::holdfast.inbox_status,
      CASE WHEN n > 100 THEN 'infinity' ELSE now() + interval '1 hour' END, n > 100
    FROM generate_series(1, 52000) AS n; SELECT pg_stat_force_next_flush()`);
  // As after a crash of the server.
  await db.rows(`SELECT pg_stat_reset_single_table_counters('holdfast.letters'::regclass)`);
  expect(await counts('letters', 60_000)).toMatchObject({
    ...{ pending: 100, scheduled: 100, deadLetter: 51_900 },
  });
});
