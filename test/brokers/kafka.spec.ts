import { createRequire } from 'node:module';
import type { Sink } from 'holdfast/outbox';
import { kafkaSink } from 'holdfast/outbox/kafka';
import { expect, test } from 'vitest';
import { until } from '../support/until.js';
import { contract } from './contract.js';
import { GROUNDS } from './grounds.js';
import { MAX_REQUEST } from './servers.js';

/** What `kafkajs` makes of a code in the answer of a broker. */
const { createErrorFromCode } = createRequire(import.meta.url)('kafkajs/src/protocol/error') as {
  createErrorFromCode(code: number): Error;
};
const MESSAGE_TOO_LARGE = 10;

contract(GROUNDS.kafka, ({ db, relaying, newOutbox }) => {
  // The mock cluster has no limit for records, so the answer is made by hand.
  test('a record that the broker calls too large is a dead letter', async () => {
    const events = await newOutbox({ refused: 'hold' });
    const { id } = await events.publish({ type: 'order.placed', key: 'large', data: { n: 0 } });
    const producer = { send: () => Promise.reject(createErrorFromCode(MESSAGE_TOO_LARGE)) };
    const { relay } = await relaying(events, { around: (): Sink => kafkaSink(producer) });
    await until('it is a dead letter', async () => (await db.hf.job(id))?.status === 'dead_letter');
    const job = await db.hf.job(id);
    expect(job).toMatchObject({ attempts: 1 });
    expect(job?.lastError).toMatch(/kafka: .*larger than the topic allows/);
    expect(relay.stats()).toMatchObject({ refused: 1, faults: 0 });
  });

  test('a request on which the broker closes the connection spends its own attempts, and the others go on', async () => {
    const events = await newOutbox({ refused: 'hold' });
    const pad = 'x'.repeat(2 * MAX_REQUEST);
    const [large] = await events.publish([
      { type: 'order.placed', key: 'large', data: { n: 0, pad } },
      { type: 'order.placed', key: 'large', data: { n: 1 } },
    ]);
    const { relay } = await relaying(events);
    let n = 0;
    await until('it has failed by itself', async () => {
      await events.publish({ type: 'order.placed', key: `small:${n}`, data: { n: n++ } });
      return ((await db.hf.job(large?.id as string))?.attempts ?? 0) > 1;
    });
    await until('the others are done', () => relay.stats().published === n);
    expect((await db.hf.job(large?.id as string))?.lastError).toMatch(
      /Connection error|Closed connection/,
    );
  });
});
