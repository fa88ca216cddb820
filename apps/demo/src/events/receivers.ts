/**
 * Those whom the shop tells: a partner who takes its events as CloudEvents, and the webhooks of three customers. They listen
 * on loopback in the process of the demo, and write down what they hear, also what they hear again. One of the customers
 * fails now and then.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { standardWebhooks } from 'holdfast/receive';
import type pg from 'pg';
import { HOOKS, type News, secretOf } from './news.js';

export interface Receivers {
  readonly url: string;
  /** Requests that were taken, also those of a message that came again. */
  readonly heard: { readonly events: number; readonly webhooks: number };
  close(): void;
}

const NOTE = `
INSERT INTO shop.heard (place, id, order_id, step, signed) VALUES ($1, $2, $3, $4, $5)`;

const CUSTOMERS = new Map(
  HOOKS.map(({ tenant, flaky = false }) => [
    `/hooks/${tenant}`,
    { tenant, flaky, verify: standardWebhooks(secretOf(tenant)), calls: 0 },
  ]),
);

export async function openReceivers(pool: pg.Pool): Promise<Receivers> {
  const heard = { events: 0, webhooks: 0 };

  async function note(place: string, id: unknown, news: Partial<News>, signed = true) {
    await pool.query(NOTE, [place, id ?? '', news.orderId, news.step, signed]);
    heard[place === 'events' ? 'events' : 'webhooks']++;
  }

  /** Returns the status of the answer. */
  async function take(request: IncomingMessage): Promise<number> {
    const body = await buffer(request);
    const json = () => JSON.parse(body.toString());
    const { url = '', headers } = request;
    if (url === '/events') {
      await note('events', headers['ce-id'], json());
      return 204;
    }
    const customer = CUSTOMERS.get(url);
    if (!customer) return 404;
    const { tenant, flaky, verify } = customer;
    const turn = flaky ? customer.calls++ % 8 : 0;
    if (turn === 3) return 500;
    const get = (name: string) => request.headersDistinct[name]?.join(', ') ?? null;
    const delivery = { body, url, json, headers: { get }, text: () => body.toString() };
    const signed = await Promise.resolve()
      .then(() => verify({ ...delivery, receivedAt: new Date() }))
      .then(() => true)
      .catch(() => false);
    await note(tenant, headers['webhook-id'], json().data, signed);
    // It has heard it, and its answer gets lost.
    if (turn === 7) return 500;
    return signed ? 204 : 401;
  }

  const server = createServer((request, response) => {
    // The database is away, for instance: then it comes again.
    void take(request)
      .catch(() => 503)
      .then((status) => response.writeHead(status).end());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    heard,
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}
