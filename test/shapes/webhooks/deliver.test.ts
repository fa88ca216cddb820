/** Webhooks from end to end: what receivers get, and what becomes of a delivery that fails. */
import type { ServerResponse } from 'node:http';
import { expect, test } from 'vitest';
import { job } from '../../../packages/holdfast/src/index.js';
import {
  type EndpointDisabled,
  type WebhooksOptions,
  webhooks,
} from '../../../packages/holdfast/src/shapes/webhooks/index.js';
import { testDatabase } from '../../support/database.js';
import { until } from '../../support/until.js';
import { testWorkers } from '../../support/workers.js';
import { emptyHooks, testReceivers, verifies } from './support/receivers.js';

const db = testDatabase();
const start = testWorkers();
const receiver = testReceivers();

/** The queues are made once; the workers of the tests before are gone, and so is what they left. */
async function hooksOf(options: WebhooksOptions = {}, worker: { concurrency?: number } = {}) {
  const local = { allow: ['127.0.0.0/8'], allowHttp: true, retry: [1, 1, 1] };
  const hooks = webhooks(db.hf, { ...local, ...options });
  await hooks.create();
  await emptyHooks(db);
  return {
    ...hooks,
    work: () => start(db.hf, (one) => hooks.deliver(one), { queues: [...hooks.queues], ...worker }),
    of: (endpoint: string) =>
      db.rows<{ status: string }>(
        `SELECT status::text FROM holdfast.webhooks WHERE payload ->> 'endpoint' = $1`,
        [endpoint],
      ),
  };
}

const tenant = 'acme';

test('a message is signed and goes to the endpoints of its tenant that want it', async () => {
  const hooks = await hooksOf();
  const [all, orders, other, foreign] = await Promise.all([1, 2, 3, 4].map(receiver));
  const made = await hooks.endpoints.create({
    ...{ tenant, url: all!.url, headers: { Authorization: 'Bearer x' } },
  });
  await hooks.endpoints.create({ tenant, url: orders!.url, events: ['order.*'] });
  await hooks.endpoints.create({ tenant, url: other!.url, events: ['customer.created', 'order'] });
  await hooks.endpoints.create({ tenant: 'rival', url: foreign!.url });
  hooks.work();
  const sent = await hooks.send({
    tenant,
    type: 'order.paid',
    data: { orderId: 9182, text: 'ä€' },
  });
  expect(sent.deliveries).toHaveLength(2);
  await until('both got it', () => all!.received.length === 1 && orders!.received.length === 1);
  const [got] = all!.received;
  expect(got!.headers).toMatchObject({
    ...{ 'webhook-id': sent.id, authorization: 'Bearer x', 'content-type': 'application/json' },
  });
  const body = JSON.parse(got!.body);
  expect(body).toMatchObject({ type: 'order.paid', data: { orderId: 9182, text: 'ä€' } });
  expect(Math.abs(Date.parse(body.timestamp) - Date.now())).toBeLessThan(60_000);
  expect(verifies(got!, made.secret)).toBe(true);
  expect(verifies({ ...got!, body: `${got!.body} ` }, made.secret)).toBe(false);
  const page = await until('it is logged', async () => {
    const found = await hooks.deliveries({ endpoint: made.id });
    return found.attempts.length > 0 ? found : null;
  });
  expect(page.attempts).toMatchObject([
    { message: sent.id, delivered: true, status: 204, attempt: 1, error: null },
  ]);
  expect([other!.received, foreign!.received]).toEqual([[], []]);
});

test('a message goes out with the transaction, and one sent twice under its id goes out once', async () => {
  const hooks = await hooksOf();
  const to = await receiver();
  const client = await db.pool.connect();
  await client.query('BEGIN');
  await hooks.endpoints.create({ tenant, url: to.url }, { tx: client });
  await hooks.send({ tenant, type: 'order.lost', data: 1, id: 'lost' }, { tx: client });
  await client.query('ROLLBACK');
  await client.query('BEGIN');
  await hooks.endpoints.create({ tenant, url: to.url }, { tx: client });
  await hooks.send({ tenant, type: 'order.paid', data: 1, id: 'paid-1' }, { tx: client });
  await client.query('COMMIT');
  client.release();
  hooks.work();
  const again = await hooks.send({ tenant, type: 'order.paid', data: 1, id: 'paid-1' });
  expect(again.deliveries).toMatchObject([{ deduplicated: true }]);
  await expect(
    hooks.send({ tenant, type: 'order.paid', data: 2, id: 'paid-1' }),
  ).rejects.toMatchObject({
    code: 'IDEMPOTENCY_MISMATCH',
  });
  await hooks.send({ tenant, type: 'order.paid', data: 1, id: 'paid-2' });
  await until('both came', () => ['paid-1', 'paid-2'].every((id) => to.ids().includes(id)));
  expect(to.ids().sort()).toEqual(['paid-1', 'paid-2']);
});

