/** What the sink of NATS says and hears on the wire. Real servers are in test/brokers. */
import { expect, test } from 'vitest';
import { DeadLetter } from '../../../job/errors/errors.js';
import type { Message } from '../message.js';
import { Unavailable } from '../sink.js';
import { type NatsAckLike, natsSink } from './nats.js';

const message: Message = {
  ...{ id: 'e-1', messageId: 'm-1', type: 'order.paid', key: 'order:ü', version: 1, fence: 3 },
  ...{ occurredAt: new Date(0), replayed: false, queue: 'outbox', headers: {}, data: { n: 1 } },
};
const options = { signal: new AbortController().signal, timeoutMs: 1_000 };
const text = (bytes: Uint8Array) => Buffer.from(bytes).toString();

type Answer = Pick<NatsAckLike, 'headers'> & { readonly data: string };

/** A connection whose server answers each message as it is told. */
function connected(answer: (n: number) => Answer) {
  const sent: { subject: string; payload: string; headers: string }[] = [];
  let listener: (error: Error | null, message: NatsAckLike) => void = () => {};
  const connection = {
    publish(subject: string, payload: Uint8Array, { reply, headers }: never) {
      const facts = text((headers as { encode(): Uint8Array }).encode());
      const { data, ...rest } = answer(
        sent.push({ subject, payload: text(payload), headers: facts }),
      );
      queueMicrotask(() => listener(null, { subject: reply, data: Buffer.from(data), ...rest }));
    },
    subscribe(_: string, { callback }: { callback: typeof listener }) {
      listener = callback;
    },
    flush: () => Promise.resolve(),
  };
  const sink = natsSink(connection, { headers: () => ({ set: () => undefined }) });
  return { sink, sent };
}

test('each message has its answer, its id and its facts in headers', async () => {
  const { sink, sent } = connected((n) => ({
    data: JSON.stringify({ stream: 'EVENTS', seq: n, ...(n === 2 && { duplicate: true }) }),
  }));
  const second = { ...message, messageId: 'm-2', headers: { 'Nats-Msg-Id': 'mine', tenant: 'a' } };
  const all = await Promise.all([sink.publish(message, options), sink.publish(second, options)]);
  expect(all).toEqual([{ duplicate: false }, { duplicate: true }]);
  expect(sent[0]).toMatchObject({ subject: 'events.order.paid', payload: '{"n":1}' });
  expect(sent[0]?.headers.split('\r\n')).toEqual([
    ...['NATS/1.0', 'holdfast-id: e-1', 'holdfast-type: order.paid', 'holdfast-key: order:%C3%BC'],
    ...['holdfast-version: 1', 'holdfast-occurred-at: 1970-01-01T00:00:00.000Z'],
    ...['holdfast-fence: 3', 'Nats-Msg-Id: m-1', '', ''],
  ]);
  // A header of yours cannot take the place of the id by which second copies are dropped.
  expect(sent[1]?.headers.match(/nats-msg-id: .*/gi)).toEqual(['Nats-Msg-Id: m-2']);
});

test('a header that would end its line is refused, and nothing is sent', async () => {
  const { sink, sent } = connected(() => ({ data: '{"stream":"EVENTS"}' }));
  const headers = { tenant: 'a\r\nNats-Rollup: all' };
  const refused = sink.publish({ ...message, headers }, options);
  await expect(refused).rejects.toThrow(DeadLetter);
  expect(sent).toEqual([]);
});

test.each([
  ['a message that is too large', { err_code: 10054 }, DeadLetter, /larger than the stream allows/],
  ['a stream that is full', { err_code: 10077, description: 'full' }, Unavailable, /full/],
])('%s is told apart by the code of the answer', async (_, error, kind, reason) => {
  const { sink } = connected(() => ({ data: JSON.stringify({ error }) }));
  const refused = await Promise.resolve(sink.publish(message, options)).catch((one) => one);
  expect(refused).toBeInstanceOf(kind);
  expect(refused.message).toMatch(reason);
});

test('a subject that no stream takes is a fault of that subject', async () => {
  const { sink } = connected(() => ({ data: '', headers: { code: 503 } }));
  const refused = sink.publish(message, options);
  await expect(refused).rejects.toMatchObject({
    ...{ scope: 'target', message: expect.stringMatching(/no stream takes/) },
  });
});
