/** What the shop tells is heard by those whom it is for, and the report finds it when it is not. */
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { testDatabase } from '../../../../test/support/database.js';
import { until } from '../../../../test/support/until.js';
import { openShop, placeOrders } from '../shop/shop.js';
import { handleNews, openHooks } from './news.js';
import { openReceivers } from './receivers.js';
import { newsReport } from './report.js';

const db = testDatabase();
const kept = async () => (await newsReport(db.pool, db.hf)).rows.map(([, , held]) => held);

beforeEach(async () => {
  await openShop(db.pool, db.hf);
  await db.rows(`TRUNCATE shop.messages, shop.heard, shop.sales, shop.books, shop.orders, shop.steps,
    holdfast.outbox, holdfast.webhooks, holdfast.webhooks_ordered`);
});

const hear = (place: string, id: string, order: number, step = 0) =>
  db.rows(
    'INSERT INTO shop.heard (place, id, order_id, step, signed) VALUES ($1, $2, $3, $4, true)',
    [place, id, order, step],
  );

/** What an order was told of, as if it had gone well. */
async function message(order: number, step = 0): Promise<void> {
  await db.rows(
    `INSERT INTO shop.messages SELECT gen_random_uuid(), 'events', $1, $2, 'acme', 500`,
    [order, step],
  );
}

test('orders are told to a partner and by signed webhooks, some twice, and sales are counted', async () => {
  const receivers = await openReceivers(db.pool);
  onTestFinished(() => receivers.close());
  await openHooks(db.hf, receivers.url);
  await placeOrders(db.pool, db.hf, 64);
  const before = await newsReport(db.pool, db.hf);
  expect(before.rows.map(([, text]) => text)[0]).toBe(
    '0 published in order, 64 to come, 0 came twice',
  );
  const worker = db.hf.worker({ handleSignals: false, poll: '50ms' });
  await handleNews(worker, db.hf, receivers.url);
  const running = worker.run();
  onTestFinished(async () => {
    await worker.stop({ grace: 0 });
    await running;
  });
  await until('all is told', async () => (await newsReport(db.pool, db.hf)).open === 0);
  const { rows, kept: held } = await newsReport(db.pool, db.hf);
  expect(held).toBe(true);
  const text = Object.fromEntries(rows.map(([name, said]) => [name, said]));
  expect(text.events).toMatch(/^64 published in order, \d+ came twice$/);
  // Every eighth call of one of them is heard, and its answer is lost.
  expect(text.webhooks).toMatch(/^16 delivered and signed, [1-9]\d* came twice$/);
  expect(text.sales).toMatch(/^[\d,.]+ of 8 customers, as SQL says$/);
  await db.rows('UPDATE shop.sales SET parcels = parcels + 1 WHERE customer = $1', ['acme']);
  expect(await kept()).toEqual([true, true, false]);
});

test('what waits is not lost; what is gone and was not heard is', async () => {
  await placeOrders(db.pool, db.hf, 1);
  expect((await kept())[0]).toBe(true);
  await db.rows('DELETE FROM holdfast.outbox');
  expect((await kept())[0]).toBe(false);
});

test('the same twice under one id is kept, under two ids it is not', async () => {
  await message(1);
  for (let n = 0; n < 2; n++) await hear('events', 'a', 1);
  expect((await kept())[0]).toBe(true);
  await hear('events', 'b', 1);
  expect((await kept())[0]).toBe(false);
});

test('what comes before an earlier message of its order is found', async () => {
  for (const step of [0, 2]) await message(1, step);
  await hear('events', 'b', 1, 2);
  await hear('events', 'a', 1, 0);
  expect((await kept())[0]).toBe(false);
});

test('what was heard and never told is found, and what is not signed', async () => {
  await hear('events', 'a', 1);
  expect((await kept())[0]).toBe(false);
  await message(1);
  expect((await kept())[0]).toBe(true);
  await db.rows('UPDATE shop.heard SET signed = false');
  expect((await kept())[0]).toBe(false);
});
