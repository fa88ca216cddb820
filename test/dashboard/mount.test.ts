/** The handler under a path of a node:http server, beside other things, and as frameworks call it. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { dashboard, nodeHandler, serveDashboard } from '../../packages/dashboard/src/index.js';
import { holdfast } from '../../packages/holdfast/src/index.js';
import { plantJob } from '../support/cli-plant.js';
import { ACT, eventsOf } from '../support/dashboard.js';
import { testDatabase } from '../support/database.js';
import { until } from '../support/until.js';
import { gate } from '../support/workers.js';

const db = testDatabase();

type Listener = (request: IncomingMessage, response: ServerResponse) => unknown;

async function listening(listener: Listener): Promise<string> {
  const server: Server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => server.closeAllConnections());
  onTestFinished(() => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const mounted = () =>
  nodeHandler(dashboard(db.hf, { loopback: true, write: true, path: '/ops/jobs' }));

async function works(url: string): Promise<void> {
  const page = await fetch(`${url}/ops/jobs`);
  expect(page.url).toBe(`${url}/ops/jobs/`);
  expect(await page.text()).toContain('<base href="/ops/jobs/">');
  expect(await (await fetch(`${url}/ops/jobs/dead-letters`)).text()).toContain('id="app"');
  const script = await fetch(`${url}/ops/jobs/app.js`);
  expect(script.headers.get('content-type')).toBe('text/javascript; charset=utf-8');
  const etag = script.headers.get('etag') as string;
  expect(
    (await fetch(`${url}/ops/jobs/app.js`, { headers: { 'if-none-match': etag } })).status,
  ).toBe(304);
  const id = await plantJob(db);
  const body = JSON.stringify({ verb: 'cancel', ids: [id] });
  const act = await fetch(`${url}/ops/jobs/api/jobs/act`, { method: 'POST', headers: ACT, body });
  expect(await act.json()).toEqual({ moved: [id] });
  const stream = eventsOf(await fetch(`${url}/ops/jobs/api/events`));
  expect(await stream.next()).toMatchObject({ event: 'snapshot' });
  await stream.close();
  expect((await fetch(`${url}/ops/jobs`, { method: 'HEAD' })).status).toBe(200);
}

test('under a path of node:http', async () => {
  const handle = mounted();
  const url = await listening((request, response) => {
    if (request.url?.startsWith('/ops/jobs')) return handle(request, response);
    return response.end('the app');
  });
  await works(url);
  expect(await (await fetch(`${url}/`)).text()).toBe('the app');
});

test('where a framework cuts the path off and has read the body already', async () => {
  const handle = mounted();
  const url = await listening(async (request, response) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const text = Buffer.concat(parts).toString();
    const path = (request.url as string).slice('/ops/jobs'.length) || '/';
    const more = { originalUrl: request.url, url: path, body: text ? JSON.parse(text) : undefined };
    return handle(Object.assign(request, more), response);
  });
  await works(url);
});

/** A request as no client of ours would send it; resolves with the first line of the answer. */
function raw(url: string, lines: readonly string[]): Promise<string> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname, () =>
      socket.write(`${lines.join('\r\n')}\r\n\r\n`),
    );
    socket.once('data', (data) => {
      resolve(String(data).split('\r\n', 1)[0] as string);
      socket.destroy();
    });
    socket.once('error', reject);
    socket.once('close', () => reject(new Error('closed without an answer')));
  });
}

test('a request that cannot be asked is refused, and its promise does not end the process', async () => {
  const asked: Promise<void>[] = [];
  const handle = mounted();
  const url = await listening((request, response) => asked.push(handle(request, response)));
  const line = (method: string) => `${method} /ops/jobs/ HTTP/1.1`;
  expect(await raw(url, [line('TRACE'), 'Host: localhost'])).toContain('400');
  expect(await raw(url, [line('GET'), 'Host: a:b@localhost'])).toContain('400');
  expect(await raw(url, [line('GET'), 'Host: [::1'])).toContain('400');
  await Promise.all(asked);
  expect(asked).toHaveLength(3);
});

test('who hangs up before he was let in holds no stream', async () => {
  const hf = holdfast({ connectionString: db.url });
  onTestFinished(() => hf.close());
  const [asked, closed] = [gate(), gate()];
  const authorise = async () => {
    asked.open();
    await closed.opened;
    return { actor: 'ada' };
  };
  const handle = nodeHandler(dashboard(hf, { authorise }));
  const handled: Promise<void>[] = [];
  const url = await listening((request, response) => {
    response.on('close', () => closed.open());
    handled.push(handle(request, response));
  });
  const gone = new AbortController();
  const answer = fetch(`${url}/api/events`, { signal: gone.signal });
  await asked.opened;
  gone.abort();
  await expect(answer).rejects.toThrow();
  // It ends only if nothing is read of the stream any more.
  await handled[0];
});

test('who hangs up is forgotten, so nobody is polled for', async () => {
  const hf = holdfast({ connectionString: db.url });
  onTestFinished(() => hf.close());
  const server = await serveDashboard(hf, { port: 0 });
  onTestFinished(() => server.close());
  const gone = new AbortController();
  const response = await fetch(`${server.url}api/events`, { signal: gone.signal });
  await eventsOf(response).next();
  const open = async () =>
    (
      await db.rows<{ n: number }>(
        `SELECT count(*)::integer AS n FROM pg_stat_activity
         WHERE application_name = 'holdfast dashboard' AND datname = current_database()
           AND query_start > now() - interval '3 seconds'`,
      )
    )[0]?.n;
  expect(await open()).toBeGreaterThan(0);
  gone.abort();
  await until('no question is asked any more', async () => (await open()) === 0);
});

test('a port that is taken is said', async () => {
  const server = await serveDashboard(db.hf, { port: 0 });
  onTestFinished(() => server.close());
  expect(server.url).toBe(`http://127.0.0.1:${server.port}/`);
  await expect(serveDashboard(db.hf, { port: server.port })).rejects.toThrow(
    /cannot listen on 127\.0\.0\.1:\d+: another program listens there.*Choose another port/,
  );
});
