/** What a new user gets wrong with workflows, events, webhooks and projections: the compiler refuses it, or the call does. */
import { type Flow, type Holdfast, holdfast, job, type Worker, workflow } from 'holdfast';
import { outbox, relay, type Sink, Unavailable } from 'holdfast/outbox';
import { kafkaSink } from 'holdfast/outbox/kafka';
import { redisSink } from 'holdfast/outbox/redis';
import { eventLog, type LoggedEvent, project, projection } from 'holdfast/projections';
import { github, type Received, receive, stripe } from 'holdfast/receive';
import { type Webhooks, webhooks } from 'holdfast/webhooks';
import type pg from 'pg';
import { expect, test } from 'vitest';
import { testWorkflow } from '../../packages/testing/src/index.js';

interface Order {
  readonly orderId: number;
}
interface Shop {
  'order.paid': { cents: number };
  'order.sent': { parcel: string };
}
const charge = job<Order>('charge');
const checkout = workflow<Order, { approved: { by: string }; ping: undefined }, { paid: boolean }>(
  'checkout',
);
const anything = workflow('anything');
const hf = holdfast({ connectionString: 'postgres://nobody@127.0.0.1:1/nowhere' });
const sink: Sink = { name: 'memory', publish: async () => undefined };
/** What a JavaScript caller may pass. */
const any = (given: unknown) => given as never;
const shop = (hf: Holdfast) => outbox<Shop>(hf);
const orders = (hf: Holdfast) => eventLog<Shop>(hf, 'orders');

test('workflows: signals, waits, steps and results', () => {
  const mistakes = [
    // @ts-expect-error the name of the signal
    (hf: Holdfast) => hf.signal(checkout, 'id', 'aproved', { by: 'kim' }),
    // @ts-expect-error its value
    (hf: Holdfast) => hf.signal(checkout, 'id', 'approved', 'kim'),
    // @ts-expect-error a value that is left out
    (hf: Holdfast) => hf.signal(checkout, 'id', 'approved'),
    // @ts-expect-error a value that is left out, in a test
    () => testWorkflow(checkout, async () => ({ paid: true }), { orderId: 1 }).signal('approved'),
    () =>
      testWorkflow(
        checkout,
        async () => ({ paid: true }),
        { orderId: 1 },
        // @ts-expect-error a value that is left out, in a script
        { signals: [{ name: 'approved', after: '1d' }] },
      ),
    // @ts-expect-error a job has no signals
    (hf: Holdfast) => hf.signal(charge, 'id', 'approved', {}),
    // @ts-expect-error a job has no body
    (_: Holdfast, worker: Worker) => worker.workflow(charge, async () => undefined),
    // @ts-expect-error the input
    (hf: Holdfast) => hf.enqueue(checkout, { order: 1 }),
    // @ts-expect-error the result
    (_: Holdfast, worker: Worker) => worker.workflow(checkout, async () => ({ paid: 'yes' })),
    // @ts-expect-error a wait that may end without its signal
    async (flow: Flow<{ ok: Order }>) => (await flow.wait('a', 'ok', { timeout: '3d' })).orderId,
    // @ts-expect-error a duration that is none
    (flow: Flow) => flow.sleep('cool off', '14 days'),
    // @ts-expect-error a step returns what JSON makes of its value
    async (flow: Flow) => (await flow.step('now', () => new Date())).getTime(),
    // @ts-expect-error the input of a child
    (flow: Flow) => flow.children('charge', charge, [{ order: 1 }]),
  ];
  const fine = [
    (hf: Holdfast) => hf.signal(checkout, 'id', 'approved', { by: 'kim' }, { key: 'a' }),
    (hf: Holdfast) => hf.signal(checkout, 'id', 'ping'),
    (hf: Holdfast) => hf.signal(anything, 'id', 'whatever'),
  ];
  expect([mistakes.length, fine.length]).toEqual([13, 3]);
});

test('an outbox knows its events', () => {
  const mistakes = [
    // @ts-expect-error the type of the event
    (hf: Holdfast) => shop(hf).publish({ type: 'order.payed', data: { cents: 1 } }),
    // @ts-expect-error the data of another event
    (hf: Holdfast) => shop(hf).publish({ type: 'order.sent', data: { cents: 1 } }),
    (hf: Holdfast, pool: pg.Pool) =>
      // @ts-expect-error a pool is no transaction
      shop(hf).publish({ type: 'order.paid', data: { cents: 1 } }, { tx: pool }),
    // @ts-expect-error a duration that is none
    (hf: Holdfast) => outbox(hf, { retention: '7 days' }),
    // @ts-expect-error sink and outbox in the wrong order
    (hf: Holdfast) => relay(hf.worker(), sink, shop(hf)),
    // @ts-expect-error who does not answer
    () => new Unavailable('no leader', { scope: 'topic' }),
  ];
  expect(mistakes).toHaveLength(6);
  // In JavaScript the call says it.
  expect(() => new Unavailable('no leader', { scop: 'target' } as object)).toThrow(
    /Unavailable has no option "scop"\. Did you mean "scope"\?/,
  );
});

