/** Webhooks as their providers sign them, by the words of their documentation and not by our code. */
import { createHmac, randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';

export interface Signing {
  readonly secret: string;
  readonly body: string;
  readonly id?: string;
  /** Seconds by which the time of signing is off. */
  readonly off?: number;
}

export type Signer = (signing: Signing) => Record<string, string>;

const nowPlus = (off = 0) => String(Math.floor(Date.now() / 1_000) + off);
const hmac = (key: string | Buffer, text: string) => createHmac('sha256', key).update(text);

/** A key of Standard Webhooks for a name. */
export const whsec = (name: string): string =>
  `whsec_${Buffer.from(name.padEnd(24, '.')).toString('base64')}`;

const standard =
  (prefix: string): Signer =>
  ({ secret, body, id = randomUUID(), off }) => {
    const time = nowPlus(off);
    const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
    return {
      'content-type': 'application/json',
      [`${prefix}-id`]: id,
      [`${prefix}-timestamp`]: time,
      [`${prefix}-signature`]: `v1,${hmac(key, `${id}.${time}.${body}`).digest('base64')}`,
    };
  };

export const signers = {
  standardWebhooks: standard('webhook'),
  svix: standard('svix'),
  stripe: ({ secret, body, off }) => {
    const time = nowPlus(off);
    const signature = hmac(secret, `${time}.${body}`).digest('hex');
    return {
      'content-type': 'application/json; charset=utf-8',
      'stripe-signature': `t=${time},v0=00,v1=${signature}`,
    };
  },
  github: ({ secret, body, id = randomUUID() }) => ({
    'content-type': 'application/json',
    'x-github-delivery': id,
    'x-github-event': 'push',
    'x-hub-signature-256': `sha256=${hmac(secret, body).digest('hex')}`,
  }),
  slack: ({ secret, body, off }) => {
    const time = nowPlus(off);
    return {
      'content-type': 'application/json',
      'x-slack-request-timestamp': time,
      'x-slack-signature': `v0=${hmac(secret, `v0:${time}:${body}`).digest('hex')}`,
    };
  },
} satisfies Record<string, Signer>;

/** A server on a free port, for the length of the test. */
export async function served(
  handler: (request: IncomingMessage, response: ServerResponse) => unknown,
): Promise<string> {
  const server = createServer(handler as never).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks`;
}

export interface Told {
  readonly status: number;
  readonly text: string;
  readonly headers: Headers;
}

export async function post(
  url: string,
  headers: Record<string, string>,
  body: string,
): Promise<Told> {
  const response = await fetch(url, { method: 'POST', headers, body });
  return { status: response.status, text: await response.text(), headers: response.headers };
}
