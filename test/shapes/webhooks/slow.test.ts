/** Receivers that hang, drip, send a lot, ask for a pause, or have a rate: what they cost, and whom they delay. */
import { createServer } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import type { RateOptions } from '../../../packages/holdfast/src/index.js';
import { newPoster } from '../../../packages/holdfast/src/shapes/webhooks/deliver/post.js';
import {
  retryAfterMs,
  verdictOf,
} from '../../../packages/holdfast/src/shapes/webhooks/deliver/verdict.js';
import { reachable } from '../../../packages/holdfast/src/shapes/webhooks/guard/addresses.js';
import { newGuard } from '../../../packages/holdfast/src/shapes/webhooks/guard/guard.js';
import {
  type WebhooksOptions,
  webhooks,
} from '../../../packages/holdfast/src/shapes/webhooks/index.js';
import { testDatabase } from '../../support/database.js';
import { until } from '../../support/until.js';
import { testWorkers } from '../../support/workers.js';
import { emptyHooks, testReceivers } from './support/receivers.js';

const db = testDatabase();
const start = testWorkers();
const receiver = testReceivers();
const tenant = 'acme';
const LOCAL = { allow: ['127.0.0.0/8'], allowHttp: true, timeout: 400, retry: ['1h'] } as const;

async function hooksOf(options: WebhooksOptions = {}, concurrency = 10) {
  const hooks = webhooks(db.hf, { ...LOCAL, ...options });
  await hooks.create();
  await emptyHooks(db);
  const work = () => start(db.hf, (one) => hooks.deliver(one), { concurrency });
  return { ...hooks, work };
}

