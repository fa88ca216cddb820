/**
 * Failures share commits with the failures of the next moment. Nobody can tell from when they are due, the next
 * of a key waits for nothing but its turn, and a worker that stops writes them first.
 */
import { beforeAll, beforeEach, expect, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { testDatabase } from '../support/database.js';
import { until } from '../support/until.js';
import { testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const DELAY_MS = 60_000;
const GATHER_MS = 4;
const fails = job<{ n: number }>('fails', { retry: () => DELAY_MS });
const once = job<{ n: number }>('once', { queue: 'ledger', maxAttempts: 1 });

beforeAll(() => db.hf.createQueue('ledger', { ordering: 'key' }));
beforeEach(() => db.rows('TRUNCATE holdfast.inbox, holdfast.ledger'));

const enqueue = (count: number, what = fails, options = {}) =>
  db.hf.enqueueMany(Array.from({ length: count }, (_, n) => what.item({ n }, options)));

const waiting = async (count: number) => {
  const text = `SELECT FROM holdfast.inbox WHERE status = 'pending' AND attempts = 1`;
  return (await db.rows(text)).length === count;
};

/** Failures one after the other, each after a way to the database and back. Returns when each was, by its clock. */
async function failing(count: number) {
  await enqueue(count);
  const failedAt = new Map<number, number>();
  const { events } = start(
    db.hf,
    (w) =>
      w.handle(fails, async ({ payload }) => {
        const [row] = await db.rows<{ ms: number }>(
          'SELECT extract(epoch FROM clock_timestamp())::float8 * 1000 AS ms',
        );
        failedAt.set(payload.n, row?.ms ?? 0);
        throw new Error('not today');
      }),
    { concurrency: 1 },
  );
  await until('all have failed', () => waiting(count));
  return { failedAt, events };
}

test('those of a moment share a commit', async () => {
  const from = performance.now();
  const { events } = await failing(60);
  const tookMs = performance.now() - from;
  const statements = events.filter(
    (event) => event.kind === 'statement' && event.statement === 'fail',
  );
  // One at once, one for every moment, and one whenever there are enough.
  expect(statements.length).toBeLessThanOrEqual(2 + tookMs / GATHER_MS + 60 / 32);
});

test('they are due when they would have been', async () => {
  const { failedAt } = await failing(10);
  const rows = await db.rows<{ n: number; due: number }>(
    `SELECT (payload ->> 'n')::integer AS n, extract(epoch FROM available_at)::float8 * 1000 AS due
     FROM holdfast.inbox`,
  );
  const laterMs = rows
    .map(({ n, due }) => due - (failedAt.get(n) ?? 0) - DELAY_MS)
    .sort((a, b) => a - b);
  expect(laterMs[0]).toBeGreaterThanOrEqual(0);
  expect(laterMs[5]).toBeLessThan(100);
});

test('behind a job that was tried for the last time its key goes on at once', async () => {
  await enqueue(20, once, { partitionKey: 'order:9182' });
  start(
    db.hf,
    (w) =>
      w.handle(once, () => {
        throw new Error('never');
      }),
    { poll: '10s' },
  );
  const deadLetters = async () =>
    (await db.rows(`SELECT FROM holdfast.ledger WHERE status = 'dead_letter'`)).length;
  await until('the first is a dead letter', async () => (await deadLetters()) > 0, { everyMs: 2 });
  const from = performance.now();
  await until('all are dead letters', async () => (await deadLetters()) === 20);
  expect(performance.now() - from).toBeLessThan(5_000);
});

test('a worker that stops writes the failures that wait for others', async () => {
  await enqueue(2);
  let runs = 0;
  const { stop, events } = start(
    db.hf,
    (w) =>
      w.handle(fails, async () => {
        const written = () => events.some(({ kind }) => kind === 'failed');
        if (++runs === 2) await until('the first is written', written, { everyMs: 1 });
        throw new Error('not today');
      }),
    { concurrency: 1 },
  );
  await until(
    'the first is written, and the second has begun',
    () => runs === 2 && events.some(({ kind }) => kind === 'failed'),
    { everyMs: 1 },
  );
  await stop(50);
  expect(await waiting(2)).toBe(true);
});

test('suspects that run alone follow each other without waiting for a poll', async () => {
  await enqueue(10);
  await db.rows(`UPDATE holdfast.inbox SET crashes = 4`);
  const ranAt: number[] = [];
  start(
    db.hf,
    (w) =>
      w.handle(fails, () => {
        ranAt.push(performance.now());
        throw new Error('not today');
      }),
    { poll: '10s' },
  );
  await until('all have failed', () => waiting(10));
  expect(ranAt).toHaveLength(10);
  expect(ranAt[9]! - ranAt[0]!).toBeLessThan(3_000);
  const rows = await db.rows('SELECT DISTINCT crashes, isolated FROM holdfast.inbox');
  expect(rows).toEqual([{ crashes: 0, isolated: false }]);
});

test('a worker that may hold only a few does not wait for many', async () => {
  await enqueue(60);
  let from = 0;
  start(
    db.hf,
    (w) =>
      w.handle(fails, () => {
        from ||= performance.now();
        throw new Error('not today');
      }),
    { concurrency: 1, prefetch: 0, batchSize: 1 },
  );
  await until('all have failed', () => waiting(60));
  // It holds three at most.
  // Sixty rounds that wait for others would take six seconds.
  expect(performance.now() - from).toBeLessThan(4_500);
});
