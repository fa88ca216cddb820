/** A receiver of CloudEvents: a real node:http server that keeps what it got and answers as a test tells it. */
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';

export interface Received {
  readonly id: string;
  readonly type: string;
  readonly key: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: unknown;
  readonly path: string;
}

export interface Receiver {
  readonly url: string;
  /** In the order in which they came, those that were not acknowledged too. */
  readonly got: Received[];
  /** What a consumer keeps that dedupes by id. */
  readonly kept: Map<string, Received>;
  /** Of each event, what it answers: a status; 0 drops the connection without a word; a promise answers later. */
  answer: (event: Received, count: number) => number | Promise<number>;
  /** Refuses connections from now on, and cuts those that are open. */
  stop(): Promise<void>;
  /** Takes them again, at the same address. */
  start(): Promise<void>;
  /** At most so many requests for one key were under way at once. */
  mostAtOnce: number;
}

export async function startReceiver(): Promise<Receiver> {
  const counts = new Map<string, number>();
  const open = new Map<string, number>();
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const event = eventOf(request, Buffer.concat(chunks).toString());
    const { id, key } = event;
    const now = (open.get(key) ?? 0) + 1;
    open.set(key, now);
    receiver.mostAtOnce = Math.max(receiver.mostAtOnce, now);
    receiver.got.push(event);
    const count = (counts.get(id) ?? 0) + 1;
    counts.set(id, count);
    const status = await receiver.answer(event, count);
    open.set(key, (open.get(key) ?? 1) - 1);
    if (status < 300 && !receiver.kept.has(id)) receiver.kept.set(id, event);
    if (status === 0) return void request.socket.destroy();
    response.writeHead(status).end();
  });
  let port = 0;
  const receiver: Receiver = {
    url: '',
    got: [],
    kept: new Map(),
    answer: () => 204,
    mostAtOnce: 0,
    start: () =>
      new Promise((resolve, reject) => {
        server.once('error', reject);
        server.listen(port, '127.0.0.1', resolve);
      }),
    async stop() {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
  await receiver.start();
  port = (server.address() as AddressInfo).port;
  Object.assign(receiver, { url: `http://127.0.0.1:${port}` });
  onTestFinished(async () => {
    server.closeAllConnections();
    if (server.listening) await new Promise((resolve) => server.close(resolve));
  });
  return receiver;
}

function eventOf(request: IncomingMessage, text: string): Received {
  const { headers, url: path = '' } = request;
  const parsed = JSON.parse(text);
  const structured = headers['content-type'] === 'application/cloudevents+json';
  const fact = (name: string) => String(structured ? parsed[name] : headers[`ce-${name}`]);
  return {
    id: fact('id'),
    type: fact('type'),
    key: decodeURIComponent(fact('partitionkey')),
    headers,
    body: structured ? parsed.data : parsed,
    path,
  };
}
