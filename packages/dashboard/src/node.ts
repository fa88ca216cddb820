/** The handler on node:http, and so in Express, Fastify and whatever else has requests of Node. Who hangs up ends his stream. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import type { DashboardHandler } from './dashboard.js';

/** What frameworks add: the path before they cut it, and a body that was read already. */
type Incoming = IncomingMessage & { readonly originalUrl?: string; readonly body?: unknown };

/** Serves requests of `node:http`. */
export type NodeHandler = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

function bodyOf(request: Incoming): string | ReadableStream<Uint8Array> | null {
  if (request.method === 'GET' || request.method === 'HEAD') return null;
  const { body } = request;
  if (body === undefined || body === null || request.readable)
    return Readable.toWeb(request) as ReadableStream<Uint8Array>;
  if (typeof body === 'string') return body;
  const form = /^application\/x-www-form-urlencoded/.test(request.headers['content-type'] ?? '');
  return form
    ? new URLSearchParams(body as Record<string, string>).toString()
    : JSON.stringify(body);
}

/** Null: it is none that a fetch handler can be asked, such as TRACE, or a Host with a password in it. */
function requestOf(request: Incoming): Request | null {
  const scheme = 'encrypted' in request.socket ? 'https' : 'http';
  const host = request.headers.host ?? request.headers[':authority'] ?? 'localhost';
  try {
    const headers = new Headers();
    // HTTP/2 has names that are none of a header.
    for (const [name, value] of Object.entries(request.headers))
      if (value !== undefined && !name.startsWith(':'))
        headers.set(name, Array.isArray(value) ? value.join(', ') : value);
    const method = request.method ?? 'GET';
    const options = { method, headers, body: bodyOf(request), duplex: 'half' };
    const address = `${scheme}://${host}${request.originalUrl ?? request.url ?? '/'}`;
    return new Request(address, options as RequestInit);
  } catch {
    return null;
  }
}

async function write(answer: Response, response: ServerResponse): Promise<void> {
  response.writeHead(answer.status, Object.fromEntries(answer.headers));
  if (!answer.body) return void response.end();
  const reader = answer.body.getReader();
  let drained = () => {};
  response.on('drain', () => drained());
  response.on('close', () => {
    drained();
    void reader.cancel().catch(() => undefined);
  });
  for (;;) {
    // `close` does not fire for a client that hung up before the answer was ready.
    if (response.destroyed) return void (await reader.cancel());
    const { done, value } = await reader.read();
    if (done) break;
    if (response.write(value) || response.destroyed) continue;
    await new Promise<void>((resolve) => {
      drained = resolve;
    });
  }
  response.end();
}

/**
 * Serves the dashboard from `node:http`, and so from Express and Fastify. It never rejects.
 * @example createServer(nodeHandler(dashboard(hf, { loopback: true }))).listen(7433, '127.0.0.1');
 */
export function nodeHandler(handle: DashboardHandler): NodeHandler {
  return async (request, response) => {
    const asked = requestOf(request);
    if (!asked) return void response.writeHead(400).end();
    try {
      await write(await handle(asked), response);
    } catch {
      response.destroy();
    }
  };
}
