/** Starting: a database that is away is waited for, one that refuses us is an error. */
import { once } from 'node:events';
import net from 'node:net';
import { expect, inject, onTestFinished, test } from 'vitest';
import { QUICK, startWorker } from '../support/child.js';
import { ground, jobs } from '../support/ground.js';

async function listen(server: net.Server, port = 0): Promise<number> {
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as net.AddressInfo).port;
}

async function freePort(): Promise<number> {
  const server = net.createServer();
  const port = await listen(server);
  server.close();
  await once(server, 'close');
  return port;
}

/** Opens a port and passes everything on to the database. */
async function forward(port: number, to: URL): Promise<void> {
  const sockets = new Set<net.Socket>();
  const server = net.createServer((near) => {
    const far = net.connect(Number(to.port), to.hostname);
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(one);
      one.on('error', () => other.destroy());
      one.pipe(other);
    }
  });
  await listen(server, port);
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
}

function onPort(url: string, port: number): string {
  const moved = new URL(url);
  moved.hostname = '127.0.0.1';
  moved.port = String(port);
  return moved.toString();
}

test('a worker that starts before its database waits for it, and then works', async () => {
  const db = await ground();
  const { id } = await db.hf.enqueue(jobs.noop, {});
  const port = await freePort();
  const worker = startWorker(onPort(db.url, port));
  await worker.hears('trouble', { what: 'starting', code: 'ECONNREFUSED' });
  expect(worker.heard('started')).toBeUndefined();
  await forward(port, new URL(db.url));
  await worker.hears('started');
  await db.completed(1);
  expect(await db.hf.find(id)).toMatchObject({ status: 'completed', attempts: 1 });
});

test('a worker that waits for its database stops when it is asked to', async () => {
  const worker = startWorker(onPort(inject('serverUrl'), await freePort()));
  await worker.hears('trouble', { what: 'starting' });
  worker.signal('SIGTERM');
  expect(await worker.exited, worker.describe()).toEqual({ code: 0, signal: null });
});

test("a wrong password ends run() with Postgres' own error", async () => {
  const db = await ground();
  const url = new URL(db.url);
  url.password = 'wrong';
  const worker = startWorker(url.toString(), QUICK);
  const refused = await worker.hears('refused-start');
  expect(refused).toMatchObject({ code: '28P01', what: 'error' });
  expect(refused.message).toMatch(/password authentication failed/);
  expect(await worker.exited, worker.describe()).toEqual({ code: 3, signal: null });
});
