/** The dashboard in Express, Fastify and Hono, as docs/dashboard.md mounts it: pages, files, acts and the stream. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import express from 'express';
import fastify from 'fastify';
import { Hono } from 'hono';
import { expect, onTestFinished, test } from 'vitest';
import { dashboard, nodeHandler } from '../../packages/dashboard/src/index.js';
import { plantJob } from '../support/cli-plant.js';
import { ACT, eventsOf } from '../support/dashboard.js';
import { testDatabase } from '../support/database.js';

const db = testDatabase();
const handler = () => dashboard(db.hf, { path: '/ops/jobs', loopback: true, write: true });

async function works(ask: (path: string, init?: RequestInit) => Promise<Response>): Promise<void> {
  expect(await (await ask('/ops/jobs/workers')).text()).toContain('<base href="/ops/jobs/">');
  expect((await ask('/ops/jobs/app.js')).headers.get('content-type')).toContain('text/javascript');
  const id = await plantJob(db);
  const body = JSON.stringify({ verb: 'cancel', ids: [id] });
  const act = await ask('/ops/jobs/api/jobs/act', { method: 'POST', headers: ACT, body });
  expect(await act.json()).toEqual({ moved: [id] });
  const stream = eventsOf(await ask('/ops/jobs/api/events'));
  expect(await stream.next()).toMatchObject({ event: 'snapshot' });
  await stream.close();
}

const at = (url: string) => (path: string, init?: RequestInit) => fetch(url + path, init);

test.each([
  ['alone', false],
  ['behind a parser of bodies', true],
])('Express, %s', async (_, parsed) => {
  const app = express();
  if (parsed) app.use(express.json());
  app.use('/ops/jobs', nodeHandler(handler()));
  const server = createServer(app);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => server.closeAllConnections());
  onTestFinished(() => void server.close());
  await works(at(`http://127.0.0.1:${(server.address() as AddressInfo).port}`));
});

test('Fastify', async () => {
  const jobs = nodeHandler(handler());
  const app = fastify({ forceCloseConnections: true });
  onTestFinished(() => app.close());
  await app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser('*', (_request, _body, done) => done(null));
    scope.all('/ops/jobs', (request, reply) => jobs(request.raw, reply.hijack().raw));
    scope.all('/ops/jobs/*', (request, reply) => jobs(request.raw, reply.hijack().raw));
  });
  await works(at(await app.listen({ port: 0, host: '127.0.0.1' })));
});

test('Hono', async () => {
  const jobs = handler();
  const app = new Hono();
  app.all('/ops/jobs', (c) => jobs(c.req.raw));
  app.all('/ops/jobs/*', (c) => jobs(c.req.raw));
  await works(async (path, init) => app.request(`http://localhost${path}`, init));
});
