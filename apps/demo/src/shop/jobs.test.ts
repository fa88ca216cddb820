/** The demo's handlers, tested with the kit that users have. */
import type pg from 'pg';
import { beforeAll, describe, expect, test } from 'vitest';
import {
  clearJobs,
  drain,
  survivesFaults,
  testJob,
} from '../../../../packages/testing/src/index.js';
import { KITS, kitOn } from '../../../../test/support/kits.js';
import { DUTIES, type Duty, handlerOf, jobsOf, QUEUE, receipt, refund, shipment } from './jobs.js';
import { openShop, recordEffect } from './shop.js';

const [, onServer] = KITS.find(([name]) => name === 'Postgres') as (typeof KITS)[number];

describe('the demo’s handlers', () => {
  const kit = kitOn(onServer);
  const deps = {
    call: async () => undefined,
    record: (tx: pg.PoolClient, done: Parameters<Parameters<typeof handlerOf>[1]['record']>[1]) =>
      recordEffect(tx, { ...done, worker: 1 }),
  };
  beforeAll(() => openShop(kit.pool, kit.hf));
  const commits = async () => {
    const { rows } = await kit.pool.query(
      'SELECT coalesce(sum(commits), 0)::int AS n FROM shop.effects',
    );
    return rows[0].n as number;
  };
  const once = (duty: Duty, orderId: number, attempt: number) =>
    testJob(duty.job, handlerOf(duty, deps), { orderId, step: 2 }, { hf: kit.hf, attempt });

  test.each(DUTIES.map((duty) => [duty.job.type, duty] as const))(
    '%s has its effect once, whatever happens around it',
    async (_, duty) => {
      const payload = { orderId: 1, step: 1 };
      const options = { hf: kit.hf, effect: commits };
      const { tried } = await survivesFaults(duty.job, handlerOf(duty, deps), payload, options);
      expect(tried.length).toBeGreaterThan(4);
    },
  );

  test('fail, are retried and give up as the demo says', async () => {
    expect(await once(receipt, 7, 2)).toMatchObject({ outcome: 'retry' });
    expect(await once(receipt, 7, 3)).toMatchObject({ outcome: 'completed' });
    expect(await once(receipt, 97, 4)).toMatchObject({ outcome: 'dead_letter' });
    expect(await once(shipment, 11, 1)).toMatchObject({ outcome: 'retry' });
    expect(await once(refund, 40, 1)).toMatchObject({ outcome: 'dead_letter' });
  });

  test('run the jobs of an order in their order', async () => {
    await clearJobs(kit.hf);
    const worker = kit.hf.worker();
    for (const duty of DUTIES) worker.handle(duty.job, handlerOf(duty, deps));
    await kit.hf.enqueueMany(jobsOf(35, { parcels: 2 }));
    const counts = await drain(kit.hf, { worker, queue: QUEUE, until: '1h' });
    expect(counts).toMatchObject({ completed: 4, retry: 2, dead_letter: 0 });
    const { rows } = await kit.pool.query(
      'SELECT effect, step FROM shop.effects WHERE order_id = 35 ORDER BY seq',
    );
    expect(rows.map(({ step }) => step)).toEqual([1, 2, 3, 4]);
  });
});