test('a failed attempt comes again with the same id and a new signature, until it is a dead letter; resend sends it again', async () => {
  const hooks = await hooksOf();
  const to = await receiver();
  const { id, secret } = await hooks.endpoints.create({ tenant, url: to.url });
  to.answer(
    (_, response) => void response.writeHead(302, { location: to.url }).end('x'.repeat(5_000)),
  );
  hooks.work();
  const { id: message, deliveries } = await hooks.send({ tenant, type: 'order.paid', data: {} });
  await until('it has failed', async () => (await hooks.endpoints.get(id)).failed === 1);
  expect(to.ids()).toEqual([message, message, message, message]);
  expect(to.received.every((one) => verifies(one, secret))).toBe(true);
  const { attempts } = await hooks.deliveries({ message });
  expect(attempts.map(({ attempt, status }) => [attempt, status])).toEqual([
    ...[
      [4, 302],
      [3, 302],
      [2, 302],
      [1, 302],
    ],
  ]);
  expect(attempts[0]!.answer).toBe('x'.repeat(1_024));
  expect((await hooks.endpoints.get(id)).failingSince).not.toBeNull();
  to.answer((_, response) => void response.end('ok'));
  expect(await hooks.resend([deliveries[0]!.id])).toEqual([deliveries[0]!.id]);
  await until(
    'it was delivered',
    async () => (await hooks.endpoints.get(id)).failed === 0 && to.received.length === 5,
  );
  await until('it is archived', async () => (await hooks.of(id)).length === 0);
  // Once more, from the archive.
  expect(await hooks.resend([deliveries[0]!.id])).toEqual([deliveries[0]!.id]);
  await until('it was delivered again', () => to.received.length === 6);
  await until('it fares well', async () => (await hooks.endpoints.get(id)).failingSince === null);
});

test('while a secret is replaced, receivers that know only the old or only the new one both go on', async () => {
  const hooks = await hooksOf();
  const to = await receiver();
  const { id, secret: old } = await hooks.endpoints.create({ tenant, url: to.url });
  hooks.work();
  const { secret: next } = await hooks.endpoints.rotate(id, { overlap: '1h' });
  await hooks.send({ tenant, type: 'a', data: 1 });
  await until('it came', () => to.received.length === 1);
  expect([old, next].map((secret) => verifies(to.received[0]!, secret))).toEqual([true, true]);
  expect((await hooks.endpoints.get(id)).secrets).toBe(2);
  const { secret: last } = await hooks.endpoints.rotate(id, { overlap: 0 });
  await hooks.send({ tenant, type: 'a', data: 1 });
  await until('the second came', () => to.received.length === 2);
  expect([old, next, last].map((secret) => verifies(to.received[1]!, secret))).toEqual([
    ...[false, false, true],
  ]);
  const shown = JSON.stringify([
    await hooks.endpoints.list({ tenant }),
    await hooks.endpoints.get(id),
    await db.hf.audit(),
    await db.rows('SELECT payload, headers FROM holdfast.webhooks_archive'),
  ]);
  for (const secret of [old, next, last]) expect(shown).not.toContain(secret);
});

test('a disabled endpoint holds what runs, what waits and what is sent meanwhile, and gets all of it when it is enabled', async () => {
  const hooks = await hooksOf({ retry: ['1h'] });
  const to = await receiver();
  const { id } = await hooks.endpoints.create({ tenant, url: to.url, concurrency: 2 });
  const running: ServerResponse[] = [];
  to.answer((_, response) => void running.push(response));
  const ids: string[] = [];
  for (const n of [1, 2, 3, 4]) ids.push((await hooks.send({ tenant, type: 'a', data: n })).id);
  hooks.work();
  await until('one runs', () => to.received.length > 0);
  await hooks.endpoints.disable(id, { reason: 'on request', actor: 'kim' });
  ids.push((await hooks.send({ tenant, type: 'a', data: 5 })).id);
  to.answer((_, response) => void response.writeHead(500).end());
  for (const response of running) response.writeHead(500).end();
  await until('all are held', async () => (await hooks.endpoints.get(id)).held === 5, {
    timeoutMs: 25_000,
  });
  expect(await hooks.endpoints.get(id)).toMatchObject({
    ...{ state: 'disabled', stateReason: 'on request', stateBy: 'kim', waiting: 0, failed: 0 },
  });
  const before = to.received.length;
  to.answer((_, response) => void response.end());
  expect(await hooks.endpoints.enable(id)).toMatchObject({ state: 'active', replayed: 5 });
  await until('all were delivered', async () => (await hooks.of(id)).length === 0);
  expect(to.ids().slice(before).sort()).toEqual(ids.sort());
});

