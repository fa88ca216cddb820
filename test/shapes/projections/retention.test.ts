/** Old events are deleted once every build of every projection of their log has applied them, and no sooner. */
import { eventLog, project, projection, projections } from 'holdfast/projections';
import { expect, test } from 'vitest';
import { until } from '../../support/until.js';
import { MODEL, ordersOf, paid, testLogs, testProjectors, totalsOf } from './ground.js';

const logs = testLogs();
const start = testProjectors();
const AGED = `UPDATE holdfast.event_log SET written_at = now() - interval '2 hours' WHERE position <= $1`;
const KEYS = 'SELECT stream, key FROM holdfast.event_log ORDER BY position';

test('a projecting worker deletes what is older than the retention and was applied by all, and nothing else', async () => {
  const { hf, rows } = await logs();
  const orders = eventLog(hf, 'orders', { retention: '1h' });
  const other = eventLog(hf, 'other', { retention: '1h' });
  await orders.append([paid('a', 1), paid('b', 1), paid('poison', 1)]);
  await other.append([paid('elsewhere', 1)]);
  await rows(AGED, [4]);
  await orders.append([paid('young', 1)]);
  // A second projection of the log, which nobody works on.
  const late = projection('late', { log: orders, apply: () => undefined, shards: 1 });
  await project(hf.worker({ handleSignals: false }), [late]);
  const fragile = totalsOf(orders, {
    shards: 1,
    on: {
      'order.paid': ({ key }, tx) => {
        if (key === 'poison') throw new Error('never');
        return tx.query(`INSERT INTO totals VALUES ($1, 1, 1, '')`, [key]);
      },
    },
  });
  const worker = await start(hf, [fragile]);
  await until('three are applied', async () => (await rows(MODEL).catch(() => [])).length === 3);
  expect(await orders.prune()).toBe(0);
  expect(await rows(KEYS)).toHaveLength(5);
  expect(await ordersOf(hf).prune()).toBe(0);
  await worker.stop();

  // The other one applies all, and its next turn deletes the rest by itself: but what has stopped waits.
  const second = await start(hf, [late]);
  await until('the other one has applied all', async () =>
    (await projections(hf).list('late')).every(({ events }) => events === 0),
  );
  await second.stop();
  await start(hf, [late]);
  const wanted = [
    { stream: 'orders', key: 'poison' },
    { stream: 'other', key: 'elsewhere' },
    { stream: 'orders', key: 'young' },
  ];
  await until('the rest is gone', async () => (await rows(KEYS)).length === 3);
  expect(await rows(KEYS)).toEqual(wanted);
  // A log without a projection keeps to its retention, too.
  expect(await other.prune()).toBe(1);
});
