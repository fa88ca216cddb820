/**
 * A line to the database on which connections can be held up by their application name, as a busy machine does: what
 * they send is passed on late, or an answer never comes.
 */
import { once } from 'node:events';
import net from 'node:net';
import { onTestFinished } from 'vitest';

export interface HeldLine {
  /** The same database through this line. */
  readonly url: string;
  /** How often the answer to the statement was kept. */
  readonly kept: number;
  /** From now on everything passes. */
  release(): void;
}

export interface Held {
  /** Part of the application names of connections that are held up. */
  readonly names: RegExp;
  /** They are held up from this statement on, whose answer is kept. Left out: from the start. */
  readonly from?: RegExp;
}

export async function heldLine(to: string, { names, from }: Held): Promise<HeldLine> {
  const target = new URL(to);
  const sockets = new Set<net.Socket>();
  const waiting: (() => void)[] = [];
  let holding = from === undefined;
  let released = false;
  let kept = 0;
  const server = net.createServer((near) => {
    const far = net.connect(Number(target.port), target.hostname);
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(socket);
      socket.on('error', () => other.destroy());
      socket.on('close', () => other.destroy());
    }
    let named = false;
    let deaf = false;
    far.on('data', (data) => void (deaf || near.write(data)));
    near.on('data', (data) => {
      // The first message says who connects.
      named ||= names.test(data.toString('latin1'));
      if (released || !named) return void far.write(data);
      if (from?.test(data.toString('latin1')) && !holding) {
        holding = true;
        kept++;
        deaf = true;
        return void far.write(data);
      }
      if (holding) waiting.push(() => far.writable && far.write(data));
      else far.write(data);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  const url = new URL(to);
  url.hostname = '127.0.0.1';
  url.port = String((server.address() as net.AddressInfo).port);
  return {
    url: url.toString(),
    get kept() {
      return kept;
    },
    release() {
      released = true;
      for (const pass of waiting.splice(0)) pass();
    },
  };
}
