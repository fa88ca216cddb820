/** Ids that are not the caller's, headers that another origin must not get, secrets that leaked, and jobs that are no deliveries. */
import { expect, test } from 'vitest';
import { job } from '../../../packages/holdfast/src/index.js';
import { webhooks } from '../../../packages/holdfast/src/shapes/webhooks/index.js';
import { testDatabase } from '../../support/database.js';
import { until } from '../../support/until.js';
import { testWorkers } from '../../support/workers.js';
import { emptyHooks, testReceivers } from './support/receivers.js';

const db = testDatabase();
const start = testWorkers();
const receiver = testReceivers();
const tenant = 'acme';

async function hooksOf() {
  const queue = 'webhooks';
  const local = { allow: ['127.0.0.0/8'], allowHttp: true, retry: ['1h'] } as const;
  const hooks = webhooks(db.hf, { queue, ...local });
  await hooks.create();
  await emptyHooks(db);
  return { ...hooks, queue, work: () => start(db.hf, (one) => hooks.deliver(one)) };
}

const codeOf = (thrown: Promise<unknown>) =>
  thrown.then(
    () => 'done',
    ({ message }: Error) => message,
  );

test('with a tenant, the endpoints of others are unknown to every act, and the same words say so', async () => {
  const { endpoints, test: tryOut } = await hooksOf();
  const { id, secret } = await endpoints.create({ tenant, url: 'http://127.0.0.1:9999/' });
  const acts = (who: string) => {
    const of = { tenant: who };
    return [
      () => endpoints.get(id, of),
      () => endpoints.update(id, { url: 'http://127.0.0.1:9998/' }, of),
      () => endpoints.rotate(id, of),
      () => endpoints.disable(id, of),
      () => endpoints.enable(id, of),
      () => tryOut(id, of),
      () => endpoints.remove(id, of),
    ];
  };
  const before = [await endpoints.get(id), await db.hf.audit()];
  const foreign = [];
  for (const act of acts('rival')) foreign.push(await codeOf(act()));
  expect([await endpoints.get(id), await db.hf.audit()]).toEqual(before);
  const stored = 'SELECT value FROM holdfast.webhook_secrets WHERE endpoint_id = $1';
  expect(await db.rows(stored, [id])).toEqual([{ value: secret }]);
  const own = [];
  for (const act of acts(tenant)) own.push(await codeOf(act()));
  expect(own).toEqual(own.map(() => 'done'));
  // Now it is unknown indeed.
  const unknown = [];
  for (const act of acts('rival')) unknown.push(await codeOf(act()));
  expect(foreign).toEqual(unknown);
  expect(foreign[0]).toContain(`There is no webhook endpoint ${id}`);
});

test('a tenant that was forgotten is refused, and means nobody', async () => {
  const { endpoints, test: tryOut, deliveries, resend } = await hooksOf();
  const { id } = await endpoints.create({ tenant, url: 'http://127.0.0.1:9999/' });
  const none = { tenant: undefined } as never;
  for (const act of [
    () => endpoints.get(id, none),
    () => endpoints.disable(id, none),
    () => tryOut(id, none),
    () => deliveries(none),
    () => resend([], none),
  ])
    await expect(act()).rejects.toMatchObject({ code: 'KEY_INVALID' });
});

test.each([false, true])(
  'attempts and deliveries of others are not listed and not sent again (ordered: %s)',
  async (ordered) => {
    const { endpoints, send, deliveries, resend, work } = await hooksOf();
    const [mine, theirs] = [await receiver(), await receiver()];
    const own = await endpoints.create({ tenant, url: mine.url, ordered });
    await endpoints.create({ tenant: 'rival', url: theirs.url, ordered });
    const [a, b] = [
      await send({ tenant, type: 'a', data: 1 }),
      await send({ tenant: 'rival', type: 'a', data: 1 }),
    ];
    const ids = [...a.deliveries, ...b.deliveries].map((one) => one.id);
    // While they wait, and from the archive.
    expect(await resend(ids, { tenant })).toEqual([ids[0]]);
    work();
    await until('both are logged', async () => (await deliveries()).attempts.length === 2);
    expect((await deliveries({ tenant })).attempts).toMatchObject([{ endpoint: own.id }]);
    await until('mine comes again', async () => (await resend(ids, { tenant })).length === 1);
    await until('it came', () => mine.received.length === 2);
    expect(theirs.received).toHaveLength(1);
  },
);

test('another origin does not get the headers of the old one, unless it is given some', async () => {
  const { endpoints, send, work } = await hooksOf();
  const [old, next] = [await receiver(), await receiver()];
  const headers = { authorization: 'hunter2' };
  const { id } = await endpoints.create({ tenant, url: old.url, headers });
  expect((await endpoints.update(id, { url: `${old.url}/v2` })).headers).toEqual(['authorization']);
  expect((await endpoints.update(id, { url: next.url })).headers).toEqual([]);
  await send({ tenant, type: 'a', data: 1 });
  work();
  await until('it came', () => next.received.length === 1);
  expect(next.received[0]!.headers).not.toHaveProperty('authorization');
  const values = `SELECT value FROM holdfast.webhook_secrets WHERE endpoint_id = $1 AND kind = 'h'`;
  expect(await db.rows(values, [id])).toEqual([]);
  const back = await endpoints.update(id, { url: old.url, headers: { 'x-key': 'new' } });
  expect(back.headers).toEqual(['x-key']);
});

test('a leaked secret ends at once with all before it, and no more than four sign', async () => {
  const { endpoints } = await hooksOf();
  const { id, secret } = await endpoints.create({ tenant, url: 'http://127.0.0.1:9999/' });
  const made = [secret];
  for (const overlap of ['90d', '1h', '2h', '30d', '1h'] as const)
    made.push((await endpoints.rotate(id, { overlap })).secret);
  const values = async () =>
    (
      await db.rows<{ value: string }>(
        'SELECT value FROM holdfast.webhook_secrets WHERE endpoint_id = $1 ORDER BY id',
        [id],
      )
    ).map(({ value }) => value);
  expect(await values()).toEqual(made.slice(-4));
  expect((await endpoints.get(id)).secrets).toBe(4);
  const { secret: last } = await endpoints.rotate(id, { overlap: 0 });
  expect(await values()).toEqual([last]);
});

test('a job that is no delivery is a dead letter at once, and holds up nobody', async () => {
  const { endpoints, send, queue, work } = await hooksOf();
  const to = await receiver();
  const { id: endpoint } = await endpoints.create({ tenant, url: to.url });
  const good = { endpoint, message: 'm', type: 'a', data: 1 };
  const forged = job<unknown>('deliver_webhook', { queue });
  const wrong = [
    ...[null, [], { ...good, endpoint: 'x' }, { ...good, endpoint: `${endpoint},` }],
    ...[
      { ...good, message: null },
      { ...good, message: 'a\r\nb: c' },
      { ...good, type: null },
    ],
    { ...good, test: 'maybe' },
  ];
  await db.hf.enqueueMany(wrong.map((payload) => forged.item(payload)));
  const { id: message } = await send({ tenant, type: 'a', data: 1 });
  work();
  const states = () =>
    db.rows<{ status: string; attempts: number }>(
      `SELECT status::text, attempts FROM holdfast.${queue}`,
    );
  await until('they are dead letters', async () => {
    const rows = await states();
    return rows.length === wrong.length && rows.every(({ status }) => status === 'dead_letter');
  });
  expect((await states()).every(({ attempts }) => attempts <= 1)).toBe(true);
  expect(to.ids()).toEqual([message]);
});
