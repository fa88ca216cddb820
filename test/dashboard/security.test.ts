/** Who may see the dashboard and act with it: nobody who was not let in, and nothing that another site's page sends. */
import { gunzipSync } from 'node:zlib';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import {
  type DashboardOptions,
  dashboard,
  serveDashboard,
} from '../../packages/dashboard/src/index.js';
import { ROUTES } from '../../packages/dashboard/src/routes.js';
import { holdfast } from '../../packages/holdfast/src/index.js';
import { plantJob } from '../support/cli-plant.js';
import { ACT, asking } from '../support/dashboard.js';
import { testDatabase } from '../support/database.js';
import { recordingLogger } from '../support/logger.js';

const db = testDatabase();
const TOKEN = 'a-token-of-32-characters-exactly';
const ID = '01890000-0000-7000-8000-000000000000';
const pathOf = (path: string) => `/${path.replace(':id', ID).replace(':queue', 'inbox')}`;
const PAGES = [
  '',
  'jobs',
  `jobs/${ID}`,
  'workflows',
  `workflows/${ID}`,
  'workers',
  'ring',
  'dead-letters',
  'queues',
  'schedules',
  'limits',
  'webhooks',
  `webhooks/${ID}`,
];
const FILES = [
  'live-lab',
  'health',
  'audit',
  'app.js',
  'app.css',
  'icon.svg',
  'login',
  'logout',
  'nowhere',
];
const LAB = [
  ...['lab', 'lab/', 'lab/lab.js', 'lab/engine.js', 'lab/lab.data', 'lab/pglite/index.js'],
  'lab/nothing',
];
const EVERY = [
  ...ROUTES.map(({ path }) => path),
  'api/events',
  'api/nothing',
  ...PAGES,
  ...FILES,
  ...LAB,
];
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];

/** Everything with every method. */
const REQUESTS = [...new Set(EVERY)].flatMap((path) => METHODS.map((method) => ({ path, method })));

describe('who was not let in', () => {
  test.each<[string, DashboardOptions]>([
    ['without the token', { token: TOKEN, write: true }],
    ['refused by the host', { authorise: () => null, write: true }],
  ])('%s, is refused at every address with every method', async (_, options) => {
    const { ask } = asking(db.hf, options);
    const wrong: string[] = [];
    for (const { path, method } of REQUESTS) {
      const body = method === 'GET' || method === 'HEAD' ? {} : { body: '{}' };
      const headers = { ...ACT, authorization: `Bearer ${TOKEN.slice(1)}x` };
      const { status, text } = await ask(pathOf(path), { method, headers, ...body });
      if (status !== 401 && status !== 403) wrong.push(`${method} ${path}: ${status}`);
      if (/holdfast\.inbox|partition|<script/.test(text)) wrong.push(`${method} ${path}: ${text}`);
    }
    expect(wrong).toEqual([]);
  });

  test('a person gets a form that works without scripts, and its answer opens the door', async () => {
    const { get, ask } = asking(db.hf, { token: TOKEN });
    const form = await get('/jobs', { accept: 'text/html' });
    expect(form.status).toBe(401);
    expect(form.text).toContain('<form method="post" action="/login">');
    expect(form.headers.get('content-security-policy')).toMatch(/style-src 'sha256-/);
    // With no-referrer a browser sends the form with `Origin: null`, which is refused.
    expect(form.headers.get('referrer-policy')).toBe('same-origin');
    const send = (token: string, headers = {}) =>
      ask('/login', {
        method: 'POST',
        headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers },
        body: new URLSearchParams({ token }).toString(),
      });
    expect(await send('not-the-token')).toMatchObject({ status: 401 });
    expect(await send(TOKEN, { origin: 'https://evil.example' })).toMatchObject({ status: 403 });
    const opened = await send(TOKEN);
    expect(opened).toMatchObject({ status: 303 });
    const cookie = opened.headers.get('set-cookie') as string;
    expect(cookie).toMatch(/; Path=\/; Max-Age=43200; HttpOnly; SameSite=Strict$/);
    expect(cookie).not.toContain(TOKEN);
    const sent = { cookie: `other=1; ${cookie.split(';')[0]}` };
    expect(await get('/api/session', sent)).toMatchObject({ status: 200, body: { write: false } });
    // A time that was put forward does not fit its signature.
    const later = sent.cookie.replace(/=(\d+)\./, (_, until) => `=${Number(until) + 1}.`);
    expect(await get('/api/session', { cookie: later })).toMatchObject({ status: 401 });
    expect((await get('/api/session', { authorization: `Bearer ${TOKEN}` })).status).toBe(200);
  });

  test('the host says who it is, and the audit knows', async () => {
    const id = await plantJob(db, { status: 'dead_letter' });
    const authorise = (request: Request) =>
      request.headers.get('x-user') ? { actor: 'ada', write: true } : null;
    const { post } = asking(db.hf, { authorise, write: true });
    const act = { verb: 'retry', ids: [id] };
    expect((await post('/api/jobs/act', act)).status).toBe(401);
    expect(await post('/api/jobs/act', act, { 'x-user': '1' })).toMatchObject({
      status: 200,
      body: { moved: [id] },
    });
    const [entry] = (await db.hf.audit()).acts;
    expect(entry).toMatchObject({ act: 'retry', actor: 'ada', jobs: 1 });
  });
});

