/** What a new user gets wrong, nineteen times: the compiler refuses it, or the call does, in words that help. */
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import {
  type Flow,
  type Holdfast,
  holdfast,
  job,
  type Worker,
  workflow,
} from '../../packages/holdfast/src/index.js';
import { testDatabase } from '../support/database.js';
import { quietLogger } from '../support/logger.js';

const db = testDatabase();
interface Order {
  readonly orderId: number;
}
const charge = job<Order, { receipt: string }>('charge');

test('twelve mistakes do not compile', () => {
  const mistakes = [
    // @ts-expect-error 1: the payload lacks a field
    (hf: Holdfast) => hf.enqueue(charge, {}),
    // @ts-expect-error 2: a field is mistyped
    (hf: Holdfast) => hf.enqueue(charge, { orderId: 1, oderId: 1 }),
    // @ts-expect-error 3: a Date does not survive JSON
    () => job<{ at: Date }>('remind'),
    // @ts-expect-error 4: a duration that is none
    (hf: Holdfast) => hf.enqueue(charge, { orderId: 1 }, { delay: '1 minute' }),
    // @ts-expect-error 5: an option that does not exist
    (hf: Holdfast) => hf.enqueue(charge, { orderId: 1 }, { retries: 3 }),
    (hf: Holdfast) =>
      // @ts-expect-error 6: two keys for one job
      hf.enqueue(charge, { orderId: 1 }, { idempotencyKey: 'a', unique: { key: 'b' } }),
    (hf: Holdfast) =>
      hf.enqueue(
        charge,
        { orderId: 1 },
        // @ts-expect-error 7: what has ended cannot be replaced
        { unique: { key: 'b', while: 'kept', onConflict: 'replace' } },
      ),
    // @ts-expect-error 8: a pool is no transaction
    (hf: Holdfast, pool: pg.Pool) => hf.enqueue(charge, { orderId: 1 }, { tx: pool }),
    // @ts-expect-error 9: the handler forgets its result
    (_: Holdfast, __: pg.Pool, worker: Worker) => worker.handle(charge, async () => undefined),
    // @ts-expect-error 10: a result that the job does not have
    async (hf: Holdfast) => (await hf.wait(charge, 'id')).result?.messageId,
    // @ts-expect-error 11: a priority that does not exist
    (hf: Holdfast) => hf.enqueue(charge, { orderId: 1 }, { priority: 9 }),
    (_: Holdfast, __: pg.Pool, worker: Worker) =>
      // @ts-expect-error 12: the payload of a handler is mistyped
      worker.handle(charge, ({ payload }) => payload.id),
  ];
  expect(mistakes).toHaveLength(12);
});

test('options that exclude each other do not compile', () => {
  const both = [
    // @ts-expect-error two times
    (hf: Holdfast) => hf.enqueue(charge, { orderId: 1 }, { delay: '1m', runAt: new Date() }),
    // @ts-expect-error two times, in a list
    () => charge.item({ orderId: 1 }, { delay: 1, runAt: new Date() }),
    // @ts-expect-error two times of a job that waits
    (hf: Holdfast) => hf.update('id', { delay: '1m', runAt: new Date() }),
    (flow: Flow) =>
      flow.children('charge', charge, [{ orderId: 1 }], {
        // @ts-expect-error two times of a child
        options: () => ({ delay: '1m', runAt: new Date() }),
      }),
    // @ts-expect-error a type and a key
    (hf: Holdfast) => hf.pause('inbox', { type: 'charge', key: 'order:1' }),
    (hf: Holdfast) =>
      // @ts-expect-error a calendar and an interval
      hf.schedule('daily', { cron: '@daily', every: '1d', job: charge, payload: { orderId: 1 } }),
    // @ts-expect-error neither of them
    (hf: Holdfast) => hf.schedule('never', { job: charge, payload: { orderId: 1 } }),
    (hf: Holdfast) =>
      hf.schedules.declare('billing', {
        // @ts-expect-error the time zone of an interval
        daily: { every: '1d', timezone: 'UTC', job: charge, payload: { orderId: 1 } },
      }),
    // @ts-expect-error one job of a key at a time, and two
    (hf: Holdfast) => hf.createQueue('orders', { ordering: 'key', perKey: 2 }),
    // @ts-expect-error dead letters hold a key only where keys are in order
    (hf: Holdfast) => hf.configureQueue('orders', { deadLetters: 'hold' }),
  ];
  // Each of them does, and so does what undoes the other.
  const one = [
    (hf: Holdfast) => hf.enqueue(charge, { orderId: 1 }, { delay: '1m' }),
    (hf: Holdfast) => hf.enqueue(charge, { orderId: 1 }, { runAt: new Date(), unique: false }),
    (hf: Holdfast) => hf.update('id', { runAt: new Date(), priority: 1 }),
    (hf: Holdfast) => hf.resume('inbox', { key: 'order:1' }),
    (hf: Holdfast) =>
      hf.schedules.declare('billing', {
        daily: { cron: '@daily', timezone: 'UTC', job: charge, payload: { orderId: 1 } },
        hourly: { every: '1h', job: charge, payload: { orderId: 1 } },
      }),
    (hf: Holdfast) => hf.configureQueue('orders', { ordering: 'key', perKey: null, fair: false }),
    (hf: Holdfast) => hf.configureQueue('orders', { ordering: 'none', perKey: 2, fair: true }),
  ];
  expect([both.length, one.length]).toEqual([10, 7]);
});

