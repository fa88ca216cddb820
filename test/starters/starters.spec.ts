/**
 * Each template of `holdfast init`, as a user meets it: written into an empty folder, installed, compiled, tested,
 * started without a Postgres, used over HTTP, and ended by SIGTERM.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { TEMPLATES } from '../../packages/holdfast/src/cli/commands/setup/template.js';

const PACKED = process.env.HOLDFAST_STARTERS as string;
const OFFLINE = process.env.HOLDFAST_STARTERS_OFFLINE === '1';
const CLI = join(process.cwd(), 'packages/holdfast/dist/cli.js');

/** A program with what it has said so far. `npm run` and its programs are a process group. */
function start(cwd: string, command: string, args: readonly string[], more: object = {}) {
  // What a test runner and npm have set is nothing that a user has.
  const left = /^(npm_|NODE_|VITEST|DATABASE_URL|HOLDFAST)/;
  const own = Object.entries(process.env).filter(([name]) => !left.test(name));
  const env = { ...Object.fromEntries(own), NEXT_TELEMETRY_DISABLED: '1', ...more };
  const child = spawn(command, args, { cwd, env, detached: true });
  const seen = { text: '' };
  child.stdout.on('data', (data) => (seen.text += data));
  child.stderr.on('data', (data) => (seen.text += data));
  const ended = once(child, 'close').then(([code, signal]) => ({ code, signal }));
  return { child, seen, ended };
}

async function run(
  where: string | { cwd: string; env: object },
  command: string,
  ...args: string[]
): Promise<string> {
  const { cwd, env } = typeof where === 'string' ? { cwd: where, env: {} } : where;
  const { seen, ended } = start(cwd, command, args, env);
  const { code } = await ended;
  if (code !== 0) throw new Error(`${command} ${args.join(' ')} ended with ${code}:\n${seen.text}`);
  return seen.text;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  return port;
}

/** Until it is truthy, for two minutes: a development server compiles at the first request. */
async function until<Value>(what: string, look: () => Value | Promise<Value>, log: () => string) {
  for (const from = performance.now(); performance.now() - from < 120_000; await setTimeout(200)) {
    const value = await look();
    if (value) return value;
  }
  throw new Error(`${what} did not come:\n${log()}`);
}

const isAlive = (group: number) => {
  try {
    return process.kill(-group, 0);
  } catch {
    return false;
  }
};

/** In development files, too, our packages come from the files that npm packed. */
const packedFiles = (manifest: { dependencies: object; devDependencies: object }) => {
  const names = Object.keys({ ...manifest.dependencies, ...manifest.devDependencies });
  const files = readdirSync(PACKED);
  return names
    .filter((name) => /^(@holdfast\/|holdfast$)/.test(name))
    .map((name) => {
      const start = `${name.replace('@', '').replace('/', '-')}-`;
      return join(PACKED, files.find((file) => file.replace(/\d.*/, '') === start) as string);
    });
};

const TOKEN = 'a-token-of-the-dashboard';
/** Behind Next.js, which says of every request that it passed it on, nobody is known to be on this machine. */
const OF_TEMPLATE: Record<string, { env?: object; headers?: Record<string, string> }> = {
  'next-prisma': {
    env: { DASHBOARD_TOKEN: TOKEN },
    headers: { authorization: `Bearer ${TOKEN}` },
  },
};

/**
 * Prisma's command downloads an engine, to migrate, that no registry has. Where it cannot, the client is generated without it,
 * and the migration is applied by a stand-in, which is said.
 */
async function prismaEngine(cwd: string): Promise<object> {
  if (await fetch('https://binaries.prisma.sh/').then(Boolean, () => false)) return {};
  console.log(
    "SKIPPED: prisma migrate deploy; its engine can't be downloaded. The SQL runs without it.",
  );
  const place = join(cwd, 'node_modules/.bin/prisma');
  const real = realpathSync(place);
  rmSync(place);
  const standIn = `#!/usr/bin/env node
    if (process.argv[2] !== 'migrate') require(${JSON.stringify(real)});
    else void (async () => {
      const { Client } = require('pg');
      const client = new Client({ connectionString: process.env.DATABASE_URL });
      await client.connect();
      await client.query(require('fs').readFileSync('prisma/migrations/0001_orders/migration.sql', 'utf8'));
      await client.end();
    })();`;
  writeFileSync(`${place}.cjs`, standIn, { mode: 0o755 });
  symlinkSync('prisma.cjs', place);
  return { PRISMA_SCHEMA_ENGINE_BINARY: '/bin/true' };
}