describe('acts', () => {
  let id: string;
  beforeAll(async () => {
    id = await plantJob(db, { dueInMs: 3_600_000 });
  });
  const waits = async () => (await db.hf.job(id))?.status === 'pending';

  test.each<[string, Record<string, string>]>([
    ['another site by Sec-Fetch-Site', { 'sec-fetch-site': 'cross-site' }],
    ['a sibling domain', { 'sec-fetch-site': 'same-site' }],
    ['the address bar', { 'sec-fetch-site': 'none' }],
    ['another origin', { 'sec-fetch-site': '', origin: 'https://evil.example' }],
    ['an opaque origin', { 'sec-fetch-site': '', origin: 'null' }],
    ['a form, which cannot send our header', { 'x-holdfast': '' }],
  ])('from %s are refused', async (_, headers) => {
    const { ask } = asking(db.hf);
    const sent = Object.entries({ ...ACT, ...headers }).filter(([, value]) => value !== '');
    const body = JSON.stringify({ verb: 'cancel', ids: [id] });
    const answer = await ask('/api/jobs/act', {
      method: 'POST',
      headers: Object.fromEntries(sent),
      body,
    });
    expect(answer).toMatchObject({ status: 403 });
    expect(await waits()).toBe(true);
  });

  test('are refused, all of them, where the dashboard is read-only or the visitor is', async () => {
    const readers: DashboardOptions[] = [
      { loopback: true },
      { authorise: () => ({ actor: 'eve', write: true }) },
      { authorise: () => ({ actor: 'eve' }), write: true },
    ];
    for (const options of readers) {
      const { post, get } = asking(db.hf, options);
      for (const { path, method } of ROUTES) {
        if (method !== 'POST') continue;
        const answer = await post(pathOf(path), { verb: 'cancel', ids: [id] });
        expect({ path, ...answer }).toMatchObject({
          path,
          status: 403,
          body: { error: expect.stringMatching(/read-only/) },
        });
      }
      expect((await get('/api/session')).body).toMatchObject({ write: false });
    }
    expect(await waits()).toBe(true);
  });

  test('through a program without a browser need the header, and work', async () => {
    const { ask } = asking(db.hf);
    const headers = { 'content-type': 'application/json', 'x-holdfast': '1' };
    const body = JSON.stringify({ verb: 'cancel', ids: [id] });
    expect((await ask('/api/jobs/act', { method: 'POST', headers, body })).body).toEqual({
      moved: [id],
    });
    expect(await waits()).toBe(false);
  });
});

