/**
 * The guard, tried for real: a server on loopback that must not be reached, and every way to name it that is known. The same
 * way is tried as the URL of an endpoint and, past that check, as a delivery and as a test: the connection is what counts.
 */
import { createServer } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { newPoster } from '../../../packages/holdfast/src/shapes/webhooks/deliver/post.js';
import { reachable } from '../../../packages/holdfast/src/shapes/webhooks/guard/addresses.js';
import { newGuard } from '../../../packages/holdfast/src/shapes/webhooks/guard/guard.js';
import { webhooks } from '../../../packages/holdfast/src/shapes/webhooks/index.js';
import { testDatabase } from '../../support/database.js';
import { until } from '../../support/until.js';
import { testWorkers } from '../../support/workers.js';
import { testReceivers } from './support/receivers.js';

const db = testDatabase();
const start = testWorkers();
const receiver = testReceivers();

/** On every address of this machine, IPv4 and IPv6, so that a connection to any of them is seen. */
let connections = 0;
const server = createServer((socket) => {
  connections++;
  socket.on('error', () => {});
  socket.end('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n');
});
let port = 0;
beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '::', resolve));
  port = (server.address() as { port: number }).port;
});
afterAll(() => void server.close());

const request = (url: string) => ({
  ...{ url: new URL(url), headers: {}, body: '{}', timeoutMs: 2_000 },
  signal: new AbortController().signal,
});

/** Hosts that are written as an address, or that always mean this machine. */
const HOSTS = [
  ...['127.0.0.1', '127.1', '127.0.1', '2130706433', '0x7f000001', '0x7f.1', '0177.0.0.1'],
  ...[
    '017700000001',
    '127.0.0.1.',
    '0',
    '0.0.0.0',
    '127.255.255.254',
    '１２７.０.０.１',
    '127。0。0。1',
  ],
  ...['%31%32%37.0.0.1', 'localhost', 'LOCALHOST', 'localhost.', 'a.localhost', 'loc%61lhost'],
  ...[
    '[::1]',
    '[::]',
    '[0:0:0:0:0:0:0:1]',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[::127.0.0.1]',
  ],
  ...['[64:ff9b::127.0.0.1]', '[64:ff9b:1::7f00:1]', '[2002:7f00:1::]', '[2001:0:7f00:1::]'],
];

/** Addresses of other places that a customer must not reach through us. */
const PLACES = [
  ...['10.0.0.1', '172.16.0.1', '172.31.255.255', '192.168.1.1', '100.64.0.1', '100.100.100.200'],
  ...['169.254.169.254', '168.63.129.16', '192.0.0.192', '192.0.2.1', '198.18.0.1', '198.51.100.7'],
  ...['203.0.113.9', '224.0.0.1', '239.255.255.250', '240.0.0.1', '255.255.255.255', '192.88.99.1'],
  ...['fe80::1', 'fc00::1', 'fd00:ec2::254', 'fec0::1', 'ff02::1', '2001:db8::1', '3fff::1'],
  ...['::ffff:10.0.0.1', '::ffff:0:10.0.0.1', '::10.0.0.1', '64:ff9b::a00:1', '100::1', '5f00::1'],
  ...['2002:a00:1::', '2001::1', '2001:10::1', '2001:20::1', 'fe80::1%lo', 'no address', ''],
];
const PUBLIC = [
  ...['93.184.216.34', '1.1.1.1', '172.15.255.255', '172.32.0.1', '100.63.255.255', '100.128.0.1'],
  ...['169.253.255.255', '11.0.0.1', '223.255.255.255', '2606:4700:4700::1111', '2a00:1450::1'],
];

describe('addresses', () => {
  const mayReach = reachable();
  test.each(PLACES)('%s is refused', (address) => expect(mayReach(address)).toBe(false));
  test.each(PUBLIC)('%s is public', (address) => expect(mayReach(address)).toBe(true));

  test('an allow-list opens its ranges and nothing beside them', () => {
    const some = reachable(['10.1.0.0/16', 'fd00:7::/32', '127.0.0.1']);
    const open = ['10.1.2.3', 'fd00:7::1', '127.0.0.1', '1.1.1.1', '::ffff:10.1.2.3'];
    const shut = [
      '10.2.0.1',
      'fd00:8::1',
      '127.0.0.2',
      '::1',
      '64:ff9b::a01:203',
      '169.254.169.254',
    ];
    expect(open.filter((one) => !some(one))).toEqual([]);
    expect(shut.filter(some)).toEqual([]);
  });

  test.each(['10.0.0.0/33', '10.0.0/8', 'fe80::1%lo/64', '::/129', '10.0.0.0/8/8', '', '*', 7])(
    '%s is no range',
    (range) => {
      expect(() => webhooks(db.hf, { allow: [range as string] })).toThrow(/no range of addresses/);
    },
  );
});

