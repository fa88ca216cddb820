/** `holdfast webhooks`: endpoints and deliveries, for people and for programs. */
import { expect, test } from 'vitest';
import { webhooks } from '../../packages/holdfast/src/shapes/webhooks/index.js';
import { testReceivers, verifies } from '../shapes/webhooks/support/receivers.js';
import { call, values } from '../support/cli-run.js';
import { testDatabase } from '../support/database.js';
import { until } from '../support/until.js';
import { testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const receiver = testReceivers();
const cli = (...args: string[]) => call(['webhooks', ...args], { env: { DATABASE_URL: db.url } });

test('endpoints are made, shown, tested, turned, given new secrets and removed; deliveries are listed and sent again', async () => {
  const hooks = webhooks(db.hf, { allow: ['127.0.0.0/8'], allowHttp: true, retry: [] });
  expect(await cli('ls')).toMatchObject({
    code: 2,
    err: expect.stringContaining('There is no queue'),
  });
  await hooks.create();
  const to = await receiver();
  const made = await cli('add', 'acme', to.url, '--event', 'order.*', '--rate', '1000/1s');
  expect(made).toMatchObject({ code: 0, err: expect.stringContaining('shown this once') });
  const [id = '', secret = ''] = made.out.trim().split(' ');
  const listed = await cli('ls', '--tenant', 'acme');
  expect(listed.out).toMatch(/^ENDPOINT +TENANT +EVENTS +STATE +URL/);
  expect(listed.out).toContain(`${id}  acme    order.*  active  ${to.url}`);
  const shown = await cli('show', id);
  expect(shown.out).toMatch(/rate +1,000\/1 s, burst 100/);
  expect(listed.out + shown.out).not.toContain(secret);

  start(db.hf, (worker) => hooks.deliver(worker));
  const tested = await cli('test', id);
  expect(tested).toMatchObject({ code: 0, out: expect.stringMatching(/^204 after \d+ ms\n$/) });
  expect(verifies(to.received[0]!, secret)).toBe(true);
  const rotated = await cli('rotate', id, '--overlap', '0s', '--reason', 'leaked');
  to.answer((_, response) => void response.writeHead(500).end('no\u001b[31m'));
  expect(await cli('test', id)).toMatchObject({
    code: 1,
    out: expect.stringMatching(/^500 after/),
  });
  expect(verifies(to.received[1]!, rotated.out.trim())).toBe(true);

  const set = (...options: string[]) => cli('set', id, ...options, '--reason', 'asked');
  const headers = '{"Authorization": "Bearer hidden"}';
  const changed = await set(
    '--headers',
    headers,
    '--concurrency',
    '7',
    '--event',
    'a',
    '--event',
    'order.*',
  );
  expect(changed).toMatchObject({ code: 0, out: `${id}\n`, err: '' });
  const facts = await cli('show', id);
  expect(facts.out).toMatch(
    /events +a, order\.\*[\s\S]*headers +authorization\n[\s\S]*at once +7\n/,
  );
  const moved = await set('--to', `${to.url.replace('127.0.0.1', 'localhost')}`, '--rate', 'none');
  expect(moved).toMatchObject({
    code: 0,
    err: expect.stringContaining('give them with --headers'),
  });
  expect(await set('--to', to.url, '--json')).toMatchObject({ code: 0 });
  expect((await cli('show', id)).out).not.toMatch(/rate|headers/);
  expect(facts.out + changed.out + moved.err).not.toContain('hidden');
  for (const [options, why] of [
    [[], 'Say what to change'],
    [['--rate', '5'], '--rate is written N/TIME'],
    [['--headers', '{hidden'], '--headers is not JSON; nothing was changed'],
    [['--concurrency', '101'], 'concurrency'],
    [['--to', 'ftp://x'], 'The URL'],
  ] as const) {
    const refused = await set(...options);
    expect(refused).toMatchObject({ code: 2, err: expect.stringContaining(why) });
    expect(refused.err).not.toContain('hidden');
  }

  expect(await cli('disable', id)).toMatchObject({ code: 0, out: `${id}\n` });
  const { deliveries } = await hooks.send({ tenant: 'acme', type: 'order.paid', data: 1 });
  await until('it is held', async () => (await hooks.endpoints.get(id)).held === 1);
  expect((await cli('ls', '--state', 'disabled')).out).toContain('disabled');
  const enabled = await cli('enable', id, '--json');
  expect(values(enabled.out)).toMatchObject([{ id, state: 'active', replayed: 1 }]);
  await until('it failed', async () => (await hooks.endpoints.get(id)).failed === 1);
  const failed = await cli('deliveries', id, '--failed', '--answer');
  expect(failed.out).toMatch(/^AT +DELIVERY +MESSAGE +TYPE +TRY +STATUS +MS +ANSWER/);
  expect(failed.out).toContain('500');
  expect(failed.out).not.toContain('\u001b[31m');
  to.answer((_, response) => void response.end());
  const delivery = deliveries[0]!.id;
  expect(await cli('resend', delivery)).toMatchObject({
    code: 2,
    err: expect.stringContaining('--yes'),
  });
  expect(await cli('resend', delivery, '--yes')).toMatchObject({ code: 0, out: `${delivery}\n` });
  await until('it came', async () => (await hooks.endpoints.get(id)).failed === 0);
  expect(await cli('rm', id, '--yes')).toMatchObject({ code: 0 });
  expect((await cli('ls')).err).toContain('No endpoint matches.');
  const { acts } = await db.hf.audit();
  expect(acts.map(({ act }) => act).reverse()).toEqual([
    ...['create_queue', 'create_queue', 'add_webhook', 'rotate_webhook', 'set_webhook'],
    ...[
      'set_webhook',
      'set_webhook',
      'disable_webhook',
      'enable_webhook',
      'retry',
      'remove_webhook',
    ],
  ]);
  expect(acts.find(({ act }) => act === 'rotate_webhook')).toMatchObject({ reason: 'leaked' });
});
