/** A dump that was restored elsewhere: the cursors' snapshots mean nothing there, and nobody acts as if they did. */
import { eventLog, project, projections } from 'holdfast/projections';
import { expect, test } from 'vitest';
import { until } from '../../support/until.js';
import {
  agreed,
  MODEL,
  ordersOf,
  paid,
  RESTORED,
  testLogs,
  testProjectors,
  totalsOf,
} from './ground.js';

const logs = testLogs();
const start = testProjectors();

test('a projection does not start on cursors of another cluster; rebase carries them over by position', async () => {
  const { hf, rows } = await logs();
  const orders = ordersOf(hf);
  const worker = await start(hf, [totalsOf(orders)]);
  await orders.append([paid('a', 1), paid('b', 2)]);
  await agreed(rows);
  await worker.stop();
  await orders.append([paid('a', 3)]);
  await rows(RESTORED);
  await orders.append([paid('a', 4)]);
  const again = () => project(hf.worker({ handleSignals: false }), [totalsOf(orders)]);
  await expect(again()).rejects.toMatchObject({ code: 'PROJECTION_CLUSTER' });
  await projections(hf).rebase('order_totals');
  await start(hf, [totalsOf(orders)]);
  expect(await agreed(rows)).toMatchObject([{ line: '1,3,4' }, { line: '2' }]);
});

test('where a late commit makes it uncertain what was read, rebase refuses, and a rebuild replaces the model', async () => {
  const { hf, rows, pool } = await logs();
  const orders = ordersOf(hf);
  const worker = await start(hf, [totalsOf(orders, { shards: 1 })]);
  const late = await pool.connect();
  try {
    await late.query('BEGIN');
    await orders.append([paid('late', 1)], { tx: late });
    await orders.append([paid('a', 1)]);
    await until(
      'the first is applied',
      async () => (await rows(MODEL).catch(() => [])).length === 1,
    );
    await worker.stop();
    await late.query('COMMIT');
  } finally {
    late.release();
  }
  await rows(RESTORED);
  const all = projections(hf);
  await expect(all.rebase('order_totals')).rejects.toMatchObject({ code: 'PROJECTION_CLUSTER' });
  await expect(all.rebuild('order_totals')).rejects.toMatchObject({ code: 'PROJECTION_CLUSTER' });
  await all.rebase('order_totals', { rebuild: true });
  await start(hf, [totalsOf(orders, { shards: 1 })]);
  expect(await agreed(rows)).toHaveLength(2);
});

test('what a restored log holds, and what is appended to it, is read through ranges of indexes', async () => {
  const { hf, rows } = await logs();
  const log = eventLog(hf, 'orders');
  await log.append([paid('a', 1)]);
  await rows(`INSERT INTO holdfast.event_log (stream, id, bucket, key, type, data)
    SELECT 'orders', gen_random_uuid(), n % 1024, 'k', 'order.paid', '1' FROM generate_series(1, 20000) AS n`);
  await rows('ANALYZE holdfast.event_log');
  // A cursor that has read nearly all: with the snapshot of now, and with one that names 50 running transactions.
  const [{ xmax }] = (await rows(
    `SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS xmax`,
  )) as [{ xmax: number }];
  const running = Array.from({ length: 50 }, (_, n) => Number(xmax) + n).join(',');
  const seen = `${xmax}:${Number(xmax) + 50}:${running}`;
  await log.append([paid('a', 2)]);
  const text = `SELECT * FROM holdfast.event_page('orders', 0, 31, $1::pg_snapshot, $2::text::xid8, 20001, NULL, NULL, 0, 1000)`;
  const read = await rows(text, [seen, String(Number(xmax) + 50)]);
  expect(read).toHaveLength(1);
  const explained = (await rows(
    `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${text.replace('$1', `'${seen}'`).replace('$2', `'${Number(xmax) + 50}'`)}`,
  )) as [{ 'QUERY PLAN': [{ Plan: Record<string, number> }] }];
  const plan = explained[0]['QUERY PLAN'][0].Plan;
  // 50 transactions and 32 slices, three pages of an index each. The log has 400 pages of rows.
  expect((plan['Shared Hit Blocks'] ?? 0) + (plan['Shared Read Blocks'] ?? 0)).toBeLessThan(600);
});
