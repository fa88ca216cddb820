/** An event that cannot be applied stops its key and no other, says so, and loses nothing. */
import { type Projection, projections } from 'holdfast/projections';
import { expect, test } from 'vitest';
import { until } from '../../support/until.js';
import {
  ADD,
  agreed,
  MODEL,
  ordersOf,
  type Paid,
  paid,
  testLogs,
  testProjectors,
  totalsOf,
} from './ground.js';

const logs = testLogs();
const start = testProjectors();

test('a poison event stops its key; the others go on, and resume applies what waited in order', async () => {
  const { hf, rows } = await logs();
  const orders = ordersOf(hf);
  let broken = true;
  const fragile: Projection = totalsOf(orders, {
    shards: 1,
    on: {
      'order.paid': (event: Paid, tx) => {
        if (broken && event.data.cents === 13) throw new Error('thirteen is not for me');
        return tx.query(ADD, [event.key, event.data.cents]);
      },
    },
  });
  await start(hf, [fragile]);
  await orders.append([paid('a', 1), paid('b', 1), paid('a', 13), paid('b', 2), paid('a', 2)]);
  const all = projections(hf);
  const stop = await until('the key has stopped', async () => (await all.stops())[0]);
  expect(stop).toMatchObject({ name: 'order_totals', key: 'a', parked: 2, type: 'order.paid' });
  expect(stop?.error).toContain('thirteen is not for me');
  await orders.append([paid('a', 3), paid('b', 3)]);
  await until('the other key went on', async () => (await all.list())[0]?.events === 0);
  expect(await rows(MODEL)).toMatchObject([
    { key: 'a', line: '1' },
    { key: 'b', line: '1,2,3' },
  ]);
  expect((await all.list())[0]).toMatchObject({ stopped: 1, parked: 3, events: 0 });
  // Not mended: it stops at the same event again.
  expect(await all.resume('order_totals', { key: 'a' })).toBe(1);
  await until('it has stopped again', async () => (await all.stops())[0]?.resumed === false);
  expect((await all.stops())[0]).toMatchObject({ parked: 3 });
  broken = false;
  await all.resume('order_totals');
  expect(await agreed(rows)).toMatchObject([{ line: '1,13,2,3' }, { line: '1,2,3' }]);
  await until('nothing stands still', async () => (await all.stops()).length === 0);
  await orders.append([paid('a', 4)]);
  expect(await agreed(rows)).toMatchObject([{ line: '1,13,2,3,4' }, { line: '1,2,3' }]);
});
