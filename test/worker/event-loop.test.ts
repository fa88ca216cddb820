/**
 * However fast jobs come and end, the event loop of the worker turns: settles, renewals, signals and
 * whatever else the process does wait for their turn, and not for the end of the queue.
 */
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { bucketOf } from '../../packages/holdfast/src/job/key.js';
import { testDatabase } from '../support/database.js';
import { until } from '../support/until.js';
import { testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const work = job('work');
const LONGEST_MS = 300;

beforeEach(() => db.rows('TRUNCATE holdfast.inbox, holdfast.inbox_archive'));

/** Calls `turn` in every turn of the event loop, until the test is over. */
function everyTurn(turn: () => void): void {
  let over = false;
  onTestFinished(() => {
    over = true;
  });
  const next = () => {
    turn();
    if (!over) setImmediate(next);
  };
  setImmediate(next);
}

async function add(key: string, count: number): Promise<void> {
  await db.rows(
    `INSERT INTO holdfast.inbox (type, partition_key, partition_bucket, payload)
     SELECT 'work', $1, $2, '1' FROM generate_series(1, $3::int)`,
    [key, bucketOf(key), count],
  );
}

test('between handlers that compute and end without a promise', async () => {
  await add('k', 400);
  let [ran, before, most] = [0, 0, 0];
  everyTurn(() => {
    most = Math.max(most, ran - before);
    before = ran;
  });
  start(db.hf, (worker) =>
    worker.handle(work, () => {
      for (const until = performance.now() + 1; performance.now() < until; );
      ran++;
    }),
  );
  await until('all have run', () => ran === 400, { timeoutMs: 20_000 });
  // Of a slice of ten milliseconds; all that were claimed together would be hundreds.
  expect(most).toBeGreaterThan(0);
  expect(most).toBeLessThan(40);
});

test('while short jobs are claimed by the thousand', async () => {
  const longest: number[] = [];
  // The better of two; the second is for a machine that stood still in the first.
  for (let round = 0; round < 2 && !longest.some((ms) => ms < LONGEST_MS); round++) {
    await db.rows('TRUNCATE holdfast.inbox, holdfast.inbox_archive');
    await add('hot', 7_500);
    for (let n = 0; n < 50; n++) await add(`order:${n}`, 50);
    let [ran, last, gapMs] = [0, performance.now(), 0];
    everyTurn(() => {
      const now = performance.now();
      gapMs = Math.max(gapMs, now - last);
      last = now;
    });
    const worker = start(db.hf, (one) =>
      one.handle(work, () => {
        ran++;
      }),
    );
    await until('all have run', () => ran === 10_000, { timeoutMs: 20_000 });
    longest.push(gapMs);
    await worker.stop();
  }
  expect(Math.min(...longest)).toBeLessThan(LONGEST_MS);
});