/** A server that does what it likes with the connection. */
async function raw(serve: (socket: Socket) => void) {
  const server = createServer();
  server.removeAllListeners('connection');
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.once('data', () => serve(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, sockets };
}

const TIME_OUT_MS = 200;
function post(port: number, timeoutMs = TIME_OUT_MS) {
  const poster = newPoster({ guard: newGuard(reachable(['127.0.0.1']), { allowHttp: true }) });
  onTestFinished(() => poster.close());
  const url = new URL(`http://127.0.0.1:${port}/`);
  const signal = new AbortController().signal;
  return poster.post({ url, headers: {}, body: '{}', timeoutMs, signal });
}

const HEAD = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n';

test('the time-out covers the head, the body and its last byte', async () => {
  const silent = await raw(() => {});
  const cut = await raw((socket) => void socket.write('HTTP/1.1 200 OK\r\nx: '));
  const drips = await raw((socket) => {
    socket.write(HEAD);
    const timer = setInterval(() => socket.write('1\r\nx\r\n'), 20);
    socket.on('close', () => clearInterval(timer));
  });
  const answers = await Promise.all([silent, cut, drips].map(({ port }) => post(port)));
  for (const answer of answers) {
    const error = `no whole answer within ${TIME_OUT_MS} ms`;
    expect(answer).toMatchObject({ timedOut: true, error });
    expect(answer.ms).toBeLessThan(2_000);
    expect(verdictOf(answer).delivered).toBe(false);
  }
  expect(answers[2]?.status).toBe(200);
  expect(answers[2]?.text).toMatch(/^x+$/);
});

test('of an endless answer a kilobyte is kept and the rest is not read; its status counts', async () => {
  let sent = 0;
  const chunk = Buffer.alloc(65_536, 'y');
  const { port, sockets } = await raw((socket) => {
    socket.write(HEAD);
    const more = () => {
      while (!socket.destroyed) {
        sent += chunk.length;
        if (!socket.write(Buffer.concat([Buffer.from('10000\r\n'), chunk, Buffer.from('\r\n')])))
          return;
      }
    };
    socket.on('drain', more);
    more();
  });
  const answer = await post(port, 20_000);
  expect(answer).toMatchObject({ status: 200, error: null, text: 'y'.repeat(1_024) });
  expect(verdictOf(answer).delivered).toBe(true);
  await until('the connection is closed', () => [...sockets].every((socket) => socket.destroyed));
  // What the kernel's buffers took, and not a gigabyte.
  expect(sent).toBeLessThan(64_000_000);
});

test('an answer that is cut off, no HTTP, or of too many headers is a failure that says so', async () => {
  const none = await raw((socket) => socket.destroy());
  const half = await raw((socket) => {
    socket.end('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf');
  });
  const other = await raw((socket) => socket.end('220 mail.example ESMTP\r\n'));
  const long = await raw((socket) =>
    socket.write(`HTTP/1.1 200 OK\r\nx: ${'x'.repeat(100_000)}\r\n\r\n`),
  );
  const errors = [];
  for (const { port } of [none, half, other, long]) errors.push((await post(port)).error);
  expect(errors).toEqual([
    'the connection was cut off',
    'the connection was cut off',
    expect.stringContaining('the request failed (HPE_'),
    'the headers of the answer are too large',
  ]);
});

test('a kept connection that the receiver closes meanwhile fails no delivery', async () => {
  const to = await receiver();
  const poster = newPoster({ guard: newGuard(reachable(['127.0.0.1']), { allowHttp: true }) });
  const { signal } = new AbortController();
  const request = { url: new URL(to.url), headers: {}, body: '{}', timeoutMs: 5_000, signal };
  const used = new WeakSet<object>();
  to.answer((_, response) => {
    // The second request of a connection finds it closed, without an answer.
    const socket = response.socket as object;
    if (used.has(socket)) return void response.socket?.destroy();
    used.add(socket);
    response.end();
  });
  for (let n = 0; n < 4; n++)
    expect(await poster.post(request)).toMatchObject({ status: 200, error: null });
  poster.close();
});

test('Retry-After is read in seconds and as a date, within bounds', () => {
  const now = Date.parse('2026-11-19T12:00:00Z');
  const read = (value: string) => retryAfterMs(value, now);
  expect(['0', '120', ' 7 ', '99999999'].map(read)).toEqual([0, 120_000, 7_000, 86_400_000]);
  expect(read('Thu, 19 Nov 2026 12:00:30 GMT')).toBe(30_000);
  expect(read('Thu, 19 Nov 2020 12:00:30 GMT')).toBe(0);
  expect(['soon', '-1x', '', '1e9'].map(read)).toEqual([null, null, null, null]);
});

test('an endpoint that asks for a pause gets it, for all of its deliveries; others go on', async () => {
  const hooks = await hooksOf({ retry: [1] });
  const [busy, other] = [await receiver(), await receiver()];
  const { id } = await hooks.endpoints.create({ tenant, url: busy.url, concurrency: 1 });
  await hooks.endpoints.create({ tenant: 'other', url: other.url });
  let first = true;
  busy.answer((_, response) => {
    response.writeHead(first ? 429 : 204, first ? { 'retry-after': '1' } : {}).end();
    first = false;
  });
  for (const n of [1, 2, 3]) await hooks.send({ tenant, type: 'a', data: n });
  hooks.work();
  await until('it has asked', async () => (await hooks.endpoints.get(id)).restsUntil !== null);
  await hooks.send({ tenant: 'other', type: 'a', data: 1 });
  await until('the other one got it', () => other.received.length === 1);
  expect(busy.received).toHaveLength(1);
  await until('it got the rest', () => busy.received.length === 4);
  const [asked, next] = busy.received.map(({ at }) => at);
  expect(next! - asked!).toBeGreaterThanOrEqual(990);
  const { attempts } = await hooks.deliveries({ endpoint: id });
  expect(attempts.filter(({ attempt }) => attempt > 1)).toHaveLength(1);
});

test('each endpoint has a rate of its own', async () => {
  const hooks = await hooksOf({}, 20);
  const [slow, quick] = [await receiver(), await receiver()];
  const make = (url: string, rate: RateOptions) => hooks.endpoints.create({ tenant, url, rate });
  const { id } = await make(slow.url, { limit: 8, per: '1h', burst: 3 });
  await make(quick.url, { limit: 20, per: '1s', burst: 1 });
  for (let n = 0; n < 8; n++) await hooks.send({ tenant, type: 'a', data: n });
  const began = performance.now();
  hooks.work();
  await until('all came that may', () => slow.received.length === 3 && quick.received.length === 8);
  // The first token is there at once, and each of the others 50 ms after the one before.
  expect(quick.received.at(-1)!.at - began).toBeGreaterThan(340);
  expect(slow.received).toHaveLength(3);
  expect((await hooks.endpoints.get(id)).waiting).toBeGreaterThanOrEqual(5);
});

test('what a slow rate leaves waiting is moved to its time, and not claimed again and again', async () => {
  const hooks = await hooksOf({}, 20);
  const to = await receiver();
  const { id } = await hooks.endpoints.create({
    tenant,
    url: to.url,
    rate: { limit: 1, per: '1h' },
  });
  for (let n = 0; n < 30; n++) await hooks.send({ tenant, type: 'a', data: n });
  const { worker } = hooks.work();
  await until('the rest waits for its time', async () => {
    const due = await db.rows(
      `SELECT FROM holdfast.webhooks WHERE available_at <= now() + interval '10 minutes'`,
    );
    return to.received.length === 1 && due.length === 0;
  });
  expect((await hooks.endpoints.get(id)).waiting).toBe(29);
  expect(worker.stats.claimed).toBeLessThan(30);
});

test('a hanging endpoint keeps no more handlers than it may have requests', async () => {
  const hooks = await hooksOf({ timeout: '5m' }, 6);
  const [hangs, well] = [await receiver(), await receiver()];
  const open: (() => void)[] = [];
  hangs.answer((_, response) => void open.push(() => response.end()));
  await hooks.endpoints.create({ tenant, url: hangs.url });
  await hooks.endpoints.create({ tenant: 'well', url: well.url });
  for (let n = 0; n < 20; n++) await hooks.send({ tenant, type: 'a', data: n });
  hooks.work();
  await until('all of them hang', () => hangs.received.length === 5);
  for (let n = 0; n < 20; n++) await hooks.send({ tenant: 'well', type: 'a', data: n });
  // The other handler serves them.
  await until('the others came', () => well.received.length === 20);
  expect(hangs.received).toHaveLength(5);
  hangs.answer((_, response) => void response.end());
  for (const answer of open) answer();
  await until('it has got all', () => hangs.received.length === 20);
});

test('after a time-out an endpoint gets one request at a time', async () => {
  const hooks = await hooksOf({ timeout: 300, retry: [1, 1, 1, 1, 1, 1, 1, 1] }, 20);
  const hangs = await receiver();
  let open = 0;
  const atOnce: number[] = [];
  hangs.answer((_, response) => {
    atOnce.push(++open);
    response.on('close', () => open--);
  });
  await hooks.endpoints.create({ tenant, url: hangs.url });
  for (let n = 0; n < 10; n++) await hooks.send({ tenant, type: 'a', data: n });
  hooks.work();
  await until('it was tried again', () => atOnce.length >= 8);
  expect(Math.max(...atOnce)).toBeLessThanOrEqual(5);
  // Each may come while the connection of the one before it is closed; the sixth, while those of the first five are.
  expect(Math.max(...atOnce.slice(6))).toBeLessThanOrEqual(2);
});