test('an endpoint that answers 410, or has only failed for too long, is disabled, and a job tells of it', async () => {
  const told: EndpointDisabled[] = [];
  const onDisabled = job<EndpointDisabled>('endpoint_disabled');
  const hooks = await hooksOf({ onDisabled, disableAfter: '1h' });
  const [gone, broken] = [await receiver(), await receiver()];
  gone.answer((_, response) => void response.writeHead(410).end());
  broken.answer((_, response) => void response.writeHead(500).end());
  const a = await hooks.endpoints.create({ tenant, url: gone.url, events: ['a'] });
  const b = await hooks.endpoints.create({ tenant, url: broken.url, events: ['b'] });
  start(db.hf, (worker) => worker.handle(onDisabled, ({ payload }) => void told.push(payload)));
  hooks.work();
  await hooks.send({ tenant, type: 'a', data: 1 });
  await until('the first is disabled', () => told.some(({ endpoint }) => endpoint === a.id));
  await hooks.send({ tenant, type: 'b', data: 1 });
  await until('the second has failed', async () => (await hooks.endpoints.get(b.id)).failed === 1);
  expect((await hooks.endpoints.get(b.id)).state).toBe('active');
  await db.rows(
    `UPDATE holdfast.webhook_health SET failing_since = now() - interval '2 hours' WHERE endpoint_id = $1`,
    [b.id],
  );
  await hooks.send({ tenant, type: 'b', data: 2 });
  await until('the second is disabled', () => told.some(({ endpoint }) => endpoint === b.id));
  expect(told).toEqual([
    { endpoint: a.id, tenant, url: a.url, reason: 'the endpoint answered 410' },
    { endpoint: b.id, tenant, url: b.url, reason: 'its attempts have failed for too long' },
  ]);
  await until('it is held', async () => (await hooks.endpoints.get(b.id)).held === 1);
  expect(await hooks.endpoints.get(b.id)).toMatchObject({ stateBy: 'holdfast', failed: 1 });
  // What had spent its attempts comes back too.
  broken.answer((_, response) => void response.end());
  expect(await hooks.endpoints.enable(b.id)).toMatchObject({ replayed: 2 });
  await until('both were delivered', async () => (await hooks.of(b.id)).length === 0);
});

test('of an ordered endpoint, a delivery that fails holds those after it', async () => {
  const hooks = await hooksOf({ retry: [50, 50, 50] });
  const to = await receiver();
  await hooks.endpoints.create({ tenant, url: to.url, ordered: true });
  const ids: string[] = [];
  for (const n of [1, 2, 3]) ids.push((await hooks.send({ tenant, type: 'a', data: n })).id);
  const fails = new Map([
    [ids[0], 2],
    [ids[1], 1],
  ]);
  to.answer(({ headers }, response) => {
    const left = fails.get(String(headers['webhook-id'])) ?? 0;
    fails.set(String(headers['webhook-id']), left - 1);
    response.writeHead(left > 0 ? 500 : 200).end();
  });
  hooks.work();
  await until('the last came', () => to.ids().includes(ids[2]!));
  expect(to.ids()).toEqual([ids[0], ids[0], ids[0], ids[1], ids[1], ids[2]]);
});

test('a removed endpoint takes its deliveries along, and the archive says why', async () => {
  const hooks = await hooksOf();
  const { id } = await hooks.endpoints.create({ tenant, url: 'http://127.0.0.1:9999' });
  for (const n of [1, 2]) await hooks.send({ tenant, type: 'a', data: n });
  expect(await hooks.endpoints.remove(id)).toEqual({ cancelled: 2 });
  await expect(hooks.endpoints.get(id)).rejects.toMatchObject({ code: 'ENDPOINT_UNKNOWN' });
  expect(await db.rows('SELECT status::text, last_error FROM holdfast.webhooks_archive')).toEqual(
    [1, 2].map(() => ({ status: 'cancelled', last_error: 'its endpoint was removed' })),
  );
  const left = await db.rows('SELECT FROM holdfast.webhook_secrets WHERE endpoint_id = $1', [id]);
  expect(left).toEqual([]);
});

test('a test is sent to a disabled endpoint too, once, and changes nothing', async () => {
  const hooks = await hooksOf();
  const to = await receiver();
  const { id, secret } = await hooks.endpoints.create({ tenant, url: to.url, ordered: true });
  await hooks.endpoints.disable(id);
  to.answer((_, response) => void response.writeHead(500).end('no'));
  hooks.work();
  const { delivery, message } = await hooks.test(id);
  expect((await db.hf.wait(delivery, { timeout: '20s' })).result).toMatchObject({
    delivered: false,
    status: 500,
  });
  expect(to.ids()).toEqual([message]);
  expect(verifies(to.received[0]!, secret)).toBe(true);
  expect(await hooks.endpoints.get(id)).toMatchObject({ state: 'disabled', failingSince: null });
});
