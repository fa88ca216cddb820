/** What workers see to by themselves: deliveries that were held in vain, and the log that grows old. Times are moved in the database. */
import { expect, test } from 'vitest';
import { executor } from '../../../packages/holdfast/src/postgres/queryable.js';
import {
  type WebhooksOptions,
  webhooks,
} from '../../../packages/holdfast/src/shapes/webhooks/index.js';
import { servicesOf } from '../../../packages/holdfast/src/worker/services/added.js';
import { testDatabase } from '../../support/database.js';
import { until } from '../../support/until.js';
import { testWorkers } from '../../support/workers.js';
import { emptyHooks, testReceivers } from './support/receivers.js';

const db = testDatabase();
const start = testWorkers();
const receiver = testReceivers();
const tenant = 'acme';
const NOWHERE = 'http://127.0.0.1:9999';

/** `run`: one run of a service, as the worker that won the election does it. */
async function hooksOf(options: WebhooksOptions = {}) {
  const hooks = webhooks(db.hf, { allow: ['127.0.0.0/8'], allowHttp: true, ...options });
  await hooks.create();
  await emptyHooks(db);
  const services = servicesOf(hooks.deliver(db.hf.worker()));
  const run = (name: string) => {
    const service = services.find((one) => one.name === name);
    if (!service) throw new Error(`no service "${name}"`);
    return service.run({ engine: executor(db.pool) } as never);
  };
  return { ...hooks, run, work: () => start(db.hf, (one) => hooks.deliver(one)) };
}

const wait = (endpoint: string, interval: string, queue = 'webhooks') =>
  db.rows(
    `UPDATE holdfast.${queue} SET available_at = now() + $2::text::interval WHERE partition_key = $1`,
    [endpoint, interval],
  );
const turned = (endpoint: string, interval: string) =>
  db.rows(
    `UPDATE holdfast.webhook_endpoints SET state_at = now() - $2::text::interval,
       created_at = created_at - interval '1 day' WHERE id = $1`,
    [endpoint, interval],
  );

test('what an attempt held although its endpoint was enabled meanwhile is due again, in order and in turns', async () => {
  const hooks = await hooksOf();
  for (const ordered of [false, true]) {
    const of = `${tenant}-${ordered}`;
    const { id } = await hooks.endpoints.create({ tenant: of, url: NOWHERE, ordered });
    await hooks.endpoints.disable(id);
    await hooks.endpoints.enable(id);
    await hooks.send({ tenant: of, type: 'a', data: 1 });
    await wait(id, '3000 days', ordered ? 'webhooks_ordered' : 'webhooks');
    expect(await hooks.endpoints.get(id)).toMatchObject({ held: 1, waiting: 0 });
    expect(await hooks.run('wake held webhooks')).toBe(1);
    expect(await hooks.endpoints.get(id)).toMatchObject({ held: 0, waiting: 1 });
    expect(await hooks.run('wake held webhooks')).toBe(0);
  }
});

test('nothing wakes what a disabled endpoint holds, what waits for a rate or a retry, and what was enabled long ago', async () => {
  const hooks = await hooksOf();
  const make = async (of: string) => {
    const { id } = await hooks.endpoints.create({ tenant: of, url: NOWHERE });
    await hooks.endpoints.disable(id);
    await hooks.send({ tenant: of, type: 'a', data: 1 });
    return id;
  };
  const disabled = await make('disabled');
  await wait(disabled, '3000 days');
  const rated = await make('rated');
  await hooks.endpoints.enable(rated);
  await wait(rated, '20 minutes');
  const failing = await make('failing');
  await hooks.endpoints.enable(failing);
  await wait(failing, '24 hours');
  const long = await make('long ago');
  await hooks.endpoints.enable(long);
  await wait(long, '3000 days');
  await turned(long, '16 minutes');
  expect(await hooks.run('wake held webhooks')).toBe(0);
  expect(await hooks.endpoints.get(disabled)).toMatchObject({ held: 1, waiting: 0 });
  for (const id of [rated, failing])
    expect(await hooks.endpoints.get(id)).toMatchObject({ held: 0, waiting: 1 });
  // Up to 15 minutes an attempt that began before may end after.
  await turned(long, '14 minutes');
  expect(await hooks.run('wake held webhooks')).toBe(1);
  expect(await hooks.endpoints.get(long)).toMatchObject({ held: 0, waiting: 1 });
});

