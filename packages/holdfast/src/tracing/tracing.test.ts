import * as api from '@opentelemetry/api';
import { describe, expect, test } from 'vitest';
import { telemetryInMemory } from '../../../../test/support/telemetry.js';
import { HoldfastError } from '../job/errors/errors.js';
import type { Telemetry } from './api.js';
import { errorType, type Processing, type Sending, Tracing, type WithContext } from './tracing.js';

// The API as users import it has the shape that is asked for.
const telemetry: Telemetry = api;
const spans = telemetryInMemory();

const SENDING: Sending = { queue: 'inbox', type: 'send_receipt', count: 1, operation: 'send' };
const PROCESSING: Processing = {
  queue: 'inbox',
  type: 'send_receipt',
  id: 'job-1',
  bucket: 417,
  attempt: 2,
  workerId: 'worker-1',
  headers: null,
};

/** What a job is enqueued with, when its producer passes `own`. */
async function sent(
  own?: Record<string, string>,
  sending = SENDING,
  tracing = new Tracing(telemetry),
) {
  let headers: unknown;
  await tracing.send(sending, async (withContext: WithContext) => {
    headers = withContext(own);
    return [{ id: 'job-1' }];
  });
  return headers as Record<string, string> | undefined;
}

describe('a trace that crosses the queue', () => {
  test('the handler is a child of the enqueue, linked to it, with the names of the conventions', async () => {
    const headers = await sent({ tenant: 'acme' });
    expect(headers?.tenant).toBe('acme');
    const tracing = new Tracing(telemetry);
    const outcome = await tracing.process(
      { ...PROCESSING, headers: JSON.stringify(headers) },
      async () => ({ kind: 'completed' }),
    );
    expect(outcome).toEqual({ kind: 'completed' });
    const send = spans.only('send inbox');
    const process = spans.only('process inbox');
    expect(send.kind).toBe(api.SpanKind.PRODUCER);
    expect(send.attributes).toEqual({
      'messaging.system': 'holdfast',
      'messaging.operation.name': 'send',
      'messaging.operation.type': 'send',
      'messaging.destination.name': 'inbox',
      'messaging.message.id': 'job-1',
      'messaging.holdfast.job.type': 'send_receipt',
    });
    expect(process.kind).toBe(api.SpanKind.CONSUMER);
    expect(process.attributes).toEqual({
      'messaging.system': 'holdfast',
      'messaging.operation.name': 'process',
      'messaging.operation.type': 'process',
      'messaging.destination.name': 'inbox',
      'messaging.destination.partition.id': '417',
      'messaging.message.id': 'job-1',
      'messaging.client.id': 'worker-1',
      'messaging.holdfast.job.type': 'send_receipt',
      'messaging.holdfast.job.attempt': 2,
      'messaging.holdfast.job.outcome': 'completed',
    });
    expect(process.spanContext().traceId).toBe(send.spanContext().traceId);
    expect(process.parentSpanContext?.spanId).toBe(send.spanContext().spanId);
    expect(process.links.map((link) => link.context.spanId)).toEqual([send.spanContext().spanId]);
    expect(process.status.code).toBe(api.SpanStatusCode.UNSET);
  });

  test('the enqueue is a child of what the producer was doing, and a child job of what the handler did', async () => {
    const tracer = api.trace.getTracer('shop');
    const request = tracer.startSpan('POST /orders');
    const headers = await api.context.with(api.trace.setSpan(api.context.active(), request), () =>
      sent(),
    );
    request.end();
    let childHeaders: Record<string, string> | undefined;
    await new Tracing(telemetry).process(
      { ...PROCESSING, headers: JSON.stringify(headers) },
      async () => {
        // Some turns of the event loop later, as in a real handler.
        await new Promise((resolve) => setImmediate(resolve));
        childHeaders = await sent(undefined, { ...SENDING, operation: 'create' });
        return { kind: 'completed' };
      },
    );
    const { traceId } = request.spanContext();
    expect(spans.only('send inbox').parentSpanContext?.spanId).toBe(request.spanContext().spanId);
    const create = spans.only('create inbox');
    expect(create.parentSpanContext?.spanId).toBe(spans.only('process inbox').spanContext().spanId);
    expect(childHeaders?.traceparent).toBe(`00-${traceId}-${create.spanContext().spanId}-01`);
  });

  test('a batch is one span, whose context all of its jobs carry', async () => {
    const tracing = new Tracing(telemetry);
    const parents = new Set<string | undefined>();
    await tracing.send({ ...SENDING, type: null, count: 3 }, async (withContext) => {
      for (const own of [undefined, {}, { a: 'b' }]) parents.add(withContext(own)?.traceparent);
      return [{ id: '1' }, { id: '2' }, { id: '3' }];
    });
    const { attributes } = spans.only('send inbox');
    expect(attributes['messaging.batch.message_count']).toBe(3);
    expect(attributes).not.toHaveProperty('messaging.message.id');
    expect(parents).toEqual(new Set([expect.stringMatching(/^00-/)]));
  });

  test('a job without a trace begins one of its own, whatever its headers hold', async () => {
    const tracing = new Tracing(telemetry);
    for (const headers of [
      null,
      '{}',
      '{"traceparent":"nonsense"}',
      '{"traceparent":7}',
      'broken',
    ]) {
      await tracing.process({ ...PROCESSING, headers }, async () => ({ kind: 'completed' }));
    }
    const roots = spans.all();
    expect(roots).toHaveLength(5);
    expect(new Set(roots.map((span) => span.spanContext().traceId)).size).toBe(5);
    expect(roots.every((span) => !span.parentSpanContext && span.links.length === 0)).toBe(true);
  });
});

