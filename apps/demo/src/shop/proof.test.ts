/** The proof must find what is planted, and nothing else. */
import { beforeEach, expect, test } from 'vitest';
import { testDatabase } from '../../../../test/support/database.js';
import { QUEUE } from './jobs.js';
import { holds, prove } from './proof.js';
import { openShop, placeOrders, recordEffect } from './shop.js';

const db = testDatabase();

beforeEach(async () => {
  await openShop(db.pool, db.hf);
  await db.rows(
    'TRUNCATE holdfast.orders, holdfast.orders_archive, shop.orders, shop.steps, shop.effects',
  );
});

interface Planned {
  job_id: string;
  order_id: string;
  step: number;
}

/** One order with its jobs, in their order. */
async function placed(): Promise<Planned[]> {
  await placeOrders(db.pool, db.hf, 1);
  return db.rows<Planned>('SELECT * FROM shop.steps ORDER BY step');
}

/** As a worker does it: the effect and the end of the job in one transaction. */
async function finish({ job_id: jobId, order_id, step }: Planned): Promise<void> {
  const client = await db.pool.connect();
  await client.query('BEGIN');
  const who = { effect: 'done', attempt: 1, worker: 1 };
  await recordEffect(client, { jobId, orderId: Number(order_id), step, ...who });
  await client.query('DELETE FROM holdfast.orders WHERE id = $1', [jobId]);
  await client.query('COMMIT');
  client.release();
}

test('an order and its jobs are there together; what waits is not lost', async () => {
  const steps = await placed();
  const proof = await prove(db.pool, 1);
  expect(proof).toMatchObject({ orders: 1, accepted: steps.length, completed: 0, lost: 0 });
  expect(holds(proof)).toBe(true);
});

test('an order that cannot be placed leaves nothing behind', async () => {
  await db.rows('ALTER TABLE shop.steps ADD CONSTRAINT refuse CHECK (false) NOT VALID');
  await expect(placeOrders(db.pool, db.hf, 1)).rejects.toThrow('refuse');
  await db.rows('ALTER TABLE shop.steps DROP CONSTRAINT refuse');
  expect(await prove(db.pool)).toMatchObject({ orders: 0, accepted: 0 });
  expect(await db.rows('SELECT FROM holdfast.orders')).toHaveLength(0);
});

test('jobs that were done in order hold', async () => {
  const steps = await placed();
  for (const step of steps) await finish(step);
  const proof = await prove(db.pool, 1);
  expect(proof).toMatchObject({ completed: steps.length, lost: 0, doubled: 0, outOfOrder: 0 });
});

test('a job that vanished without its effect is lost', async () => {
  const [first] = await placed();
  await db.rows('DELETE FROM holdfast.orders WHERE id = $1', [first?.job_id]);
  const proof = await prove(db.pool);
  expect(proof.lost).toBe(1);
  expect(holds(proof)).toBe(false);
});

test('an order that was confirmed and is not there is lost', async () => {
  await placed();
  expect((await prove(db.pool, 3)).lost).toBe(2);
});

test('a job that a human cancelled is not lost', async () => {
  const [first] = await placed();
  await db.hf.cancel([first?.job_id as string], { reason: 'not wanted', queue: QUEUE });
  expect((await prove(db.pool)).lost).toBe(0);
});

test('a second attempt that commits is a doubled effect', async () => {
  const [first] = await placed();
  await finish(first as Planned);
  await finish(first as Planned);
  const proof = await prove(db.pool);
  expect(proof).toMatchObject({ completed: 1, doubled: 1, lost: 0 });
  expect(holds(proof)).toBe(false);
});

test('an effect before that of an earlier job of its order is out of order', async () => {
  const [first, second] = await placed();
  await finish(second as Planned);
  await finish(first as Planned);
  const proof = await prove(db.pool);
  expect(proof).toMatchObject({ outOfOrder: 1, doubled: 0, lost: 0 });
  expect(holds(proof)).toBe(false);
});
