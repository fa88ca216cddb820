/** The support queries of part 8, copied as they are printed, on a queue whose state is known. */
import type pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { complete } from '../../packages/holdfast/src/settle/complete.js';
import { deadLetter } from '../../packages/holdfast/src/settle/dead-letter.js';
import { claimAs, heldOf } from '../support/claiming.js';
import { INBOX, testDatabase } from '../support/database.js';

const db = testDatabase();
let session: pg.PoolClient;

const OLDEST_PENDING = `
-- Oldest pending work: user-visible lag signal
SELECT now() - min(created_at) AS oldest_pending_age
FROM inbox
WHERE status = 'pending';`;

const STUCK = `
-- Rows stuck in processing beyond their lease
SELECT id, partition_key, claimed_by, lease_expires_at, attempts, last_error
FROM inbox
WHERE status = 'processing'
  AND lease_expires_at < now()
ORDER BY lease_expires_at
LIMIT 50;`;

const DEAD_LETTERS = `
-- Dead letters grouped by handler or stream
SELECT partition_key, count(*) AS dead_letters, max(last_error) AS sample_error
FROM inbox
WHERE status = 'dead_letter'
GROUP BY partition_key
ORDER BY dead_letters DESC;`;

const HEARTBEAT = `
-- Called every 10 seconds by each worker
INSERT INTO workers (id, last_seen_at, metadata)
VALUES ('worker-host1-4821', now(), '{"version":"1.2.0"}')
ON CONFLICT (id) DO UPDATE SET
  last_seen_at = EXCLUDED.last_seen_at,
  status       = 'alive',
  metadata     = EXCLUDED.metadata;`;

const LIVE_WORKERS = `
-- Step 1: live workers → build ring → owned_buckets[] in app
SELECT id FROM workers
WHERE status = 'alive'
  AND last_seen_at > now() - interval '30 seconds'
ORDER BY id;`;

const run = async (text: string) => (await session.query(text)).rows;

/** Jobs of one type, enqueued and claimed by w1, and then aged by the minutes given. */
async function plant(type: string, keys: string[], ageMinutes: number[]) {
  await db.hf.enqueueMany(keys.map((key) => job(type).item({}, { partitionKey: key })));
  const claimed = await claimAs(db.engine, 'w1', { types: [type] });
  for (const [index, key] of keys.entries()) {
    await db.rows(
      `UPDATE holdfast.inbox SET created_at = now() - $3 * interval '1 minute'
       WHERE type = $1 AND partition_key = $2`,
      [type, key, ageMinutes[index]],
    );
  }
  return keys.map((key) => claimed.find((one) => one.partitionKey === key)!);
}

beforeAll(async () => {
  session = await db.pool.connect();
  await session.query('SET search_path TO holdfast');
});
afterAll(() => session.release(true));

test('on an empty queue they say that there is nothing', async () => {
  expect(await run(OLDEST_PENDING)).toEqual([{ oldest_pending_age: null }]);
  expect(await run(STUCK)).toEqual([]);
  expect(await run(DEAD_LETTERS)).toEqual([]);
});

