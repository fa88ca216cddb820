/**
 * A claim that expects many jobs is asked for in a shorter form. It brings the same jobs and says the same
 * of the whole claim; and one that finds nothing answers all the same.
 */
import { beforeEach, expect, test } from 'vitest';
import { type ClaimRequest, claim } from '../src/claim/claim.js';
import { job } from '../src/index.js';
import { INBOX, testDatabase } from './support/database.js';

const db = testDatabase();
const work = job<{ n: number }>('work', { maxAttempts: 7 });

async function claimed(more: boolean, request: Partial<ClaimRequest> = {}) {
  return claim(db.engine, INBOX, {
    workerId: 'w',
    probes: [{ priority: 2, from: 0, to: 1023, afterAt: '-infinity', afterPosition: 0 }],
    limit: 40,
    leaseMs: 90_000,
    versions: { work: 1 },
    above: {},
    deadWorkers: [],
    cursorLagMs: 2_000,
    more,
    ...request,
  });
}

beforeEach(async () => {
  await db.rows('TRUNCATE holdfast.inbox, holdfast.inbox_archive');
});

test('brings the same jobs in the same order, and the same of the whole claim', async () => {
  await db.hf.enqueueMany(
    Array.from({ length: 60 }, (_, n) => work.of({ n }, { key: `k${n % 7}` })),
  );
  const plain = await claimed(false);
  expect(plain.jobs).toHaveLength(40);
  // As if the worker had vanished, so that the same jobs are there again.
  const more = await claimed(true, { workerId: 'w2', deadWorkers: ['w'] });
  const again = plain.jobs.map(({ id, type, payload, partitionKey, cursorAt, cursorPosition }) => ({
    ...{ id, type, payload, partitionKey, cursorAt, cursorPosition, maxAttempts: 7, version: 1 },
    ...{ attempts: 1, leaseGeneration: 2, crashes: 1, taken: true, priority: 2 },
  }));
  expect(more.jobs).toMatchObject(again);
  expect(more.epoch).toBe(plain.epoch);
  expect(more.clock).toBeGreaterThanOrEqual(plain.clock);
  for (const { clock, seenUntil } of [plain, more]) {
    expect(Math.abs(clock - 2_000 - Date.parse(seenUntil))).toBeLessThanOrEqual(1);
  }
  const [{ reads }] = (await db.rows(
    `SELECT $1::text::timestamptz > now() - interval '1 minute' AND $1::text = $1::text::timestamptz::text AS reads`,
    [more.seenUntil],
  )) as [{ reads: boolean }];
  expect(reads).toBe(true);
});

test('a queue that has come to its end is told of as ever', async () => {
  const { jobs, epoch, clock, seenUntil, news } = await claimed(true, { news: true });
  expect(jobs).toEqual([]);
  expect(epoch).toBeGreaterThanOrEqual(0);
  expect(clock).toBeGreaterThan(Date.now() - 60_000);
  expect(Date.parse(seenUntil)).toBeGreaterThan(Date.now() - 60_000);
  expect(news).toMatchObject({ anyOrdered: false });
});

test('a paused queue gives nothing', async () => {
  await db.hf.enqueue(work, { n: 1 });
  await db.rows("UPDATE holdfast.queues SET paused = true WHERE name = 'inbox'");
  try {
    expect((await claimed(true)).jobs).toEqual([]);
  } finally {
    await db.rows("UPDATE holdfast.queues SET paused = false WHERE name = 'inbox'");
  }
  expect((await claimed(true)).jobs).toHaveLength(1);
});

test('a claim that cannot say in which membership it was made is an error', async () => {
  await db.hf.enqueue(work, { n: 1 });
  await db.rows('CREATE TABLE public.fleet_before AS SELECT * FROM holdfast.fleet');
  await db.rows('DELETE FROM holdfast.fleet');
  try {
    for (const more of [true, false]) {
      await expect(claimed(more)).rejects.toThrow('holdfast.fleet has lost its row');
    }
  } finally {
    await db.rows('INSERT INTO holdfast.fleet SELECT * FROM public.fleet_before');
  }
});
