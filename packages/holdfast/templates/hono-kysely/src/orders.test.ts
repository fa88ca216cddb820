import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startPglite, survivesFaults } from '@holdfast/testing';
import { Kysely, PostgresDialect } from 'kysely';
import { receiptHandler, sendReceipt } from './jobs.ts';
import { migrations } from './migrations.ts';

// `npm test` runs this with --liftoff-only: V8 does not optimize PGlite, which a short test would not earn back.
const { hf, pool, close } = await startPglite();
after(close);

test('one mail is sent for an order, whatever fails around the handler', async () => {
  await migrations['0001_orders'].up(new Kysely({ dialect: new PostgresDialect({ pool }) }));
  const sent = new Map<string, number>();
  const mail = { send: async (orderId: number, key: string) => void sent.set(key, orderId) };

  const order = `INSERT INTO orders (email, total_cents) VALUES ('ada@example.com', 4200) RETURNING id`;
  const { rows } = await pool.query(order);
  const payload = { orderId: Number(rows[0].id) };
  const effect = () => sent.size;
  const report = await survivesFaults(sendReceipt, receiptHandler(mail), payload, { hf, effect });
  assert.equal(report.onceGap, 'closed');
});