test('the log loses what is older than its retention, in chunks, and nothing else', async () => {
  const hooks = await hooksOf({ logRetention: '10d' });
  const { id } = await hooks.endpoints.create({ tenant, url: NOWHERE });
  // No worker runs: its own rounds would prune too.
  await db.rows(
    `INSERT INTO holdfast.webhook_log (at, queue, endpoint_id, delivery_id, message_id, type, attempt, delivered, ms)
     SELECT now() - CASE WHEN n > 1500 THEN interval '9 days 23 hours' ELSE interval '10 days 1 minute' END,
       'webhooks', $1, $1, 'msg_' || n, 'order.paid', 1, true, 7
     FROM generate_series(1, 1502) AS n ORDER BY n`,
    [id],
  );
  expect(await hooks.run('prune webhook log')).toBe(1_500);
  const { attempts } = await hooks.deliveries({ endpoint: id });
  expect(attempts.map(({ message }) => message)).toEqual(['msg_1502', 'msg_1501']);
  expect(await hooks.run('prune webhook log')).toBe(0);
  await db.rows(`UPDATE holdfast.webhook_log SET at = at - interval '2 hours'`);
  expect(await hooks.run('prune webhook log')).toBe(2);
});

test('a tenant gets no more endpoints than it may have, also with calls at the same time', async () => {
  const hooks = await hooksOf({ maxEndpoints: 2 });
  const make = (of = tenant) => hooks.endpoints.create({ tenant: of, url: NOWHERE });
  const made = await Promise.allSettled([make(), make(), make(), make()]);
  expect(made.filter(({ status }) => status === 'fulfilled')).toHaveLength(2);
  await expect(make()).rejects.toMatchObject({
    ...{ code: 'ENDPOINTS_FULL' },
    message: expect.stringContaining('The tenant "acme" has 2 endpoints of webhooks'),
  });
  await make('another');
  const [first] = (await hooks.endpoints.list({ tenant })).endpoints;
  await hooks.endpoints.remove(first!.id);
  await make();
});

test('an endpoint gets as many requests at once as it may, and a change of that holds at once', async () => {
  const hooks = await hooksOf();
  const [slow, other] = [await receiver(), await receiver()];
  const open: (() => void)[] = [];
  slow.answer((_, response) => void open.push(() => response.end()));
  const { id } = await hooks.endpoints.create({ tenant, url: slow.url, concurrency: 2 });
  await hooks.endpoints.create({ tenant: 'other', url: other.url });
  for (let n = 0; n < 8; n++) await hooks.send({ tenant, type: 'a', data: n });
  hooks.work();
  /** Claims that were made meanwhile took what they could: this one was sent later. */
  const laterOne = async () => {
    const wanted = other.received.length + 1;
    await hooks.send({ tenant: 'other', type: 'a', data: wanted });
    await until('a later one came', () => other.received.length === wanted);
  };
  await until('two are under way', () => slow.received.length === 2);
  await laterOne();
  expect(slow.received).toHaveLength(2);
  await hooks.endpoints.update(id, { concurrency: 5 });
  await until('five are under way', () => slow.received.length === 5);
  await laterOne();
  expect(slow.received).toHaveLength(5);
  await hooks.endpoints.update(id, { concurrency: 1 });
  for (const answer of open.splice(0, 4)) answer();
  await until('four were delivered', async () => (await hooks.endpoints.get(id)).waiting === 4);
  await laterOne();
  expect(slow.received).toHaveLength(5);
  slow.answer((_, response) => void response.end());
  for (const answer of open.splice(0)) answer();
  await until('all were delivered', async () => (await hooks.endpoints.get(id)).waiting === 0);
});