describe('what went wrong', () => {
  test('is told by its class and never by its message', async () => {
    const tracing = new Tracing(telemetry);
    const error = Object.assign(new TypeError('card 4111-1111 refused'), { detail: '4111-1111' });
    await expect(
      tracing.send(SENDING, async () => {
        throw error;
      }),
    ).rejects.toBe(error);
    await tracing.process(PROCESSING, async () => ({
      kind: 'failed',
      errorType: errorType(error),
    }));
    for (const span of spans.all()) {
      expect(span.status).toEqual({ code: api.SpanStatusCode.ERROR });
      expect(span.attributes['error.type']).toBe('TypeError');
      expect(span.events).toEqual([]);
      expect(JSON.stringify([span.attributes, span.status, span.name])).not.toContain('4111');
    }
  });

  test.each([
    [new HoldfastError('LEASE_LOST', 'gone'), 'LEASE_LOST'],
    [Object.assign(new Error('duplicate key'), { code: '23505' }), '23505'],
    [new RangeError('x'), 'RangeError'],
    ['a thrown text', 'NonError'],
    [Object.assign(new Error('x'), { code: 'the password is "hunter2"' }), 'Error'],
    [Object.assign(new Error('x'), { name: 'my name is\nlong' }), '_OTHER'],
    [undefined, 'NonError'],
  ])('%s is of the type %s', (error, type) => {
    expect(errorType(error)).toBe(type);
  });
});

describe('headers', () => {
  test('a context that the producer set itself is kept', async () => {
    const own = { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' };
    expect(await sent(own)).toBe(own);
  });

  test('that are wrong stay wrong, for the enqueue to refuse', async () => {
    for (const own of [new Headers({ a: 'b' }), ['a'], 'text', 7, { a: 7 }, null]) {
      expect(await sent(own as never)).toBe(own);
    }
  });

  test('what does not fit costs the trace and not the job', async () => {
    const full = Object.fromEntries(Array.from({ length: 32 }, (_, index) => [`h${index}`, 'x']));
    expect(await sent(full)).toBe(full);
    const long: Telemetry = {
      ...telemetry,
      propagation: {
        extract: (context) => context,
        inject: (_, carrier) => {
          Object.assign(carrier, { traceparent: '00-1-2-01', baggage: 'x'.repeat(2_000) });
        },
      },
    };
    expect(await sent(undefined, SENDING, new Tracing(long))).toEqual({ traceparent: '00-1-2-01' });
    const broken: Telemetry = {
      ...telemetry,
      propagation: {
        extract: (context) => context,
        inject: () => {
          throw new Error('a propagator that fails');
        },
      },
    };
    expect(await sent({ a: 'b' }, SENDING, new Tracing(broken))).toEqual({ a: 'b' });
  });
});

test('an API without an SDK behind it adds no header', async () => {
  const noop: Telemetry = {
    ...telemetry,
    propagation: { extract: (context) => context, inject: () => undefined },
  };
  expect(await sent(undefined, SENDING, new Tracing(noop))).toBeUndefined();
});