describe('requests', () => {
  const guard = newGuard(reachable(), { allowHttp: true });
  const poster = newPoster({ guard });
  afterAll(() => poster.close());

  test.each(HOSTS)('%s is reached neither by an endpoint nor by a request', async (host) => {
    const before = connections;
    const url = `http://${host}:${port}/`;
    const hooks = webhooks(db.hf, { allowHttp: true });
    await expect(hooks.endpoints.create({ tenant: 'a', url })).rejects.toMatchObject({
      code: 'OPTION_INVALID',
    });
    // As if the row had come from elsewhere, or the allow-list had been longer.
    const answer = await poster.post(request(url));
    expect(answer).toMatchObject({ status: null, timedOut: false });
    expect(answer.error).toMatch(
      /is at an address that webhooks may not reach; no request was made/,
    );
    expect(connections).toBe(before);
  });

  test('without the guard they would be reached', async () => {
    const open = newPoster({
      guard: newGuard(reachable(['0.0.0.0/0', '::/0']), { allowHttp: true }),
    });
    const hosts = ['127.1', '0x7f.1', '0', 'localhost', '[::1]', '[::ffff:127.0.0.1]'];
    for (const host of hosts) {
      const before = connections;
      await open.post(request(`http://${host}:${port}/`));
      expect(connections, host).toBe(before + 1);
    }
    open.close();
  });

  test.each(['[fe80::1%25lo]', '[::1%251]', '256.1.1.1', '1.2.3.4.5', '[::1', '0x'])(
    '%s is no host at all',
    async (host) => {
      const hooks = webhooks(db.hf, { allowHttp: true });
      await expect(
        hooks.endpoints.create({ tenant: 'a', url: `http://${host}:${port}/` }),
      ).rejects.toMatchObject({ code: 'OPTION_INVALID' });
    },
  );

  test.each([
    ...['http://example.com/', 'ftp://example.com/', 'file:///etc/passwd', 'unix:/run/docker.sock'],
    ...['https://user@example.com/', 'https://user:word@example.com/', 'https://example.com:22/'],
    ...[
      'https://',
      'example.com',
      '',
      'javascript:1',
      'data:,x',
      `https://e.com/${'x'.repeat(3_000)}`,
    ],
  ])('%s is refused', async (url) => {
    const made = webhooks(db.hf).endpoints.create({ tenant: 'a', url });
    await expect(made).rejects.toMatchObject({ code: 'OPTION_INVALID' });
  });

  test.each([
    ['that resolves to loopback', [['127.0.0.1']]],
    ['that resolves to loopback by IPv6', [['::1']]],
    ['that resolves to a mapped address', [['::ffff:127.0.0.1']]],
    ['with one such address among public ones', [['93.184.216.34', '2606:4700::1', '127.0.0.1']]],
    ['with a scoped address', [['fe80::1%lo']]],
    ['without any address', [[]]],
  ])('a name %s is not reached', async (_, answers) => {
    const before = connections;
    const resolve = async () => answers[0] as string[];
    const some = newPoster({ guard: newGuard(reachable(), { allowHttp: true, resolve }) });
    const answer = await some.post(request(`http://hooks.example:${port}/`));
    some.close();
    expect(answer).toMatchObject({ status: null, error: expect.stringContaining('may not reach') });
    expect(connections).toBe(before);
  });

  test('a name is looked up once for a connection, which goes to the address that was checked', async () => {
    const to = await receiver();
    let asked = 0;
    // Whoever looked it up again would come to the server of this file.
    const resolve = async () => (++asked % 2 === 1 ? ['127.0.0.1'] : ['127.0.0.2']);
    const some = newPoster({
      guard: newGuard(reachable(['127.0.0.1']), { allowHttp: true, resolve }),
    });
    const before = connections;
    const url = `http://hooks.example:${to.port}/`;
    expect(await some.post(request(url))).toMatchObject({ status: 204, error: null });
    expect(asked).toBe(1);
    // On the connection that was kept: it is where it was checked to be.
    expect(await some.post(request(url))).toMatchObject({ status: 204 });
    expect([asked, to.connections()]).toEqual([1, 1]);
    some.close();
    // A new connection is a new look-up and a new check: the name now leads elsewhere.
    const other = newPoster({
      guard: newGuard(reachable(['127.0.0.1']), { allowHttp: true, resolve }),
    });
    expect(await other.post(request(url))).toMatchObject({ status: null });
    other.close();
    expect([connections, to.connections()]).toEqual([before, 1]);
  });

  test('a redirect is not followed, and a proxy of the environment is not used', async () => {
    const to = await receiver();
    to.answer(
      (_, response) =>
        void response.writeHead(307, { location: `http://127.0.0.1:${port}/` }).end(),
    );
    const names = ['HTTP_PROXY', 'http_proxy', 'HTTPS_PROXY', 'ALL_PROXY', 'NODE_USE_ENV_PROXY'];
    for (const name of names) process.env[name] = `http://127.0.0.1:${port}`;
    const before = connections;
    const some = newPoster({ guard: newGuard(reachable(['127.0.0.0/8']), { allowHttp: true }) });
    expect(await some.post(request(to.url))).toMatchObject({ status: 307, error: null });
    some.close();
    for (const name of names) delete process.env[name];
    expect([connections, to.connections()]).toEqual([before, 1]);
  });
});

test('deliveries and tests go through it: nothing is reached, and the log says why', async () => {
  // The row was made by somebody who may reach more.
  const wide = webhooks(db.hf, { allow: ['0.0.0.0/0', '::/0'], allowHttp: true });
  await wide.create();
  const before = connections;
  const { id } = await wide.endpoints.create({ tenant: 'a', url: `http://localhost:${port}/` });
  const narrow = webhooks(db.hf, { allowHttp: true, retry: [] });
  start(db.hf, (worker) => narrow.deliver(worker));
  await narrow.send({ tenant: 'a', type: 'a', data: 1 });
  const { delivery } = await narrow.test(id);
  const { result } = await db.hf.wait(delivery, { timeout: '20s' });
  expect(result).toMatchObject({ delivered: false, status: null });
  await until('both are logged', async () => (await narrow.deliveries()).attempts.length === 2);
  for (const { error } of (await narrow.deliveries()).attempts)
    expect(error).toBe(
      'the host is at an address that webhooks may not reach; no request was made',
    );
  expect(connections).toBe(before);
});
