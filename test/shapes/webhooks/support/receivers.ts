/** Receivers of webhooks: real servers on loopback that keep what came, and answer as the test says. */
import { createHmac } from 'node:crypto';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { afterEach } from 'vitest';
import type { TestGround } from '../../../support/database.js';

export interface Received {
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  readonly at: number;
}

export interface Receiver {
  readonly url: string;
  readonly port: number;
  readonly received: Received[];
  /** How many connections came, whether or not something was said on them. */
  connections(): number;
  /** What it does from now on. Default: 204. */
  answer(how: (received: Received, response: ServerResponse) => void): void;
  /** The ids of the messages, in the order in which they came. */
  ids(): string[];
}

export function testReceivers() {
  const open: (() => Promise<void>)[] = [];
  afterEach(async () => {
    await Promise.all(open.splice(0).map((close) => close()));
  });
  return async function receiver(): Promise<Receiver> {
    const received: Received[] = [];
    const sockets = new Set<Socket>();
    let connections = 0;
    let how = (_: Received, response: ServerResponse): void => void response.writeHead(204).end();
    const server = createServer((request, response) => {
      const parts: Buffer[] = [];
      request.on('data', (part: Buffer) => parts.push(part));
      request.on('end', () => {
        const body = Buffer.concat(parts).toString();
        const one = { headers: request.headers, body, at: performance.now() };
        received.push(one);
        how(one, response);
      });
    });
    server.on('connection', (socket) => {
      connections++;
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => sockets.delete(socket));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    open.push(async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    });
    const { port } = server.address() as AddressInfo;
    return {
      ...{ url: `http://127.0.0.1:${port}/hooks`, port, received },
      connections: () => connections,
      answer(next) {
        how = next;
      },
      ids: () => received.map(({ headers }) => String(headers['webhook-id'])),
    };
  };
}

/** Takes away what the tests before have left: queues are made once for a file. */
export const emptyHooks = ({ rows }: Pick<TestGround, 'rows'>) =>
  rows(`TRUNCATE ${LEFT.map((name) => `holdfast.${name}`)}`);

const QUEUES = ['webhooks', 'webhooks_ordered'];
const LEFT = [
  ...['webhook_endpoints', 'webhook_health', 'webhook_log', 'webhook_secrets'],
  ...QUEUES.flatMap((queue) => [queue, `${queue}_archive`, `${queue}_claims`]),
];

/** As a receiver of Standard Webhooks does it, who knows this secret and no other. */
export function verifies({ headers, body }: Received, secret: string): boolean {
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
  const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`;
  const wanted = `v1,${createHmac('sha256', key).update(signed).digest('base64')}`;
  return String(headers['webhook-signature']).split(' ').includes(wanted);
}
