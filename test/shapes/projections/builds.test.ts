/** A new version is built beside the live one and takes its place in one transaction; the old one can come back. */
import { setTimeout as sleep } from 'node:timers/promises';
import { projections } from 'holdfast/projections';
import { expect, test } from 'vitest';
import { long } from '../../support/long.js';
import { until } from '../../support/until.js';
import { agreed, MODEL, ordersOf, paid, testLogs, testProjectors, totalsOf } from './ground.js';

const logs = testLogs();
const start = testProjectors();

test('a new version is built from the start beside 8 writers, and readers never see half of it', async () => {
  const { hf, rows } = await logs();
  const orders = ordersOf(hf);
  const all = projections(hf);
  await start(hf, [totalsOf(orders)]);
  await orders.append(Array.from({ length: long(500, 2_000) }, (_, n) => paid(`key:${n % 50}`, n)));
  await agreed(rows);
  let writing = true;
  const writers = Array.from({ length: 8 }, async (_, w) => {
    for (let n = 0; writing; n++) {
      await orders.append([paid(`key:${w}`, n), paid(`own:${w}:${n % 9}`, n)]);
      await sleep(250);
    }
  });
  const seen: number[] = [];
  const reader = (async () => {
    while (writing) {
      const [row] = (await rows(`SELECT count(*)::integer AS keys FROM order_totals.totals`)) as [
        { keys: number },
      ];
      seen.push(row.keys);
      await sleep(20);
    }
  })();
  await start(hf, [totalsOf(orders, { version: 2 })]);
  await until('version 2 is live', async () =>
    (await all.list()).some(({ version, state }) => version === 2 && state === 'live'),
  );
  await sleep(long(20, 5_000));
  writing = false;
  await Promise.all([...writers, reader]);
  // All keys of the first events were there at any time.
  expect(Math.min(...seen)).toBeGreaterThanOrEqual(50);
  await agreed(rows);
  const list = await all.list();
  expect(list.map(({ version, state }) => ({ version, state }))).toEqual([
    { version: 1, state: 'old' },
    { version: 2, state: 'live' },
  ]);
  // The old one goes on while its code does, so it may come back.
  await all.promote('order_totals', { version: 1 });
  await agreed(rows);
  expect((await all.list('order_totals')).find(({ state }) => state === 'live')?.version).toBe(1);
  expect(await all.remove('order_totals', { version: 2 })).toBe(1);
  expect(await rows(`SELECT nspname FROM pg_namespace WHERE nspname LIKE 'order_totals%'`)).toEqual(
    [{ nspname: 'order_totals' }],
  );
});

test('the same code is built anew on request, and pruned events are those that everybody has applied', async () => {
  const { hf, rows } = await logs();
  const orders = ordersOf(hf);
  const all = projections(hf);
  await start(hf, [totalsOf(orders)]);
  await orders.append([paid('a', 1), paid('b', 2)]);
  await agreed(rows);
  // Somebody has broken the live one.
  await rows(`UPDATE order_totals.totals SET cents = 0`);
  const id = await all.rebuild('order_totals');
  await until('the new build is live', async () =>
    (await all.list()).some((one) => one.id === id && one.state === 'live'),
  );
  await agreed(rows);
  expect(await rows(MODEL)).toHaveLength(2);
});
