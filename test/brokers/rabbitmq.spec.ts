import { expect, test } from 'vitest';
import { until } from '../support/until.js';
import { MAX_BYTES } from './clients.mjs';
import { contract } from './contract.js';
import { GROUNDS } from './grounds.js';

contract(GROUNDS.rabbitmq, ({ db, relaying, newOutbox }) => {
  test.each([
    [
      'unroutable',
      { type: 'invoice.sent', data: { n: 0 } },
      /no queue takes routing key "invoice\.sent"/,
    ],
    [
      'too large',
      { type: 'order.placed', data: { n: 0, pad: 'x'.repeat(MAX_BYTES) } },
      /more than 100000/,
    ],
  ] as const)('a message that is %s is a dead letter and holds its key', async (_, event, why) => {
    const events = await newOutbox({ refused: 'hold' });
    const [refused] = await events.publish([
      { key: 'refused', ...event },
      { type: 'order.placed', key: 'refused', data: { n: 1 } },
      { type: 'order.placed', key: 'other', data: { n: 2 } },
    ]);
    const { relay } = await relaying(events);
    await until('the other is done', () => relay.stats().published === 1);
    const job = await db.hf.job(refused?.id as string);
    expect(job).toMatchObject({ status: 'dead_letter', attempts: 1 });
    expect(job?.lastError).toMatch(why);
    expect(relay.stats()).toMatchObject({ refused: 1, faults: 0 });
  });
});