describe('on a queue with jobs in every state', () => {
  beforeAll(async () => {
    // Completed: the oldest of all, and with errors of their own; none may appear anywhere.
    const done = await plant('done', ['order:old', 'order:1', 'order:2'], [900, 800, 700]);
    await db.rows(`UPDATE holdfast.inbox SET last_error = 'zzz: of a completed job'`);
    await complete(db.engine, INBOX, 'w1', done.map(heldOf));

    const dead = await plant(
      'dead',
      ['order:1', 'order:2', 'order:3', 'order:1b', 'order:2b', 'order:1c'],
      [600, 600, 600, 600, 600, 600],
    );
    const errors = ['a: first', 'c: third', 'd: only one', 'b: second', 'a: fourth', 'a: last'];
    await deadLetter(
      db.engine,
      INBOX,
      'w1',
      dead.map((one, i) => ({ ...heldOf(one), error: errors[i]!, summary: errors[i]! })),
    );
    await db.rows(`UPDATE holdfast.inbox SET partition_key = left(partition_key, 7)
      WHERE status = 'dead_letter'`);

    // In hand: two beyond their lease, one within it. Their ages are greater than any pending one's.
    await plant('held', ['order:5', 'order:6', 'order:7'], [500, 500, 500]);
    await db.rows(`UPDATE holdfast.inbox SET last_error = 'printer on fire', attempts = 2,
      lease_expires_at = now() - interval '2 minutes' WHERE partition_key = 'order:5'`);
    await db.rows(`UPDATE holdfast.inbox
      SET lease_expires_at = now() - interval '9 minutes' WHERE partition_key = 'order:6'`);

    // Waiting: 45 minutes is the oldest; one of them is not due yet, which the query does not ask.
    await db.hf.enqueueMany(
      [10, 45, 3].map((age) =>
        job('wait').item({}, { partitionKey: `wait:${age}`, delay: age === 3 ? '1h' : 0 }),
      ),
    );
    for (const age of [10, 45, 3]) {
      await db.rows(
        `UPDATE holdfast.inbox SET created_at = now() - $1 * interval '1 minute'
         WHERE partition_key = $2`,
        [age, `wait:${age}`],
      );
    }
  });

  test('Oldest pending work', async () => {
    const [row] = await run(OLDEST_PENDING);
    const { hours = 0, minutes = 0, days = 0 } = row.oldest_pending_age;
    expect([days, hours, minutes]).toEqual([0, 0, 45]);
  });

  test('Rows stuck in processing beyond their lease', async () => {
    const rows = await run(STUCK);
    expect(rows).toMatchObject([
      { partition_key: 'order:6', claimed_by: 'w1', attempts: 1, last_error: null },
      { partition_key: 'order:5', claimed_by: 'w1', attempts: 2, last_error: 'printer on fire' },
    ]);
    expect(rows.every((row) => row.lease_expires_at < new Date())).toBe(true);
  });

  test('Dead letters grouped by handler or stream', async () => {
    expect(await run(DEAD_LETTERS)).toEqual([
      { partition_key: 'order:1', dead_letters: '3', sample_error: 'b: second' },
      { partition_key: 'order:2', dead_letters: '2', sample_error: 'c: third' },
      { partition_key: 'order:3', dead_letters: '1', sample_error: 'd: only one' },
    ]);
  });
});

describe('the registry', () => {
  test('the heartbeat upsert registers a worker, and refreshes it', async () => {
    await run(HEARTBEAT);
    await db.rows(`UPDATE holdfast.workers SET status = 'draining', metadata = '{}',
      last_seen_at = now() - interval '1 hour', started_at = now() - interval '2 hours'`);
    await run(HEARTBEAT);
    const [row] = await db.rows(
      `SELECT *, now() - last_seen_at < interval '10 seconds' AS fresh,
         now() - started_at > interval '1 hour' AS kept
       FROM holdfast.workers`,
    );
    expect(row).toMatchObject({
      id: 'worker-host1-4821',
      status: 'alive',
      metadata: { version: '1.2.0' },
      fresh: true,
      kept: true,
    });
  });

  test('the live workers are those that are alive and were seen within 30 seconds', async () => {
    await db.rows(`INSERT INTO holdfast.workers (id, status, last_seen_at) VALUES
      ('b-live', 'alive', now() - interval '20 seconds'), ('a-live', 'alive', now()),
      ('silent', 'alive', now() - interval '31 seconds'), ('leaving', 'draining', now()),
      ('gone', 'dead', now())`);
    expect(await run(LIVE_WORKERS)).toEqual([
      { id: 'a-live' },
      { id: 'b-live' },
      { id: 'worker-host1-4821' },
    ]);
  });
});
