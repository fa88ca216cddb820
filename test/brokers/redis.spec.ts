import { holdfast } from 'holdfast';
import { outbox } from 'holdfast/outbox';
import { expect, onTestFinished, test } from 'vitest';
import { until } from '../support/until.js';
import { contract } from './contract.js';
import { GROUNDS } from './grounds.js';

contract(GROUNDS.redis, ({ db, relaying, newOutbox }) => {
  test('a message that is too large is a dead letter and holds its key', async () => {
    const { queue } = await newOutbox({ refused: 'hold' });
    const large = holdfast({ connectionString: db.url, maxPayloadBytes: 4 * 2 ** 20 });
    onTestFinished(() => large.close());
    const events = outbox<{ 'order.placed': { n: number; pad?: string } }>(large, { queue });
    // The server of these tests takes a value of 1 MiB; it closes the connection on a larger one.
    const pad = 'x'.repeat(3 * 2 ** 20);
    const [refused] = await events.publish([
      { type: 'order.placed', key: 'large', data: { n: 0, pad } },
      { type: 'order.placed', key: 'large', data: { n: 1 } },
      ...Array.from({ length: 20 }, (_, n) => ({
        ...{ type: 'order.placed' as const, key: `small:${n}`, data: { n } },
      })),
    ]);
    const { relay } = await relaying(events as never);
    await until('the others are done', () => relay.stats().published === 20);
    await until('it is refused', () => relay.stats().refused === 1);
    const id = refused?.id as string;
    await until('it is a dead letter', async () => (await db.hf.job(id))?.status === 'dead_letter');
    const job = await db.hf.job(id);
    expect(job).toMatchObject({ attempts: 1 });
    expect(job?.lastError).toMatch(/Redis refused the event: .*invalid bulk length/);
  });
});
