/** The screens of webhooks: endpoints and attempts are shown without secrets, and acts leave their row in the audit. */
import { expect, test } from 'vitest';
import { webhooks } from '../../packages/holdfast/src/shapes/webhooks/index.js';
import { testReceivers, verifies } from '../shapes/webhooks/support/receivers.js';
import { asking } from '../support/dashboard.js';
import { testDatabase } from '../support/database.js';
import { until } from '../support/until.js';
import { testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const receiver = testReceivers();

const MISSING = '0199a1c2-7d3e-7000-8000-000000009182';

test('endpoints and what was sent to them are shown without secrets, and people act on them', async () => {
  const writes = asking(db.hf, { loopback: true, write: true, actor: 'ada' });
  expect((await writes.get('/api/webhooks')).body).toMatchObject({ queues: [], endpoints: [] });
  const hooks = webhooks(db.hf, { allow: ['127.0.0.0/8'], allowHttp: true, retry: [] });
  await hooks.create();
  const to = await receiver();
  to.answer((_, response) => void response.writeHead(500).end('no such order'));
  const { id, secret } = await hooks.endpoints.create({
    ...{ tenant: 'acme', url: to.url, ordered: true, headers: { authorization: 'Bearer hidden' } },
  });
  start(db.hf, (worker) => hooks.deliver(worker));
  const { deliveries } = await hooks.send({ tenant: 'acme', type: 'order.paid', data: 1 });
  await until('it has failed', async () => (await hooks.endpoints.get(id)).failed === 1);

  const act = (body: object) => writes.post(`/api/webhooks/${id}/act`, body);
  const seen = async (who = writes) => (await who.get(`/api/webhooks/${id}`)).body;
  const listed = (await writes.get('/api/webhooks?tenant=acme')).body;
  expect(listed).toMatchObject({ queues: ['webhooks'], endpoints: [{ id, tenant: 'acme' }] });
  expect(await seen()).toMatchObject({
    ...{ queue: 'webhooks', counts: { waiting: 0, held: 0, failed: 1 } },
    attempts: [{ status: 500, answer: 'no such order', delivered: false }],
  });
  const { body: rotated } = await act({ verb: 'rotate', reason: 'leaked' });
  expect(rotated.secret).toMatch(/^whsec_/);
  const shown = JSON.stringify([listed, await seen()]);
  for (const hidden of [secret, rotated.secret, 'Bearer hidden'])
    expect(shown).not.toContain(hidden);

  to.answer((_, response) => void response.end());
  expect((await act({ verb: 'test' })).status).toBe(200);
  await until('the test came', () => to.received.length === 2);
  expect(verifies(to.received[1]!, rotated.secret)).toBe(true);
  expect((await act({ verb: 'resend', ids: [deliveries[0]!.id] })).body).toEqual({
    moved: [deliveries[0]!.id],
  });
  await until('it was delivered', async () => {
    const { failed, waiting } = await hooks.endpoints.get(id);
    return failed + waiting === 0;
  });
  const set = (changes: unknown) => act({ verb: 'set', changes, reason: 'asked' });
  const changes = { events: ['order.*'], rate: { limit: 100, per: '1m' } };
  expect((await set({ ...changes, headers: { 'x-a': 'Bearer hidden' } })).body).toEqual({
    headers: ['x-a'],
  });
  expect((await seen()).endpoint).toMatchObject({
    ...{ events: ['order.*'], headers: ['x-a'], rate: { limit: 100, perMs: 60_000, burst: 10 } },
  });
  expect(JSON.stringify([(await db.hf.audit()).acts, await seen()])).not.toContain('Bearer hidden');
  // Another origin does not get them.
  expect((await set({ url: 'https://other.example/' })).body).toEqual({ headers: [] });
  for (const wrong of [
    undefined,
    [],
    { tenant: 'eve' },
    { url: 'file:///etc/passwd' },
    { events: [] },
  ])
    expect((await set(wrong)).status).toBe(400);
  expect((await act({ verb: 'disable' })).body).toMatchObject({ state: 'disabled' });
  expect((await act({ verb: 'enable' })).body).toMatchObject({ state: 'active', replayed: 0 });

  expect((await act({ verb: 'remove' })).status).toBe(400);
  expect((await act({ verb: 'resend' })).status).toBe(400);
  expect((await writes.get(`/api/webhooks/${MISSING}`)).status).toBe(404);
  expect((await writes.post(`/api/webhooks/${MISSING}/act`, { verb: 'rotate' })).status).toBe(404);
  const looks = asking(db.hf, {
    loopback: true,
    write: false,
    actor: 'eve',
    redact: () => '[hidden]',
  });
  for (const body of [{ verb: 'rotate' }, { verb: 'set', changes }])
    expect((await looks.post(`/api/webhooks/${id}/act`, body)).status).toBe(403);
  const { attempts } = await seen(looks);
  expect(attempts.map(({ answer }: { answer: unknown }) => answer)).toContain('[hidden]');
  const { acts } = await db.hf.audit();
  expect(acts.map((one) => [one.act, one.actor]).slice(0, 4)).toEqual([
    ...[
      ['enable_webhook', 'ada'],
      ['disable_webhook', 'ada'],
      ['set_webhook', 'ada'],
    ],
    ['set_webhook', 'ada'],
  ]);
});
