/** Results that a definition declares: what the compiler makes of them, and what is checked at run time. */
import { expect, expectTypeOf, test } from 'vitest';
import * as z from 'zod';
import {
  type BatchJob,
  type Holdfast,
  job,
  type Worker,
} from '../../packages/holdfast/src/index.js';
import { testJob } from '../../packages/testing/src/index.js';
import { testDatabase } from '../support/database.js';
import { testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const SOON = { timeout: '30s' } as const;

interface Receipt {
  readonly messageId: string;
}
const schema = z.object({ messageId: z.string().min(3) });
const bySchema = job('by_schema', { schema: z.object({ n: z.number() }), result: schema });

test('a handler returns what its definition declares, and wait gives it', () => {
  const send = job<{ order: number }, Receipt>('send');
  const open = job<{ order: number }>('open');
  const quiet = job<object, void>('quiet');
  const maybe = job<object, Receipt | undefined>('maybe');
  const typed = (hf: Holdfast, worker: Worker, id: string) => {
    worker.handle(send, ({ payload }) => ({ messageId: `m${payload.order}` }));
    worker.handle(send, async ({ transaction }) => transaction(async () => ({ messageId: 'm' })));
    // @ts-expect-error it returns nothing
    worker.handle(send, async () => undefined);
    // @ts-expect-error an id is a string
    worker.handle(send, () => ({ messageId: 1 }));
    // @ts-expect-error the transaction completes the job with another result
    worker.handle(send, async ({ transaction }) => transaction(async () => 7));
    worker.handle(send, async (ctx) => {
      // @ts-expect-error the completion has no result
      await ctx.complete({} as never);
      return { messageId: 'm' };
    });
    worker.handle(open, () => 7);
    worker.handle(open, () => undefined);
    worker.handle(quiet, () => undefined);
    // @ts-expect-error it has no result
    worker.handle(quiet, async () => 7);
    worker.handle(maybe, async () => undefined);
    worker.handle(maybe, () => ({ messageId: 'm' }));
    // @ts-expect-error an id is a string, where there is one
    worker.handle(maybe, async () => ({ messageId: 7 }));
    // @ts-expect-error the handler would have to return what the schema takes, and wait would give what it makes
    job('turned', { result: z.object({ n: z.string().transform(Number) }) });
    worker.handleMany(send, {}, (jobs) => jobs.map((one) => one.done({ messageId: one.id })));
    worker.handleMany(send, {}, async (jobs) => jobs.map((one) => one.fail(new Error('no'))));
    // @ts-expect-error no job has its result
    worker.handleMany(send, {}, async () => undefined);
    // @ts-expect-error a result is missing
    worker.handleMany(send, {}, (jobs) => jobs.map((one) => one.done()));
    worker.handleMany(open, {}, (jobs) =>
      expectTypeOf(jobs).items.toEqualTypeOf<BatchJob<{ order: number }>>(),
    );
    // @ts-expect-error a Date does not come back from JSON
    job<object, { at: Date }>('late');
    // @ts-expect-error there is no unchecked cast
    void hf.wait<Receipt>(id);
    // @ts-expect-error the definition says which queue it is
    void hf.wait(send, id, { queue: 'mail' });
    return {
      typed: hf.wait(send, id),
      checked: hf.wait(bySchema, id, { timeout: '1s' }),
      plain: hf.wait(id, { queue: 'mail' }),
      tried: testJob(send, () => ({ messageId: 'm' }), { order: 1 }),
    };
  };
  type Given = {
    [Name in keyof ReturnType<typeof typed>]: Awaited<ReturnType<typeof typed>[Name]>['result'];
  };
  expectTypeOf<Given>().toEqualTypeOf<{
    typed: Receipt | null;
    checked: { messageId: string } | null;
    plain: unknown;
    tried: Receipt | null;
  }>();
  expect(typed).toBeTypeOf('function');
});

const run = (set: (worker: Worker) => Worker) => start(db.hf, set);

test('a result that fits its schema is kept', async () => {
  run((w) => w.handle(bySchema, ({ payload }) => ({ messageId: `m-${payload.n}` })));
  const { id } = await db.hf.enqueue(bySchema, { n: 7 });
  expect(await db.hf.wait(bySchema, id, SOON)).toMatchObject({
    status: 'completed',
    result: { messageId: 'm-7' },
  });
});

const WRONG = { messageId: 'm' };
test.each([
  ['is returned', 'returned'],
  ['is the value of its transaction', 'transaction'],
  ['is given to ctx.complete', 'complete'],
  ['belongs to a job of a batch', 'batch'],
  ['is missing in a batch', 'nothing'],
] as const)('a result that does not fit and %s makes a dead letter at once', async (_, way) => {
  const kind = job(`wrong_${way}`, { result: schema });
  await db.pool.query(`CREATE TABLE IF NOT EXISTS written (way text)`);
  const write = `INSERT INTO written VALUES ('${way}')`;
  let calls = 0;
  run((w) => {
    if (way === 'batch' || way === 'nothing')
      return w.handleMany(kind, {}, (jobs) => {
        calls += 1;
        return way === 'batch' ? jobs.map((one) => one.done(WRONG)) : [];
      });
    return w.handle(kind, async (ctx) => {
      calls += 1;
      if (way === 'transaction')
        return ctx.transaction(async (tx) => {
          await tx.query(write);
          return WRONG;
        });
      if (way === 'complete') {
        const client = await db.pool.connect();
        try {
          await client.query('BEGIN');
          await client.query(write);
          await ctx.complete(client, WRONG);
          await client.query('COMMIT');
        } finally {
          await client.query('ROLLBACK');
          client.release();
        }
      }
      return WRONG;
    });
  });
  const { id } = await db.hf.enqueue(kind, {});
  const outcome = await db.hf.wait(kind, id, SOON);
  expect(outcome).toMatchObject({ status: 'dead_letter', result: null, attempts: 1 });
  expect(outcome.error).toContain(`The result of "${kind.type}" does not fit its schema: `);
  expect(calls).toBe(1);
  expect((await db.pool.query(`SELECT FROM written WHERE way = '${way}'`)).rowCount).toBe(0);
});

test('the transaction of a batch is refused where each job owes a result', async () => {
  const kind = job('owing', { result: schema, maxAttempts: 1 });
  run((w) => w.handleMany(kind, {}, async (_, batch) => batch.transaction(async () => [])));
  const { id } = await db.hf.enqueue(kind, {});
  expect(await db.hf.wait(kind, id, SOON)).toMatchObject({
    status: 'dead_letter',
    error: expect.stringMatching(
      /has a schema for its result.*refused\. Return jobs\.map\(\(job\) => job\.done\(result\)\) instead\.$/m,
    ),
  });
});

test('a kept result that does not fit the schema of today is refused by wait, and can be read without it', async () => {
  const before = job<object, unknown>('older', {});
  run((w) => w.handle(before, () => ({ messageId: 1 })));
  const { id } = await db.hf.enqueue(before, {});
  const today = job('older', { result: schema });
  await expect(db.hf.wait(today, id, SOON)).rejects.toMatchObject({ code: 'RESULT_INVALID' });
  expect(await db.hf.wait(id, SOON)).toMatchObject({ result: { messageId: 1 } });
});

test('a job of another type is refused, and not given that result', async () => {
  const number = job<object, number>('number');
  const word = job<object, string>('word');
  const { id } = await db.hf.enqueue(number, {});
  const refused = { code: 'OPTION_INVALID', message: expect.stringContaining('is a "number"') };
  await expect(db.hf.wait(word, id, SOON)).rejects.toMatchObject(refused);
  run((w) => w.handle(number, () => 7));
  expect(await db.hf.wait(number, id, SOON)).toMatchObject({ result: 7 });
  await expect(db.hf.wait(word, id, SOON)).rejects.toMatchObject(refused);
});

test('a check that does not end is bounded: by the time limit of the job, and by that of wait', async () => {
  const validate = () => new Promise<never>(() => {});
  const result = { '~standard': { version: 1, vendor: 'test', validate } } as const;
  const hangs = job('hangs', { result, timeout: 100, maxAttempts: 1 });
  const open = job('open_result');
  run((w) => w.handle(hangs, () => 7 as never).handle(open, () => 7));
  const { id } = await db.hf.enqueue(hangs, {});
  expect(await db.hf.wait(id, SOON)).toMatchObject({
    status: 'dead_letter',
    error: expect.stringContaining('time limit of 100 ms'),
  });
  const { id: done } = await db.hf.enqueue(open, {});
  await db.hf.wait(done, SOON);
  const late = job('open_result', { result });
  await expect(db.hf.wait(late, done, { timeout: '50ms' })).rejects.toMatchObject({
    code: 'WAIT_TIMEOUT',
  });
  const signal = AbortSignal.timeout(50);
  await expect(db.hf.wait(late, done, { signal })).rejects.toThrow('timeout');
});