test('what is refused is in the log, with who asked if that is known, and not in the audit', async () => {
  const logger = recordingLogger();
  const hf = holdfast({ connectionString: db.url, logger });
  onTestFinished(() => hf.close());
  await db.rows('TRUNCATE holdfast.audit');
  const act = { verb: 'cancel', ids: [ID] };
  const reader = asking(hf, { authorise: () => ({ actor: 'eve' }), write: true });
  await reader.post('/api/jobs/act', act);
  await reader.post('/api/jobs/act', act, { 'sec-fetch-site': 'cross-site' });
  const stranger = asking(hf, { token: TOKEN, write: true });
  await stranger.post('/api/jobs/act', act);
  await stranger.get('/api/jobs', { authorization: 'Bearer a-wrong-token' });
  await stranger.ask('/login', { method: 'POST', body: 'token=a-wrong-token' });
  await asking(hf, { loopback: true }).get('/', { host: 'evil.example' });
  // A person who is about to sign in.
  await stranger.get('/', { accept: 'text/html' });
  const path = '/api/jobs/act';
  const because = (why: RegExp) => expect.stringMatching(why);
  expect(logger.lines.map(({ level, facts }) => ({ level, ...facts }))).toEqual([
    { level: 'warn', method: 'POST', path, why: because(/read-only/), actor: 'eve' },
    { level: 'warn', method: 'POST', path, why: because(/another site/), actor: 'eve' },
    { level: 'warn', method: 'POST', path, why: because(/Nobody/) },
    { level: 'warn', method: 'GET', path: '/api/jobs', why: because(/Nobody/) },
    { level: 'warn', method: 'POST', path: '/login', why: because(/not the token/) },
    { level: 'warn', method: 'GET', path: '/', why: because(/evil\.example/) },
  ]);
  expect(JSON.stringify(logger.lines)).not.toContain('a-wrong-token');
  expect((await db.hf.audit()).acts).toEqual([]);
});

describe('names', () => {
  test.each([
    ['evil.example', 403],
    ['localhost.evil.example', 403],
    ['127.0.0.1.evil.example:7433', 403],
    ['10.0.0.5:7433', 403],
    ['localhost:7433', 200],
    ['127.0.0.1:7433', 200],
    ['127.0.0.2:7433', 200],
    ['[::1]:7433', 200],
  ])('without a sign-in, %s gets %i', async (host, status) => {
    const { get } = asking(db.hf, { loopback: true });
    expect((await get('/api/session', { host })).status).toBe(status);
    expect((await get('/', { host })).status).toBe(status);
  });

  test('a proxy in front of one without a sign-in is refused', async () => {
    const { get } = asking(db.hf, { loopback: true });
    expect(await get('/', { 'x-forwarded-for': '203.0.113.9' })).toMatchObject({ status: 403 });
  });

  test('others are answered where they are named', async () => {
    const { get } = asking(db.hf, { token: TOKEN, hosts: ['ops.example.com'] });
    const headers = { authorization: `Bearer ${TOKEN}` };
    expect((await get('/', { ...headers, host: 'ops.example.com' })).status).toBe(200);
    expect((await get('/', { ...headers, host: 'evil.example' })).status).toBe(403);
  });
});

test('every answer forbids scripts of others, frames, guesses of types and copies', async () => {
  const { get, post } = asking(db.hf);
  const answers = [await get('/'), await get('/app.js'), await get('/api/jobs'), await get('/no')];
  for (const { headers } of [...answers, await post('/api/jobs/act', {})]) {
    const policy = headers.get('content-security-policy') ?? '';
    expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self'");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).not.toMatch(/unsafe|\*/);
    expect(headers.get('x-content-type-options')).toBe('nosniff');
    expect(headers.get('x-frame-options')).toBe('DENY');
    expect(headers.has('access-control-allow-origin')).toBe(false);
  }
  const [page] = answers;
  expect(page!.text).not.toMatch(/<script>|<style|style=|onload=/);
});