test.skipIf(OFFLINE).each([...TEMPLATES])('%s', { timeout: 900_000 }, async (template) => {
  const cwd = mkdtempSync(join(tmpdir(), `holdfast-${template}-`));
  onTestFinished(() => rmSync(cwd, { recursive: true, force: true }));
  const written = await run(cwd, process.execPath, CLI, 'init', '--template', template);
  expect(written).toContain('Next: npm install, npm run dev');

  const files = packedFiles(JSON.parse(readFileSync(join(cwd, 'package.json'), 'utf8')));
  await run(cwd, 'npm', 'install', '--no-audit', '--no-fund', '--loglevel=error', ...files);
  const { headers = {}, ...more } = OF_TEMPLATE[template] ?? {};
  const env = { ...more.env, ...(template === 'next-prisma' && (await prismaEngine(cwd))) };
  const npm = async (...args: string[]) => run({ cwd, env }, 'npm', ...args);
  await npm('run', 'build');
  await run(cwd, 'npx', 'tsc', '--noEmit');
  expect(await npm('test')).toMatch(/# pass 1\n|pass 1\n/);

  const port = await freePort();
  const address = `http://127.0.0.1:${port}`;
  const { child, seen, ended } = start(cwd, 'npm', ['run', 'dev'], {
    ...env,
    PORT: String(port),
  });
  onTestFinished(() => void (isAlive(child.pid!) && process.kill(-child.pid!, 'SIGKILL')));
  const log = () => seen.text;
  // Where the user is root, the data is elsewhere.
  onTestFinished(() => {
    const data = /database cluster in (.+\/holdfast-data-[0-9a-f]+)\/data$/m.exec(log())?.[1];
    if (data) rmSync(data, { recursive: true, force: true });
  });
  await until('an answer', () => fetch(`${address}/orders/1`).then(Boolean, () => false), log);

  for (const body of ['{', 'null', '{"email": "ada@example.com", "totalCents": 1e10}']) {
    const sent = { method: 'POST', headers: { 'content-type': 'application/json' }, body };
    expect([body, (await fetch(`${address}/orders`, sent)).status]).toEqual([body, 400]);
  }
  const made = await fetch(`${address}/orders`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ email: 'ada@example.com', totalCents: 4200 }),
  });
  expect([made.status, log()]).toEqual([201, expect.anything()]);
  const { id } = (await made.json()) as { id: number };
  await until('the receipt', () => log().includes(`mail: receipt for order ${id}`), log);
  const order = async () => (await fetch(`${address}/orders/${id}`)).json();
  expect(await order()).toMatchObject({ totalCents: 4200 });
  await until('receiptAt', async () => ((await order()) as { receiptAt: unknown }).receiptAt, log);

  const page = await fetch(`${address}/holdfast/`, { headers });
  expect([page.status, await page.text()]).toEqual([
    200,
    expect.stringMatching(/<title>.*Holdfast/),
  ]);
  // A name that is not of this machine is not let in.
  const { status } = await fetch(`${address}/holdfast/`, {
    headers: { 'x-forwarded-for': '1.2.3.4' },
  });
  expect(status).toBeGreaterThanOrEqual(400);

  // To npm, whose shell may not pass it on.
  child.kill('SIGTERM');
  await until('the end', () => !isAlive(child.pid!), log);
  await ended;
  expect(log()).toMatch(/worker stopped[\s\S]*dev: all has stopped, exit code 0\n/);
  const [, postgres] = /starting PostgreSQL .* on 127\.0\.0\.1:(\d+)/.exec(log()) ?? [];
  const [error] = await once(connect(Number(postgres), '127.0.0.1'), 'close').catch((reason) => [
    reason,
  ]);
  expect(error).toMatchObject({ code: 'ECONNREFUSED' });
});