const refusals: [string, (hf: Holdfast) => unknown, RegExp][] = [
  [
    '13: a type with a space',
    () => job('send receipt' as string),
    /job type must start with a letter.*use a name such as "send_receipt"/,
  ],
  [
    '14: a new version without an upgrade',
    () => job('charge', { version: 3, upgrade: { 1: (old) => old } }),
    /no upgrade function from version 2: add upgrade: \{ 2:/,
  ],
  [
    '15: two handlers for one type',
    (hf) =>
      hf
        .worker()
        .handle(charge, () => ({ receipt: 'a' }))
        .handle(charge, () => ({ receipt: 'b' })),
    /There is a handler for "charge" already; it was kept/,
  ],
  [
    '15: a handler for a workflow',
    (hf) => hf.worker().handle(workflow('checkout'), () => undefined),
    /"checkout" was made with workflow\(\), so it has bodies and no handler. Use workflow\(\)/,
  ],
  [
    '15: a signal to a job',
    (hf) =>
      hf.signal(charge as never, '0199a1c2-7d3e-7000-8000-000000009182', 'go' as never, 1 as never),
    /must be a definition, made with workflow\('…'\), not .*Nothing was sent/,
  ],
  [
    '16: an option that JavaScript lets through',
    (hf) => hf.worker({ concurency: 5 } as object),
    /no option "concurency".*Did you mean "concurrency"/,
  ],
  [
    '17: a queue that nobody made',
    (hf) => hf.enqueue(job('far', { queue: 'oders' }), {}),
    /There is no queue "oders".*createQueue/s,
  ],
  [
    '18: an ORM without its adapter',
    (hf) =>
      hf.enqueue(charge, { orderId: 1 }, { tx: { unsafe: () => [], query: undefined } as never }),
    /Write tx: fromPostgresJs\(sql\), from 'holdfast\/adapters'/,
  ],
  [
    '19: a call after close',
    async () => {
      const hf = holdfast({ connectionString: db.url, logger: quietLogger });
      await hf.close();
      return hf.enqueue(charge, { orderId: 1 });
    },
    /hf\.close\(\) was called before, so nothing was done/,
  ],
];

test.each(refusals)('%s', async (_, mistake, message) => {
  const call = async () => mistake(db.hf);
  await expect(call()).rejects.toMatchObject({ message: expect.stringMatching(message) });
});

test('a pool as tx is refused in the same words at run time', async () => {
  const pool = new pg.Pool({ connectionString: db.url });
  onTestFinished(() => pool.end());
  await expect(db.hf.enqueue(charge, { orderId: 1 }, { tx: pool as never })).rejects.toMatchObject({
    message: expect.stringContaining('tx is a pool'),
  });
});