test('files are packed for who can unpack them, and not sent again while they are the same', async () => {
  const { ask, handle } = asking(db.hf);
  for (const path of ['/app.js', '/lab/engine.js', '/lab/']) {
    const plain = await ask(path);
    const packed = await handle(
      new Request(`http://localhost${path}`, {
        headers: { host: 'localhost', 'accept-encoding': 'br, gzip' },
      }),
    );
    expect(packed.headers.get('content-encoding')).toBe('gzip');
    const bytes = Buffer.from(await packed.arrayBuffer());
    expect(gunzipSync(bytes).toString()).toBe(plain.text);
    const etag = packed.headers.get('etag') as string;
    expect((await ask(path, { headers: { 'if-none-match': etag } })).status).toBe(304);
    const refused = await ask(path, { headers: { 'accept-encoding': 'gzip;q=0' } });
    expect(refused.headers.has('content-encoding')).toBe(false);
  }
});

test('the lab may compile WebAssembly and start its thread, nothing more, and serves no other file', async () => {
  const { get } = asking(db.hf);
  const policyOf = async (path: string) =>
    (await get(path)).headers.get('content-security-policy') ?? '';
  const strict = await policyOf('/');
  const added = "script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'";
  const lab = strict
    .replace("script-src 'self'", added)
    .replace("trusted-types 'none'", 'trusted-types holdfast-lab');
  for (const path of ['/lab/', '/lab/engine.js', '/lab/lab.data', '/lab/pglite/index.js'])
    expect(await policyOf(path)).toBe(lab);
  expect(await policyOf('/jobs')).toBe(strict);
  for (const name of [
    '../package.json',
    '%2e%2e%2fpackage.json',
    'pgcrypto.tar.gz',
    'fs/nodefs.js',
  ])
    expect((await get(`/lab/pglite/${name}`)).status).toBe(404);
  expect((await get('/lab')).headers.get('location')).toBe('/lab/');
});

test('one that anybody could open is not made', async () => {
  expect(() => dashboard(db.hf)).toThrow(/Anybody could open it.*No dashboard was made/);
  expect(() => dashboard(db.hf, { token: 'short' })).toThrow(/only 5 characters/);
  for (const path of ['a b', '/ops/../jobs', '/.'])
    expect(() => dashboard(db.hf, { loopback: true, path })).toThrow(/write it like/);
  expect(() => dashboard({ ...db.hf }, { loopback: true })).toThrow(/another copy/);
  await expect(serveDashboard(db.hf, { host: '0.0.0.0', port: 0 })).rejects.toThrow(
    /On 0\.0\.0\.0 others could open.*not started.*token or authorise/,
  );
  const server = await serveDashboard(db.hf, { host: '0.0.0.0', port: 0, token: TOKEN });
  expect((await fetch(`http://127.0.0.1:${server.port}/api/session`)).status).toBe(401);
  await server.close();
});

test('what fails says so in a sentence, and neither a stack nor a payload leaves or is logged', async () => {
  const logger = recordingLogger();
  const hf = holdfast({ connectionString: db.url, logger });
  await plantJob(db, { payload: { card: 'canary-4242' }, type: 'pay' });
  const redact = () => {
    throw new Error('canary-4242');
  };
  const { get, post } = asking(hf, { loopback: true, write: true, redact });
  const list = await get('/api/jobs?type=pay');
  const shown = await get(`/api/jobs/${list.body.jobs[0].id}`);
  expect(shown.body.job.payload).toBe('[hidden: redact failed]');
  await post('/api/jobs/act', { verb: 'retry', ids: ['canary-4242'] });
  await get('/api/jobs?limit=100000');
  await hf.close();
  const closed = await get('/api/jobs?type=other');
  expect(closed.text).not.toContain('    at ');
  expect(JSON.stringify([logger.lines, shown.text, closed.text])).not.toContain('canary-4242');
});
