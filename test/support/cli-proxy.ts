/**
 * A line to the database that behaves as some do: slow, deaf to notifications, or with another process id
 * than the server's, as behind a transaction pooler.
 */
import { once } from 'node:events';
import net from 'node:net';
import { onTestFinished } from 'vitest';

export interface Manners {
  /** Each answer comes so much later. */
  readonly delayMs?: number;
  /** Notifications are swallowed. */
  readonly deaf?: boolean;
  /** The client is told this process id. */
  readonly pid?: number;
}

const NOTIFICATION = 0x41;
const BACKEND_KEY = 0x4b;

/** Cuts what the server says into messages; the rest waits for its end. */
function messages(buffer: Buffer): { whole: Buffer[]; rest: Buffer } {
  const whole: Buffer[] = [];
  let at = 0;
  while (buffer.length >= at + 5) {
    const end = at + 1 + buffer.readInt32BE(at + 1);
    if (end > buffer.length) break;
    whole.push(buffer.subarray(at, end));
    at = end;
  }
  return { whole, rest: buffer.subarray(at) };
}

export async function proxied(url: string, manners: Manners): Promise<string> {
  const to = new URL(url);
  const sockets = new Set<net.Socket>();
  const server = net.createServer((near) => {
    const far = net.connect(Number(to.port), to.hostname);
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on('error', () => undefined);
    }
    near.on('close', () => far.destroy());
    far.on('close', () => near.destroy());
    near.pipe(far);
    let waiting = Buffer.alloc(0);
    far.on('data', (chunk: Buffer) => {
      const { whole, rest } = messages(Buffer.concat([waiting, chunk]));
      waiting = Buffer.from(rest);
      const passed = whole.filter((message) => !(manners.deaf && message[0] === NOTIFICATION));
      for (const message of passed) {
        if (manners.pid && message[0] === BACKEND_KEY) message.writeInt32BE(manners.pid, 5);
      }
      const bytes = Buffer.concat(passed);
      if (manners.delayMs) setTimeout(() => near.write(bytes), manners.delayMs);
      else near.write(bytes);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  const own = new URL(url);
  own.hostname = '127.0.0.1';
  own.port = String((server.address() as net.AddressInfo).port);
  return own.toString();
}
