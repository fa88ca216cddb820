/** docs/roles.sql and projections: a producer may only append, a worker projects, a viewer looks, an operator resumes. */
import { projections } from 'holdfast/projections';
import { expect, test } from 'vitest';
import { testDatabase } from '../../support/database.js';
import { testRoles } from '../../support/roles.js';
import { until } from '../../support/until.js';
import {
  ADD,
  agreed,
  MODEL,
  ordersOf,
  type Paid,
  paid,
  testProjectors,
  totalsOf,
} from './ground.js';

const db = testDatabase();
const start = testProjectors();
const { members } = testRoles(db, { prefix: 'holdfast_proj' });
const DENIED = { code: '42501' };

/** Everything but appending. */
const BEYOND = [
  'SELECT position FROM holdfast.event_log',
  'INSERT INTO holdfast.event_log (stream, key, type, data) VALUES ($$s$$, $$k$$, $$t$$, $$1$$) RETURNING data',
  "INSERT INTO holdfast.event_log (position, stream, key, type, data) OVERRIDING SYSTEM VALUE VALUES (1, 's', 'k', 't', '1') ON CONFLICT (stream, slice, position) DO UPDATE SET data = '2'",
  "UPDATE holdfast.event_log SET data = '1'",
  'DELETE FROM holdfast.event_log',
  'TRUNCATE holdfast.event_log',
  'COPY holdfast.event_log TO STDOUT',
  "SELECT setval('holdfast.event_log_position_seq', 1)",
  "SELECT * FROM holdfast.event_page('orders', 0, 31, '1:1:', '0', 0, NULL, NULL, 0, 10)",
  'SELECT name FROM holdfast.projections',
  'UPDATE holdfast.projection_cursors SET read_top = 0',
  'DELETE FROM holdfast.projection_stops',
  'SELECT key FROM holdfast.projection_parked',
];

test('producers only append; workers project; viewers look; operators let keys go on', async () => {
  await db.hf.createQueue('projectors', { ordering: 'key' });
  await db.rows(
    `GRANT CREATE ON DATABASE "${new URL(db.url).pathname.slice(1)}" TO ${members.worker.user}`,
  );
  // Where even the identifier of the cluster is not for everybody.
  await db.rows('REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC');
  const { producer, worker, viewer, operator } = members;

  const orders = ordersOf(producer.hf);
  await orders.append([paid('a', 1)]);
  await producer.pool.query(
    `INSERT INTO holdfast.event_log (stream, key, type, data) VALUES ('orders', 'b', 'order.paid', '{"cents": 2}')`,
  );
  for (const statement of BEYOND)
    await expect(producer.pool.query(statement), statement).rejects.toMatchObject(DENIED);
  await expect(projections(producer.hf).list()).rejects.toMatchObject(DENIED);

  let broken = true;
  const totals = totalsOf(ordersOf(worker.hf), {
    shards: 1,
    on: {
      'order.paid': (event: Paid, tx) => {
        if (broken && event.key === 'a') throw new Error('not yet');
        return tx.query(ADD, [event.key, event.data.cents]);
      },
    },
  });
  await start(worker.hf, [totals]);
  const stops = () => projections(viewer.hf).stops();
  await until('a has stopped', async () => (await stops()).length === 1);
  expect(await projections(viewer.hf).list()).toMatchObject([
    { name: 'order_totals', state: 'live', stopped: 1, events: 0, refused: false },
  ]);
  await expect(projections(viewer.hf).resume('order_totals')).rejects.toMatchObject(DENIED);
  const { eventId } = (await stops())[0]!;
  await expect(projections(viewer.hf).skip('order_totals', eventId)).rejects.toMatchObject(DENIED);

  const acts = projections(operator.hf);
  for (const act of ['rebuild', 'rebase'] as const)
    await expect(acts[act]('order_totals'), act).rejects.toMatchObject(DENIED);
  broken = false;
  expect(await acts.resume('order_totals')).toBe(1);
  await agreed(db.rows);
  expect(await db.rows(MODEL)).toHaveLength(2);

  // The worker owns what it made, so it rebuilds, too.
  const id = await projections(worker.hf).rebuild('order_totals');
  await until('the second build is live', async () =>
    (await projections(viewer.hf).list()).some((one) => one.id === id && one.state === 'live'),
  );
  await agreed(db.rows);
  expect(await projections(worker.hf).remove('order_totals')).toBe(1);
  const audit = await db.hf.audit();
  expect(audit.acts.map(({ act, role }) => [act, role]).slice(0, 3)).toEqual([
    ['remove_projection', worker.user],
    ['rebuild_projection', worker.user],
    ['resume_projection', operator.user],
  ]);
});