test('webhooks, out and in', () => {
  const paid = job<Received<{ amount: number }>>('paid');
  const mistakes = [
    // @ts-expect-error a duration that is none
    (hf: Holdfast) => webhooks(hf, { timeout: '15 sec' }),
    // @ts-expect-error what is sent
    (hooks: Webhooks) => hooks.send({ tenant: 'a', type: 'order.paid', payload: {} }),
    // @ts-expect-error whose endpoint it is
    (hooks: Webhooks) => hooks.endpoints.create({ url: 'https://acme.example' }),
    // @ts-expect-error a job that does not take webhooks
    (hf: Holdfast) => receive(hf, charge, { verify: github('secret') }),
    // @ts-expect-error nobody to believe
    (hf: Holdfast) => receive(hf, paid, {}),
    // @ts-expect-error a duration that is none
    () => stripe('secret', { tolerance: '5 min' }),
    (hf: Holdfast) =>
      receive(hf, paid, {
        verify: github('secret'),
        // @ts-expect-error a field of the body
        enqueue: ({ body }) => ({ partitionKey: `${body.amont}` }),
      }),
  ];
  expect(mistakes).toHaveLength(7);
});

test('an event log knows its events, and so do its projections', () => {
  const mistakes = [
    (hf: Holdfast) =>
      // @ts-expect-error the type of the event
      orders(hf).append([{ type: 'order.payed', key: 'a', data: { cents: 1 } }]),
    (hf: Holdfast) =>
      // @ts-expect-error its data
      orders(hf).append([{ type: 'order.paid', key: 'a', data: { parcel: 'b' } }]),
    // @ts-expect-error a type that no event of the log has
    (hf: Holdfast) => projection('a', { log: orders(hf), on: { 'order.payed': () => 1 } }),
    (hf: Holdfast) =>
      projection('a', {
        log: orders(hf),
        // @ts-expect-error a field of its data
        on: { 'order.paid': ({ data }) => data.cent },
      }),
    // @ts-expect-error both
    (hf: Holdfast) => projection('a', { log: orders(hf), on: {}, apply: () => 1 }),
    // @ts-expect-error neither of them
    (hf: Holdfast) => projection('a', { log: orders(hf) }),
    // @ts-expect-error the schema of tables that it does not make
    (hf: Holdfast) => projection('a', { log: orders(hf), on: {}, schema: 'b' }),
    (hf: Holdfast, worker: Worker) =>
      // @ts-expect-error one instead of a list
      project(worker, projection('a', { log: orders(hf), on: {} })),
  ];
  const fine = [
    (hf: Holdfast) =>
      projection('a', { log: orders(hf), on: { 'order.paid': ({ data }) => data.cents } }),
    (hf: Holdfast) =>
      projection('a', {
        log: orders(hf),
        apply: (events) =>
          events.map((one) => (one.type === 'order.sent' ? one.data.parcel : one.data.cents)),
      }),
    // A log that knows nothing of its events: the function says what it gets.
    (hf: Holdfast) =>
      projection('a', {
        log: eventLog(hf, 'a'),
        on: { 'order.paid': (event: LoggedEvent<{ cents: number }>) => event.data.cents },
      }),
    (hf: Holdfast) =>
      projection('a', {
        log: eventLog(hf, 'a'),
        apply: (events: readonly LoggedEvent<{ cents: number }>[]) => events.length,
      }),
  ];
  expect([mistakes.length, fine.length]).toEqual([8, 4]);
});

const CALLS: [string, () => unknown, RegExp][] = [
  ['relay()', () => relay(any(outbox(hf)), any(hf.worker()), sink), /first .* must be a worker/],
  ['relay()', () => relay(hf.worker(), any(sink), any(outbox(hf))), /must be what outbox\(\) made/],
  ['deliver()', () => webhooks(hf).deliver(any(hf)), /first .* must be a worker/],
  ['project()', () => project(any(hf), []), /first .* must be a worker/],
  ['kafkaSink()', () => kafkaSink(any(undefined)), /must be a connected producer, not undefined/],
  ['redisSink()', () => redisSink(any({})), /must be a client of redis, not an object/],
  ['publish()', () => outbox(hf).publish(any({ type: 'a' })), /data of event "a" is undefined/],
  ['publish()', () => outbox(hf).publish(any({ type: 'a b' })), /type of an event.*order\.paid/],
  ['append()', () => eventLog(hf, 'a').append([any({ type: 'a' })]), /\.key.*nothing was appended/],
  ['send()', () => webhooks(hf).send(any({ type: 'a', data: 1 })), /tenant.*nothing was sent/],
  ['test()', () => webhooks(hf).test('acme'), /UUID of an endpoint.*endpoints\.create\(\)/],
  ['onEvent()', () => hf.onEvent(any('claimed')), /onEvent\(\) takes a function/],
];

test.each(CALLS)('%s says in its own words what is wrong', async (_, call, message) => {
  await expect((async () => call())()).rejects.toMatchObject({
    code: expect.stringMatching(/_INVALID$/),
    message: expect.stringMatching(message),
  });
});
