/** Events become rows: with your transaction, in order per key, once. */
import { expect, test } from 'vitest';
import { agreed, MODEL, ordersOf, paid, testLogs, testProjectors, totalsOf } from './ground.js';

const logs = testLogs();
const start = testProjectors();

test('events from before and after the start are applied in order per key, those of other types passed over', async () => {
  const { hf, rows, pool } = await logs();
  const orders = ordersOf(hf);
  await orders.append([paid('a', 1), paid('b', 2), paid('a', 3)]);
  await start(hf, [totalsOf(orders)]);
  await agreed(rows);
  const tx = await pool.connect();
  try {
    await tx.query('BEGIN');
    await orders.append([paid('a', 100)], { tx });
    await tx.query('ROLLBACK');
    await tx.query('BEGIN');
    await orders.append([paid('a', 4)], { tx });
    await tx.query(
      `INSERT INTO holdfast.event_log (stream, key, type, data) VALUES ('orders', 'c', 'order.paid', '{"cents": 5}')`,
    );
    await tx.query('COMMIT');
  } finally {
    tx.release();
  }
  await orders.append([{ type: 'order.seen', key: 'd', data: null }]);
  expect(await agreed(rows)).toEqual([
    { key: 'a', cents: '8', events: 3, line: '1,3,4' },
    { key: 'b', cents: '2', events: 1, line: '2' },
    { key: 'c', cents: '5', events: 1, line: '5' },
  ]);
  expect(await rows(MODEL)).toHaveLength(3);
});
