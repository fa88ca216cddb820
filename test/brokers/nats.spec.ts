import { expect, test } from 'vitest';
import { until } from '../support/until.js';
import { MAX_BYTES, openNats } from './clients.mjs';
import { contract } from './contract.js';
import { GROUNDS } from './grounds.js';

contract(GROUNDS.nats, ({ db, broker, relaying, newOutbox }) => {
  test('a message that is too large for the stream is a dead letter and holds its key', async () => {
    const events = await newOutbox({ refused: 'hold' });
    const pad = 'x'.repeat(MAX_BYTES);
    const [large] = await events.publish([
      { type: 'order.placed', key: 'large', data: { n: 0, pad } },
      { type: 'order.placed', key: 'large', data: { n: 1 } },
      { type: 'order.placed', key: 'small', data: { n: 2 } },
    ]);
    const { relay } = await relaying(events);
    await until('the others are done', () => relay.stats().published === 1);
    const job = await db.hf.job(large?.id as string);
    expect(job).toMatchObject({ status: 'dead_letter', attempts: 1 });
    expect(job?.lastError).toMatch(/nats: order\.placed: .*larger than the stream allows/);
  });

  test('events of a subject without a stream wait, hold nobody, and go once there is one', async () => {
    const { manager, close } = await openNats(broker().port);
    const streams = (await manager()).streams;
    await streams.update('EVENTS', { subjects: ['events.order.>'] });
    const events = await newOutbox();
    await events.publish([
      { type: 'invoice.sent', key: 'invoice:1', data: { n: 0 } },
      { type: 'order.placed', key: 'order:1', data: { n: 0 } },
      { type: 'order.placed', key: 'order:1', data: { n: 1 } },
    ]);
    const { relay, worker } = await relaying(events);
    await until('the others are done', () => relay.stats().published === 2);
    await until('it is put off', () => worker.stats.snoozed > 0);
    expect(relay.stats().brokenTargets).toEqual(['events.invoice.sent']);
    await streams.update('EVENTS', { subjects: ['events.>'] });
    await until('it goes', () => relay.stats().published === 3);
    expect(worker.stats).toMatchObject({ failed: 0, dead_letter: 0 });
    await close();
  });
});
