/** Receivers that mean harm: raw servers on loopback, which answer what no proper server would. */
import net from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { newPoster } from '../../../packages/holdfast/src/shapes/webhooks/deliver/post.js';
import { reachable } from '../../../packages/holdfast/src/shapes/webhooks/guard/addresses.js';
import { newGuard } from '../../../packages/holdfast/src/shapes/webhooks/guard/guard.js';
import { until } from '../../support/until.js';

const open: (() => void)[] = [];
afterEach(() => {
  for (const close of open.splice(0)) close();
});

/** `talk` has each connection, before anything was said. */
async function hostile(talk: (socket: net.Socket) => void) {
  const sockets = new Set<net.Socket>();
  const server = net.createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {}).on('close', () => sockets.delete(socket));
    talk(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const poster = newPoster({ guard: newGuard(reachable(['127.0.0.0/8']), { allowHttp: true }) });
  open.push(() => {
    poster.close();
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const { port } = server.address() as net.AddressInfo;
  const post = (body = '{}') =>
    poster.post({
      ...{ url: new URL(`http://127.0.0.1:${port}/`), headers: {}, body, timeoutMs: 20_000 },
      signal: new AbortController().signal,
    });
  return { post, sockets, port };
}

const answering = (text: string) => (socket: net.Socket) =>
  void socket.on('data', () => void socket.write(text));
const EMPTY = 'HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n';

describe('a receiver keeps no worker and no connection busy', () => {
  test('that answers by changing the protocol', async () => {
    const { post, sockets } = await hostile(
      answering('HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\nhi'),
    );
    expect(await post()).toMatchObject({ status: 101, timedOut: false });
    await until('its connection is closed', () => sockets.size === 0);
  });

  test('that answers at once and never reads the body', async () => {
    const { post, port } = await hostile((socket) => {
      socket.pause();
      socket.write(EMPTY);
    });
    expect(await post('x'.repeat(8_000_000))).toMatchObject({ status: 200, error: null });
    await until('our side of the connection is closed', () => clients(port) === 0);
  });

  test('that says "wait" for ever', async () => {
    const { post } = await hostile((socket) => {
      const hint = 'HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n'.repeat(50);
      socket.on('data', () => void socket.write(hint));
    });
    const { status, timedOut, error } = await post();
    expect({ status, timedOut, error }).toEqual({
      ...{ status: null, timedOut: false, error: 'the request failed' },
    });
  });
});

test('a receiver that has closed every kept connection gets an attempt twice at most', async () => {
  let cut = false;
  let requests = 0;
  const seen = new WeakSet<net.Socket>();
  const waiting: net.Socket[] = [];
  const { post } = await hostile((socket) => {
    socket.on('data', (part) => {
      if (!part.includes('POST ')) return;
      requests++;
      if (cut && seen.has(socket)) return void socket.destroy();
      seen.add(socket);
      if (cut) return void socket.write(EMPTY);
      waiting.push(socket);
      if (waiting.length === 8) for (const one of waiting) one.write(EMPTY);
    });
  });
  await Promise.all(Array.from({ length: 8 }, () => post()));
  expect(requests).toBe(8);
  cut = true;
  expect(await post()).toMatchObject({ status: 200, error: null });
  expect(requests).toBe(10);
});

/** Connections of this process to a server of the test. */
function clients(port: number): number {
  const { _getActiveHandles: handles } = process as unknown as { _getActiveHandles(): unknown[] };
  const isOurs = (one: unknown) => one instanceof net.Socket && one.remotePort === port;
  return handles.call(process).filter(isOurs).length;
}
