/** A job waits for more urgent ones only for so long, however many of them come. */
import { beforeEach, expect, test } from 'vitest';
import { job, type Priority, type Worker } from '../../packages/holdfast/src/index.js';
import { testDatabase } from '../support/database.js';
import { until } from '../support/until.js';
import { gate, testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const work = job<{ n: number }>('work');

beforeEach(async () => {
  await db.rows('TRUNCATE holdfast.inbox, holdfast.inbox_archive, holdfast.inbox_claims');
});

const urgent = (count: number) =>
  db.hf.enqueueMany(Array.from({ length: count }, (_, n) => work.item({ n }, { priority: 1 })));

/** Jobs of these priorities that have been due for 11 minutes. */
async function aged(...priorities: Priority[]): Promise<string[]> {
  const items = priorities.map((priority) => work.item({ n: -priority }, { priority }));
  const ids = (await db.hf.enqueueMany(items)).map(({ id }) => id);
  await db.rows(
    `UPDATE holdfast.inbox SET available_at = now() - interval '11 min' WHERE id = ANY ($1)`,
    [ids],
  );
  return ids;
}

const BACKLOG = 300;

/**
 * Runs a worker under a backlog of priority 1 that never shrinks, until `enough` holds; then `before` is called and it
 * stops. Returns what ran, in order.
 */
async function underLoad(
  enough: (ran: readonly number[]) => boolean,
  more: (worker: Worker) => Worker = (worker) => worker,
  before: () => void = () => undefined,
): Promise<number[]> {
  await urgent(BACKLOG);
  const ran: number[] = [];
  const handler = async ({ payload: { n } }: { readonly payload: { n: number } }) => {
    ran.push(n);
    // As many come as go.
    if (n >= 0) await urgent(1);
  };
  const options = { concurrency: 10, batchSize: 20 };
  const started = start(db.hf, (worker) => more(worker.handle(work, handler)), options);
  await until('enough has run', () => enough(ran));
  before();
  const [left] = await db.rows<{ n: string }>(
    `SELECT count(*) AS n FROM holdfast.inbox WHERE priority = 1 AND status = 'pending'`,
  );
  await started.stop();
  expect(Number(left?.n)).toBeGreaterThan(BACKLOG / 2);
  return ran;
}

test('jobs of every priority that have waited for too long run while a stream of priority 1 goes on', async () => {
  await aged(2, 3, 4);
  const ran = await underLoad((all) => all.filter((n) => n < 0).length === 3);
  const before = ran.findIndex((n) => n < 0);
  // The worker looks once a second, and they do not jump ahead of everything.
  expect(before).toBeGreaterThan(0);
});

test('an aged job of a limited type keeps to its limit, and those without one do not wait for it', async () => {
  const rare = job<{ n: number }>('rare');
  await db.hf.limits.set({ type: 'rare' }, { concurrency: 1 });
  const { opened, open } = gate();
  let [running, most] = [0, 0];
  const limited = async () => {
    most = Math.max(most, ++running);
    await opened;
    running--;
  };
  const ids = (
    await db.hf.enqueueMany([1, 2, 3].map((n) => rare.item({ n }, { priority: 4 })))
  ).map(({ id }) => id);
  await aged(4, 4);
  await db.rows(
    `UPDATE holdfast.inbox SET available_at = now() - interval '11 min' WHERE id = ANY ($1)`,
    [ids],
  );
  await underLoad(
    (all) => running === 1 && all.filter((n) => n < 0).length === 2,
    (worker) => worker.handle(rare, limited),
    open,
  );
  expect(most).toBe(1);
  await db.hf.limits.remove({ type: 'rare' });
});

test('with ageAfter off they wait, and one that is not aged waits as well', async () => {
  await db.hf.configureQueue('inbox', { ageAfter: 'off' });
  const [off] = await aged(4);
  await underLoad((all) => all.length > 400);
  expect(await db.hf.job(off as string)).toMatchObject({ status: 'pending' });
  await db.hf.configureQueue('inbox', { ageAfter: '15m' });
  await db.rows(`DELETE FROM holdfast.inbox WHERE priority = 1`);
  await underLoad((all) => all.length > 400);
  expect(await db.hf.job(off as string)).toMatchObject({ status: 'pending' });
  await db.hf.configureQueue('inbox', { ageAfter: '10m' });
});

test('a backlog of aged jobs takes a quarter of the claims and leaves the rest to urgent ones', async () => {
  await aged(...Array.from({ length: 400 }, () => 4 as const));
  const ran = await underLoad((all) => all.filter((n) => n < 0).length >= 120);
  const first = ran.findIndex((n) => n < 0);
  const stretch = ran.slice(first, ran.lastIndexOf(-4) + 1);
  const share = stretch.filter((n) => n < 0).length / stretch.length;
  expect(share).toBeGreaterThan(0.1);
  expect(share).toBeLessThan(0.4);
});

test.each(['never', 0, '999ms', '3651d', -1, Number.NaN, null, {}])(
  'ageAfter of %s is refused',
  async (ageAfter) => {
    const call = db.hf.configureQueue('inbox', { ageAfter: ageAfter as '1s' });
    await expect(call).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringMatching(/ageAfter/),
    });
  },
);
