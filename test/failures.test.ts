/**
 * Failures that are to be tried again later share commits with the failures of the next moment. Nobody can
 * tell from when they are due, nobody waits for a burial, and a worker that stops writes them first.
 */
import { beforeEach, expect, test } from 'vitest';
import { job } from '../src/index.js';
import { testDatabase } from './support/database.js';
import { until } from './support/until.js';
import { testWorkers } from './support/workers.js';

const db = testDatabase();
const start = testWorkers();
const DELAY_MS = 60_000;
const GATHER_MS = 100;
const fails = job<{ n: number }>('fails', { retry: () => DELAY_MS });
const once = job<{ n: number }>('once', { retry: () => DELAY_MS, maxAttempts: 1, ordering: 'key' });

beforeEach(() => db.rows('TRUNCATE holdfast.inbox'));

const enqueue = (count: number, what = fails, options = {}) =>
  db.hf.enqueueMany(Array.from({ length: count }, (_, n) => what.of({ n }, options)));

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
  // The first is written at once; most of the others wait for nearly all of the time that they may.
  const { failedAt } = await failing(10);
  const rows = await db.rows<{ n: number; due: number }>(
    `SELECT (payload ->> 'n')::integer AS n, extract(epoch FROM available_at)::float8 * 1000 AS due
     FROM holdfast.inbox`,
  );
  const laterMs = rows
    .map(({ n, due }) => due - (failedAt.get(n) ?? 0) - DELAY_MS)
    .sort((a, b) => a - b);
  expect(laterMs[0]).toBeGreaterThanOrEqual(0);
  expect(laterMs[5]).toBeLessThan(GATHER_MS / 2);
});

test('a job that was tried for the last time is buried at once, and its key goes on', async () => {
  await enqueue(20, once, { key: 'order:9182' });
  start(db.hf, (w) =>
    w.handle(once, () => {
      throw new Error('never');
    }),
  );
  const buried = async () =>
    (await db.rows(`SELECT FROM holdfast.inbox WHERE status = 'dead_letter'`)).length;
  await until('the first is buried', async () => (await buried()) > 0, { everyMs: 2 });
  const from = performance.now();
  await until('all are buried', async () => (await buried()) === 20);
  expect(performance.now() - from).toBeLessThan(19 * GATHER_MS * 0.8);
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
    'the first is written, and the second fails',
    () => events.some(({ kind }) => kind === 'failed'),
    {
      everyMs: 1,
    },
  );
  // Less than the second would wait for others.
  await stop(GATHER_MS / 2);
  expect(await waiting(2)).toBe(true);
});

test('suspects are not kept waiting: nothing else runs while one does', async () => {
  await enqueue(10);
  await db.rows(`UPDATE holdfast.inbox SET crashes = 1`);
  let from = 0;
  start(db.hf, (w) =>
    w.handle(fails, () => {
      from ||= performance.now();
      throw new Error('not today');
    }),
  );
  await until('all have failed', () => waiting(10));
  expect(performance.now() - from).toBeLessThan(9 * GATHER_MS * 0.8);
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
  expect(performance.now() - from).toBeLessThan((60 / 3) * GATHER_MS * 0.8);
});
