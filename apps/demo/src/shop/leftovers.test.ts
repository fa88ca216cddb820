/** What the next start does with the rows of an earlier one. */
import type pg from 'pg';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { DeadLetter } from '../../../../packages/holdfast/src/job/errors/errors.js';
import { testDatabase } from '../../../../test/support/database.js';
import { until } from '../../../../test/support/until.js';
import { testWorkers } from '../../../../test/support/workers.js';
import { DUTIES, shipment } from './jobs.js';
import { settleLeftovers } from './leftovers.js';
import { openShop, placeOrders, recordEffect } from './shop.js';

const db = testDatabase();
const start = testWorkers();

beforeEach(async () => {
  await openShop(db.pool, db.hf);
  await db.rows(
    'TRUNCATE holdfast.orders, holdfast.orders_archive, shop.orders, shop.steps, shop.effects',
  );
});

async function session(): Promise<pg.PoolClient> {
  const client = await db.pool.connect();
  onTestFinished(() => client.release(true));
  return client;
}

/** Places orders and does all of their jobs, or makes the first of each a dead letter. */
async function done(orders: number, giveUp = false): Promise<void> {
  await placeOrders(db.pool, db.hf, orders);
  const worker = start(db.hf, (one) => {
    for (const { job, effect } of DUTIES) {
      one.handle(job, async ({ id, payload, attempt, transaction }) => {
        if (giveUp && payload.step === 1) throw new DeadLetter('given up');
        const facts = { ...payload, jobId: id, effect, attempt, worker: 1 };
        await transaction((tx) => recordEffect(tx, facts));
      });
    }
    return one;
  });
  await until('nothing waits', async () => {
    const left = await db.rows(`SELECT FROM holdfast.orders WHERE status <> 'dead_letter'`);
    return left.length === 0;
  });
  await worker.stop();
}

test('finished orders are cleared away with their archive; waiting ones are kept', async () => {
  await done(3);
  await placeOrders(db.pool, db.hf, 2);
  const { shared, found, kept } = await settleLeftovers(db.pool, db.hf, await session());
  expect(shared).toBe(false);
  expect(found).toMatchObject({ orders: 5, lost: 0 });
  expect(kept).toMatchObject({ orders: 2, completed: 0, lost: 0 });
  expect(kept.accepted).toBeGreaterThanOrEqual(4);
  expect(await db.rows('SELECT FROM holdfast.orders_archive')).toHaveLength(0);
});

test('dead letters of an earlier run are discarded, and their orders with them', async () => {
  await done(2, true);
  expect(await db.rows('SELECT FROM holdfast.orders')).toHaveLength(2);
  const { kept } = await settleLeftovers(db.pool, db.hf, await session());
  expect(kept).toMatchObject({ orders: 0, accepted: 0, completed: 0, lost: 0 });
  expect(await db.rows('SELECT FROM holdfast.orders')).toHaveLength(0);
});

test('an order whose first job is a dead letter goes on, and nothing of it counts as lost', async () => {
  await done(1, true);
  const [order] = await db.rows<{ id: string }>('SELECT id FROM shop.orders');
  const { id } = await db.hf.enqueue(shipment.job, { orderId: Number(order?.id), step: 9 });
  await db.rows('INSERT INTO shop.steps VALUES ($1, $2, 9)', [id, order?.id]);
  const { kept } = await settleLeftovers(db.pool, db.hf, await session());
  expect(kept).toMatchObject({ orders: 1, lost: 0 });
  expect(await db.rows('SELECT FROM holdfast.orders')).toHaveLength(1);
  expect(await db.rows('SELECT FROM holdfast.orders_archive')).toHaveLength(0);
});

test('what the proof does not accept is kept as it is', async () => {
  await done(2);
  await db.rows('UPDATE shop.effects SET commits = 2 WHERE step = 1');
  const { found, kept } = await settleLeftovers(db.pool, db.hf, await session());
  expect(found.doubled).toBe(2);
  expect(kept).toEqual(found);
});

test('while another demo runs nothing is cleared away', async () => {
  await done(1);
  const first = await session();
  await first.query(`SELECT pg_advisory_lock_shared(hashtext('holdfast demo'))`);
  const { shared, found, kept } = await settleLeftovers(db.pool, db.hf, await session());
  expect(shared).toBe(true);
  expect(kept).toEqual(found);
  expect(kept.orders).toBe(1);
});
