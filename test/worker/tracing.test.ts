/** A trace that crosses the queue: from a request through two jobs, by way of the database. */
import * as api from '@opentelemetry/api';
import { afterAll, beforeAll, expect, test } from 'vitest';
import * as z from 'zod';
import { type Holdfast, holdfast, job } from '../../packages/holdfast/src/index.js';
import { testDatabase } from '../support/database.js';
import { quietLogger } from '../support/logger.js';
import { telemetryInMemory } from '../support/telemetry.js';
import { until } from '../support/until.js';
import { gate, testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const spans = telemetryInMemory();
let hf: Holdfast;
beforeAll(() => {
  hf = holdfast({ connectionString: db.url, telemetry: api, logger: quietLogger });
});
afterAll(() => hf.close());
const tracer = api.trace.getTracer('shop');

function inSpan<Value>(name: string, work: () => Promise<Value>): Promise<Value> {
  return tracer.startActiveSpan(name, (span) => work().finally(() => span.end()));
}

test('one trace holds the request, the enqueue, the handler, its child and the handler of that', async () => {
  const order = job<{ id: number }>('place_order');
  const receipt = job<{ id: number }>('send_receipt');
  const sent = gate<Record<string, string>>();
  start(hf, (worker) =>
    worker
      .handle(order, async (ctx) => {
        await db.rows('SELECT 1');
        await inSpan('charge the card', () => ctx.enqueue(receipt, ctx.payload));
      })
      .handle(receipt, (ctx) => sent.open({ ...ctx.headers })),
  );
  await inSpan('POST /orders', () =>
    hf.enqueue(order, { id: 9182 }, { partitionKey: 'order:9182', headers: { tenant: 'acme' } }),
  );
  const headers = await sent.opened;
  const names = [
    'POST /orders',
    'send inbox',
    'process inbox',
    'charge the card',
    'create inbox',
    'process inbox',
  ];
  await until('all spans have ended', () => spans.all().length === names.length);

  const request = spans.only('POST /orders');
  const ids = spans.all().map((span) => span.spanContext().traceId);
  expect(new Set(ids)).toEqual(new Set([request.spanContext().traceId]));
  // Each is the child of the one before.
  let parent = request;
  for (const name of names.slice(1)) {
    const child = spans
      .all()
      .find((span) => span.parentSpanContext?.spanId === parent.spanContext().spanId);
    expect(child?.name).toBe(name);
    parent = child as typeof parent;
  }
  expect(headers.traceparent).toContain(spans.only('create inbox').spanContext().spanId);
  // What the producer sent along stays with its own job.
  expect(headers).not.toHaveProperty('tenant');
  const [row] = await db.rows<{ headers: Record<string, string> }>(
    `SELECT headers FROM holdfast.inbox_archive WHERE type = 'place_order'
     UNION ALL SELECT headers FROM holdfast.inbox WHERE type = 'place_order'`,
  );
  expect(Object.keys(row?.headers ?? {}).toSorted()).toEqual(['tenant', 'traceparent']);
});

test('every attempt is a span of the same trace, and a failed one says of what class its error was', async () => {
  const flaky = job('flaky', { retry: () => 0 });
  const done = gate();
  start(hf, (worker) =>
    worker.handle(flaky, ({ attempt }) => {
      if (attempt < 3) throw Object.assign(new Error('card 4111 refused'), { code: 'E_CARD' });
      done.open();
    }),
  );
  await inSpan('request', () => hf.enqueue(flaky, {}));
  await done.opened;
  const attempts = await until('three attempts have ended', () => {
    const ended = spans.all().filter(({ name }) => name === 'process inbox');
    return ended.length === 3 ? ended : null;
  });
  const sentBy = spans.only('send inbox').spanContext();
  expect(attempts.map((span) => span.parentSpanContext?.spanId)).toEqual(
    Array(3).fill(sentBy.spanId),
  );
  expect(
    attempts.map(({ attributes }) => [
      attributes['messaging.holdfast.job.attempt'],
      attributes['messaging.holdfast.job.outcome'],
      attributes['error.type'],
    ]),
  ).toEqual([
    [1, 'failed', 'E_CARD'],
    [2, 'failed', 'E_CARD'],
    [3, 'completed', undefined],
  ]);
});

test('a child in a transaction is sent in it, and a batch is one span', async () => {
  const parent = job('tx_parent');
  const child = job('tx_child');
  const ran = gate();
  start(hf, (worker) =>
    worker
      .handle(parent, (ctx) => ctx.transaction(async () => void (await ctx.enqueue(child, {}))))
      .handle(child, () => ran.open()),
  );
  await hf.enqueueMany([parent.item({}), job('nobody_handles_this').item({})]);
  await ran.opened;
  await until('the child has ended', () => spans.all().length === 4);
  const sends = spans.all().filter(({ name }) => name === 'send inbox');
  expect(sends.map(({ attributes }) => attributes['messaging.batch.message_count'])).toEqual([
    2,
    undefined,
  ]);
  expect(sends[1]?.attributes['messaging.holdfast.job.type']).toBe('tx_child');
  expect(new Set(spans.all().map((span) => span.spanContext().traceId)).size).toBe(1);
});

test('a payload that the worker refuses is an attempt that failed, by its code', async () => {
  const strict = job('strict', { schema: z.object({ id: z.number() }) });
  start(hf, (worker) => worker.handle(strict, () => undefined));
  await db.rows(`SELECT holdfast.inbox_enqueue('strict', '{"id": "4111-1111"}')`);
  const span = await until('the attempt has ended', () => spans.all()[0]);
  expect(span.attributes).toMatchObject({
    'messaging.holdfast.job.outcome': 'dead_letter',
    'error.type': 'PAYLOAD_INVALID',
  });
});

test('without the option there are no spans and no headers', async () => {
  const silent = job('silent');
  const heard = gate<object>();
  start(db.hf, (worker) => worker.handle(silent, (ctx) => heard.open({ ...ctx.headers })));
  await inSpan('request', () => db.hf.enqueue(silent, {}));
  expect(await heard.opened).toEqual({});
  expect(spans.all().map(({ name }) => name)).toEqual(['request']);
});
