/** `hf.close()` stops the workers first: nothing is claimed or failed because the pool has gone. */
import { expect, test } from 'vitest';
import { holdfast, job } from '../../packages/holdfast/src/index.js';
import { testDatabase } from '../support/database.js';
import { quietLogger } from '../support/logger.js';
import { until } from '../support/until.js';
import { gate, testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const open = () => holdfast({ connectionString: db.url, logger: quietLogger });
const CLOSED = { code: 'CLOSED' };

test('jobs that run are completed, the others stay pending, and no attempt is spent', async () => {
  const hf = open();
  const write = job<{ n: number }>('write', { maxAttempts: 3, retry: () => 0 });
  await db.rows('CREATE TABLE written (n int PRIMARY KEY)');
  const all = await hf.enqueueMany(Array.from({ length: 400 }, (_, n) => write.item({ n })));
  const { worker, running } = start(hf, (w) =>
    w.handle(write, ({ payload, transaction }) =>
      transaction(
        async (tx) => void (await tx.query('INSERT INTO written VALUES ($1)', [payload.n])),
      ),
    ),
  );
  await until('some are done', () => worker.stats.completed >= 20);
  await hf.close();
  await running;
  const { claimed, completed } = worker.stats;
  expect(worker.stats).toMatchObject({ failed: 0, dead_letter: 0, lost: 0 });
  const rows = await Promise.all(all.map(({ id }) => db.hf.job(id)));
  const done = rows.filter((row) => row?.status === 'completed');
  const left = rows.filter((row) => row?.status === 'pending');
  expect(done.length + left.length).toBe(400);
  expect(done).toHaveLength(completed);
  expect(left.filter((row) => row?.attempts !== 0)).toEqual([]);
  expect(await db.rows('SELECT FROM written')).toHaveLength(completed);
  // After it nothing is claimed.
  expect(worker.stats.claimed).toBe(claimed);
  expect(await db.hf.workers()).toEqual([]);
});

test('handlers that drain use the context and hf to their end; new workers are refused at once', async () => {
  const hf = open();
  const slow = job('slow', { maxAttempts: 1 });
  const next = job<{ n: number }>('next');
  const [begun, on] = [gate(), gate()];
  const { id } = await hf.enqueue(slow, {});
  start(hf, (w) =>
    w.handle(slow, async (ctx) => {
      begun.open();
      await on.opened;
      await ctx.once('effect', () => 1);
      await hf.enqueue(next, { n: 1 });
      return ctx.transaction(async (tx) => {
        await ctx.enqueue(next, { n: 2 });
        await hf.enqueue(next, { n: 3 }, { tx });
        return 'drained';
      });
    }),
  );
  const made = hf.worker({ handleSignals: false }).handle(slow, () => 1);
  await begun.opened;
  let closed = false;
  const close = hf.close().then(() => {
    closed = true;
  });
  // A second one waits for the first.
  const again = hf.close().then(() => expect(closed).toBe(true));
  expect(() => hf.worker()).toThrow(expect.objectContaining(CLOSED));
  await expect(made.run()).rejects.toMatchObject(CLOSED);
  expect(await hf.job(id)).toMatchObject({ status: 'processing' });
  expect(closed).toBe(false);
  on.open();
  await Promise.all([close, again]);
  expect(await db.hf.job(id)).toMatchObject({
    status: 'completed',
    attempts: 1,
    result: 'drained',
  });
  const children = await db.rows(
    `SELECT (payload ->> 'n')::int AS n FROM holdfast.inbox WHERE type = 'next' ORDER BY n`,
  );
  expect(children).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }]);
  await expect(hf.enqueue(next, { n: 4 })).rejects.toMatchObject(CLOSED);
});

test('close in a handler waits for that handler no longer than the grace period', async () => {
  const hf = open();
  const closer = job('closes', { maxAttempts: 1 });
  const closed = gate();
  const { id } = await hf.enqueue(closer, {});
  const { running } = start(
    hf,
    (w) =>
      w.handle(closer, async () => {
        await hf.close();
        closed.open();
      }),
    { grace: '100ms' },
  );
  await closed.opened;
  await running;
  // It was released: its attempt was given back.
  expect(await db.hf.job(id)).toMatchObject({ status: 'pending', attempts: 0 });
});

test('a worker that stops already, or starts just now, is waited for', async () => {
  const hf = open();
  const held = job('held', { maxAttempts: 1 });
  const [begun, on] = [gate(), gate()];
  const { id } = await hf.enqueue(held, {});
  const first = start(hf, (w) =>
    w.handle(held, async ({ transaction }) => {
      begun.open();
      await on.opened;
      await transaction(async () => {});
    }),
  );
  await begun.opened;
  const stopping = first.worker.stop();
  const second = start(hf, (w) => w.handle(held, () => 1));
  const close = hf.close();
  on.open();
  await Promise.all([close, stopping, first.running, second.running]);
  expect(await db.hf.job(id)).toMatchObject({ status: 'completed', attempts: 1 });
  expect(await db.hf.workers()).toEqual([]);
});
