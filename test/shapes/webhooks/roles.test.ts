/** docs/roles.sql and webhooks: each role can do its part, and only workers read secrets. */
import { beforeAll, expect, test } from 'vitest';
import { webhooks } from '../../../packages/holdfast/src/shapes/webhooks/index.js';
import { testDatabase } from '../../support/database.js';
import { testRoles } from '../../support/roles.js';
import { until } from '../../support/until.js';
import { testWorkers } from '../../support/workers.js';
import { testReceivers, verifies } from './support/receivers.js';

const db = testDatabase();
const start = testWorkers();
const receiver = testReceivers();
const { members, role } = testRoles(db, { prefix: 'holdfast_hooks' });
/** What a producer needs beside to make endpoints. */
beforeAll(() => db.rows(`GRANT ${role('declarer')} TO ${members.producer.user}`));
const LOCAL = { allow: ['127.0.0.0/8'], allowHttp: true, retry: [] };
const DENIED = { code: '42501' };
const endpoint = {
  ...{ tenant: 'acme', url: 'https://acme.example/hooks', headers: { authorization: 'hunter2' } },
};

/** Each shows a secret to who may run it, or tells by what it did whether a guess was right. */
const LEAKS = [
  'SELECT value FROM holdfast.webhook_secrets',
  'SELECT s FROM holdfast.webhook_secrets AS s',
  'SELECT to_jsonb(s) FROM holdfast.webhook_secrets AS s',
  'COPY holdfast.webhook_secrets TO STDOUT',
  "SELECT 1 FROM holdfast.webhook_secrets WHERE value LIKE 'whsec_a%'",
  'DELETE FROM holdfast.webhook_secrets RETURNING value',
  "DELETE FROM holdfast.webhook_secrets WHERE value < 'whsec_n'",
  'UPDATE holdfast.webhook_secrets SET expires_at = now() RETURNING value',
  "UPDATE holdfast.webhook_secrets SET value = 'whsec_mine'",
];

test('producers make endpoints and send, workers deliver, viewers look, operators act; secrets are the workers’', async () => {
  await webhooks(db.hf, LOCAL).create();
  const of = (role: keyof typeof members) => webhooks(members[role].hf, LOCAL);
  const to = await receiver();
  to.answer((_, response) => void response.writeHead(500).end());
  const { id } = await of('producer').endpoints.create({
    ...{ tenant: 'acme', url: to.url, headers: { authorization: 'Bearer hidden' } },
  });
  await of('producer').endpoints.update(id, { events: ['a'], headers: {} });
  const { secret } = await of('producer').endpoints.rotate(id, { overlap: 0 });
  await of('producer').send({ tenant: 'acme', type: 'a', data: 1 });

  start(members.worker.hf, (worker) => of('worker').deliver(worker));
  await until('it was tried', () => to.received.length === 1);
  expect(verifies(to.received[0]!, secret)).toBe(true);
  expect(to.received[0]!.headers.authorization).toBeUndefined();
  const failed = async () => (await of('viewer').endpoints.get(id)).failed === 1;
  await until('it has failed', failed);
  expect((await of('viewer').endpoints.list()).endpoints).toMatchObject([{ id, secrets: 1 }]);
  const { attempts } = await of('viewer').deliveries({ endpoint: id });
  expect(attempts).toMatchObject([{ status: 500 }]);

  const operator = of('operator');
  await operator.endpoints.disable(id, { reason: 'look' });
  to.answer((_, response) => void response.end());
  expect(await operator.endpoints.enable(id)).toMatchObject({ replayed: 1 });
  await until('it was delivered', () => to.received.length === 2);
  await operator.endpoints.rotate(id);
  await operator.test(id);
  await until('the test came', () => to.received.length === 3);
  expect(await operator.resend([attempts[0]!.delivery])).toHaveLength(1);
  await until('it came again', () => to.received.length === 4);

  for (const role of ['producer', 'viewer', 'operator'] as const)
    await expect(
      members[role].pool.query('SELECT value FROM holdfast.webhook_secrets'),
      role,
    ).rejects.toMatchObject(DENIED);
  for (const act of ['disable', 'enable', 'rotate', 'remove'] as const)
    await expect(of('viewer').endpoints[act](id), act).rejects.toMatchObject(DENIED);
  const viewing = of('viewer').send({ tenant: 'acme', type: 'a', data: 1 });
  await expect(viewing).rejects.toMatchObject(DENIED);
  await until('nothing runs', async () => (await of('viewer').endpoints.get(id)).waiting === 0);
  expect(await operator.endpoints.remove(id)).toEqual({ cancelled: 0 });
});

test('producers and operators make and rotate secrets; only workers read them', async () => {
  await webhooks(db.hf, LOCAL).create();
  for (const role of ['producer', 'operator'] as const) {
    const hooks = webhooks(members[role].hf, LOCAL);
    const { id } = await hooks.endpoints.create(endpoint);
    await hooks.endpoints.rotate(id);
    await hooks.endpoints.update(id, { headers: { authorization: 'hunter3' } });
    expect((await hooks.endpoints.list()).endpoints.length).toBeGreaterThan(0);
  }
  for (const role of ['viewer', 'operator', 'producer'] as const)
    for (const leak of LEAKS)
      await expect(members[role].pool.query(leak), `${role}: ${leak}`).rejects.toMatchObject(
        DENIED,
      );
  const { rows } = await members.worker.pool.query('SELECT value FROM holdfast.webhook_secrets');
  expect(rows).toHaveLength(6);
});
