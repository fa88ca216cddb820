/**
 * The guarantees of an embedded server, each against real binaries and real processes. Tests that
 * must kill the process that started a server run it as a child, from the compiled package.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import * as fs from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath, pathToFileURL } from 'node:url';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { findInstalled } from './cluster/binaries.js';
import { type EmbeddedOptions, type EmbeddedServer, startEmbedded } from './index.js';
import { serverAccount } from './server/account.js';
import { identify } from './server/processes.js';
import type { State } from './state.js';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 120_000 });
const soon = { timeout: 30_000, interval: 10 };
const isRoot = process.getuid?.() === 0;
const here = dirname(fileURLToPath(import.meta.url));
const own = join(here, '..');
const root = join(own, '..', '..');

let folder: string;
let entry: string;
let compiled: string | undefined;
const children: ChildProcess[] = [];
const servers: EmbeddedServer[] = [];

beforeAll(() => {
  entry = join(own, 'dist', 'index.js');
  const built = fs.statSync(entry, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  const sources = fs.readdirSync(here).map((name) => fs.statSync(join(here, name)).mtimeMs);
  if (built < Math.max(...sources)) entry = compile();
  // Made by mkdtemp, it is closed to others; the server's account must get through.
  folder = fs.realpathSync(fs.mkdtempSync(join(tmpdir(), 'holdfast-test-')));
  fs.chmodSync(folder, 0o755);
});

function compile(): string {
  // Under node_modules, so that the compiled files find their dependencies.
  compiled = fs.mkdtempSync(join(root, 'node_modules', '.holdfast-test-'));
  fs.writeFileSync(join(compiled, 'package.json'), '{"type":"module"}');
  const tsc = join(root, 'node_modules', '.bin', 'tsc');
  try {
    execFileSync(tsc, ['-p', join(own, 'tsconfig.build.json'), '--outDir', compiled]);
  } catch (error) {
    // Type errors elsewhere are not this test's business, as long as there is something to run.
    if (!fs.existsSync(join(compiled, 'index.js'))) throw error;
  }
  return join(compiled, 'index.js');
}

afterEach(async () => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
  for (const server of servers.splice(0)) await server.stop();
});

afterAll(() => {
  fs.rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
  if (compiled) fs.rmSync(compiled, { recursive: true, force: true });
});

let count = 0;
const newDataDir = () => join(folder, `case-${++count}`, 'postgres');

/** A cluster that was started and stopped once: initdb takes a second each time, a copy does not. */
let template: Promise<string> | undefined;
async function usedDataDir(): Promise<string> {
  template ??= (async () => {
    const dataDir = newDataDir();
    await (await startEmbedded({ dataDir })).stop();
    return dataDir;
  })();
  const from = await template;
  const dataDir = newDataDir();
  fs.mkdirSync(dirname(dataDir), { recursive: true });
  execFileSync('cp', ['-a', from, `${from}.state.json`, dirname(dataDir)]);
  return dataDir;
}

async function start(options: EmbeddedOptions): Promise<EmbeddedServer> {
  const server = await startEmbedded(options);
  servers.push(server);
  return server;
}

async function query(url: string, text: string): Promise<unknown[]> {
  const client = new pg.Client(url);
  client.on('error', () => {});
  await client.connect();
  try {
    return (await client.query<unknown[]>({ text, rowMode: 'array' })).rows.flat();
  } finally {
    await client.end();
  }
}

interface Child {
  process: ChildProcess;
  ready: Promise<Pick<EmbeddedServer, 'url' | 'pid' | 'dataDir' | 'adopted'>>;
}

function startInChild(options: EmbeddedOptions, then = 'setInterval(() => {}, 1000)'): Child {
  const script = `
    import { startEmbedded } from ${JSON.stringify(pathToFileURL(entry).href)};
    const { url, pid, dataDir, adopted } = await startEmbedded(JSON.parse(process.argv[1]));
    console.log(JSON.stringify({ url, pid, dataDir, adopted }));
    ${then}`;
  const args = ['--input-type=module', '-e', script, JSON.stringify(options)];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  children.push(child);
  const lines = createInterface(child.stdout);
  const noLine = once(lines, 'close').then(() =>
    Promise.reject(new Error('the child ended early')),
  );
  const ready = Promise.race([once(lines, 'line'), noLine]).then(([line]) => JSON.parse(line));
  for (const promise of [noLine, ready]) promise.catch(() => {});
  return { process: child, ready };
}

async function kill(child: Child): Promise<void> {
  const ended = once(child.process, 'exit');
  child.process.kill('SIGKILL');
  await ended;
}

// A zombie that its parent has not collected yet does not run.
const isRunning = (pid: number) => identify(pid) !== undefined;
const untilGone = (pid: number) => vi.waitFor(() => expect(isRunning(pid)).toBe(false), soon);
const stateOf = (dataDir: string) =>
  JSON.parse(fs.readFileSync(`${dataDir}.state.json`, 'utf8')) as State;

describe('a server that is started, used and stopped', () => {
  test('answers on 127.0.0.1 with a password, and is gone after stop', async () => {
    const dataDir = newDataDir();
    const progress: string[] = [];
    const server = await start({ dataDir, onProgress: (message) => progress.push(message) });
    const shown = `SELECT current_setting('server_version'), current_setting('fsync'),
      current_setting('synchronous_commit'), current_setting('TimeZone'),
      current_setting('listen_addresses'), current_setting('unix_socket_directories'),
      current_setting('server_encoding'), upper('straße é')`;
    // The builtin locale maps one character to one character, so that ß stays.
    const expected = [server.version, 'on', 'on', 'UTC', '127.0.0.1', '', 'UTF8', 'STRAßE É'];
    expect(await query(server.url, shown)).toEqual(expected);
    expect(server).toMatchObject({ dataDir, adopted: false });
    expect(server.url).toMatch(
      new RegExp(`^postgres://postgres:[0-9a-f]{48}@127\\.0\\.0\\.1:${server.port}/postgres$`),
    );
    const guess = server.url.replace(/:[0-9a-f]{48}@/, ':guess@');
    await expect(query(guess, 'SELECT 1')).rejects.toMatchObject({ code: '28P01' });
    expect(progress.join('\n')).toMatch(/initialising a database cluster.*\n.*starting PostgreSQL/);
    expect(fs.statSync(`${dataDir}.state.json`).mode & 0o077).toBe(0);
    expect(fs.readdirSync(dirname(dataDir)).filter((name) => /password|lock/.test(name))).toEqual(
      [],
    );

    const { pid } = server;
    await server.stop();
    await server.stop();
    expect(isRunning(pid)).toBe(false);
    await expect(server.restart()).rejects.toMatchObject({ code: 'stopped' });
  });

  test('keeps its data and its password for the next run', async () => {
    const dataDir = await usedDataDir();
    const first = await start({ dataDir });
    await query(first.url, `CREATE TABLE kept AS SELECT 'yes' AS answer`);
    await first.stop();
    const second = await start({ dataDir, settings: { work_mem: '7MB', jit: false } });
    expect(second.url).toBe(first.url);
    expect(await query(second.url, 'SELECT answer FROM kept')).toEqual(['yes']);
    expect(await query(second.url, `SHOW work_mem`)).toEqual(['7MB']);
    await second.stop();

    // Someone else has the port now: the server moves to another one.
    const squatter = createServer().listen(second.port, '127.0.0.1');
    onTestFinished(() => void squatter.close());
    await once(squatter, 'listening');
    const third = await start({ dataDir });
    expect(third.port).not.toBe(second.port);
    expect(await query(third.url, 'SELECT answer FROM kept')).toEqual(['yes']);
  });

  test('a throwaway server comes back from a crash with all committed data, and takes its folder with it', async () => {
    const server = await start({ throwaway: true });
    const before = server.pid;
    await query(server.url, 'CREATE TABLE kept AS SELECT 42 AS answer');
    await server.restart('immediate');
    expect(server.pid).not.toBe(before);
    expect(await query(server.url, 'SELECT answer FROM kept')).toEqual([42]);
    await server.restart();
    expect(await query(server.url, 'SELECT answer FROM kept')).toEqual([42]);
    await server.stop();
    expect(fs.existsSync(dirname(server.dataDir))).toBe(false);
  });

  test('comes back even if the postmaster was killed and its port is taken for a while', async () => {
    let attempts = 0;
    const squatter = createServer();
    const onProgress = (message: string) => {
      if (message.startsWith('starting') && ++attempts === 3) squatter.close();
    };
    const server = await start({ dataDir: await usedDataDir(), onProgress });
    await query(server.url, 'CREATE TABLE kept AS SELECT 42 AS answer');
    process.kill(server.pid, 'SIGKILL');
    await untilGone(server.pid);
    await once(squatter.listen(server.port, '127.0.0.1'), 'listening');
    await server.restart();
    expect(attempts).toBeGreaterThanOrEqual(3);
    expect(await query(server.url, 'SELECT answer FROM kept')).toEqual([42]);
  });
});

describe('a server whose process ends', () => {
  test('stops within seconds of a SIGKILL, and a throwaway folder goes with it', async () => {
    const child = startInChild({ throwaway: true });
    const { pid, dataDir } = await child.ready;
    await kill(child);
    await untilGone(pid);
    await vi.waitFor(() => expect(fs.existsSync(dirname(dataDir))).toBe(false), soon);
  });

  test('does not keep that process alive, and stops after it', async () => {
    const child = startInChild({ dataDir: await usedDataDir() }, '');
    const ended = once(child.process, 'exit');
    const { pid, dataDir } = await child.ready;
    expect(await ended).toEqual([0, null]);
    await untilGone(pid);
    expect(fs.readFileSync(`${dataDir}.log`, 'utf8')).toMatch(/database system is shut down\s*$/);
  });

  test('does not stop at a signal that a terminal would send to all', async () => {
    const dataDir = await usedDataDir();
    const server = await start({ dataDir });
    const supervisor = stateOf(dataDir).supervisor!.pid;
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.kill(supervisor, signal);
    expect(await query(server.url, 'SELECT 1')).toEqual([1]);
    expect(isRunning(supervisor)).toBe(true);
  });
});

describe('a data directory that was used before', () => {
  test('is shared while another process of ours runs it', async () => {
    const child = startInChild({ dataDir: await usedDataDir() });
    const owner = await child.ready;
    const server = await start({ dataDir: owner.dataDir });
    expect(server).toMatchObject({ ...owner, adopted: true });
    await expect(server.restart()).rejects.toMatchObject({ code: 'adopted' });
    await server.stop();
    expect(await query(owner.url, 'SELECT 1')).toEqual([1]);

    // Its owner dies: whoever starts next waits for the shutdown and runs it himself.
    await kill(child);
    const next = await start({ dataDir: owner.dataDir });
    expect(next.adopted).toBe(false);
    expect(await query(next.url, 'SELECT 1')).toEqual([1]);
  });

  test('is freed from a server whose supervisor was killed', async () => {
    const child = startInChild({ dataDir: await usedDataDir() });
    const { url, pid, dataDir } = await child.ready;
    await query(url, 'CREATE TABLE kept AS SELECT 42 AS answer');
    const supervisor = stateOf(dataDir).supervisor!.pid;
    process.kill(supervisor, 'SIGKILL');
    // Collected by its parent, too: what watches over the server takes a zombie for a supervisor, and would stop the server.
    await vi.waitFor(() => expect(() => process.kill(supervisor, 0)).toThrow('ESRCH'), soon);
    await kill(child);
    expect(isRunning(pid)).toBe(true);

    const progress: string[] = [];
    const server = await start({ dataDir, onProgress: (message) => progress.push(message) });
    expect(server.adopted).toBe(false);
    expect(isRunning(pid)).toBe(false);
    expect(progress[0]).toContain(`lost its supervisor (pid ${pid})`);
    expect(await query(server.url, 'SELECT answer FROM kept')).toEqual([42]);
  });

  test('is stopped by its own process too if the supervisor was killed', async () => {
    const dataDir = await usedDataDir();
    const server = await start({ dataDir });
    process.kill(stateOf(dataDir).supervisor!.pid, 'SIGKILL');
    await server.stop();
    expect(isRunning(server.pid)).toBe(false);
  });

  test('starts in spite of a stale lock file, and leaves its process id’s new owner alone', async () => {
    const dataDir = await usedDataDir();
    const { uid, gid } = serverAccount();
    const bystander = spawn('sleep', ['600'], { cwd: '/', ...(isRoot ? { uid, gid } : {}) });
    children.push(bystander);
    await once(bystander, 'spawn');
    const lines = [bystander.pid, dataDir, 1, 54321, '', '127.0.0.1', '1 1', 'ready', ''];
    fs.writeFileSync(join(dataDir, 'postmaster.pid'), lines.join('\n'));

    const server = await start({ dataDir });
    expect(await query(server.url, 'SELECT 1')).toEqual([1]);
    expect(bystander.exitCode ?? bystander.signalCode).toBe(null);
  });

  test('is initialised anew if its first initialisation was interrupted', async () => {
    const dataDir = newDataDir();
    const child = startInChild({ dataDir });
    await vi.waitFor(() => expect(fs.readdirSync(dataDir)).toContain('PG_VERSION'), {
      ...soon,
      interval: 2,
    });
    await kill(child);
    expect(stateOf(dataDir).phase).toBe('initialising');

    const server = await start({ dataDir });
    expect(await query(server.url, 'SELECT 1')).toEqual([1]);
    expect(stateOf(dataDir).phase).toBe('ready');
  });

  test('is started once by two processes that come at the same time', async () => {
    const dataDir = newDataDir();
    const both = [startInChild({ dataDir }), startInChild({ dataDir })];
    const [one, other] = await Promise.all(both.map(({ ready }) => ready));
    expect(one!.url).toBe(other!.url);
    expect([one!.adopted, other!.adopted].sort()).toEqual([false, true]);
  });
});

describe('what stands in the way', () => {
  test('a folder of someone else is refused and left as it is', async () => {
    const dataDir = newDataDir();
    fs.mkdirSync(dataDir, { recursive: true });
    fs.writeFileSync(join(dataDir, 'thesis.txt'), 'ten years of work');
    await expect(startEmbedded({ dataDir })).rejects.toMatchObject({ code: 'foreign_folder' });

    // Not even if our own initialisation of that folder had once been interrupted.
    const state: State = { phase: 'initialising', password: '' };
    fs.writeFileSync(`${dataDir}.state.json`, JSON.stringify(state));
    await expect(startEmbedded({ dataDir })).rejects.toMatchObject({ code: 'foreign_folder' });
    expect(fs.readdirSync(dataDir)).toEqual(['thesis.txt']);
    expect(fs.readFileSync(join(dataDir, 'thesis.txt'), 'utf8')).toBe('ten years of work');
  });

  test('a PostgreSQL database that is not ours is refused and left as it is', async () => {
    const dataDir = await usedDataDir();
    fs.rmSync(`${dataDir}.state.json`);
    const before = fs.readdirSync(dataDir);
    await expect(startEmbedded({ dataDir })).rejects.toMatchObject({ code: 'foreign_folder' });
    expect(fs.readdirSync(dataDir)).toEqual(before);
  });

  test('data of another major version is refused and left as it is', async () => {
    const dataDir = newDataDir();
    fs.mkdirSync(dataDir, { recursive: true });
    fs.writeFileSync(join(dataDir, 'PG_VERSION'), '15\n');
    const refusal = expect(startEmbedded({ dataDir })).rejects;
    await refusal.toMatchObject({
      code: 'other_version',
      message: expect.stringMatching(/PostgreSQL 15.*PostgreSQL 18/),
    });
    expect(fs.readdirSync(dataDir)).toEqual(['PG_VERSION']);
  });

  test('a server that cannot start says why, in its own words', async () => {
    const settings = { shared_buffers: 'plenty' };
    await expect(startEmbedded({ dataDir: await usedDataDir(), settings })).rejects.toMatchObject({
      code: 'start_failed',
      message: expect.stringContaining('invalid value for parameter "shared_buffers": "plenty"'),
    });
  });

  test('missing binaries are named, with both ways out', async () => {
    const dataDir = newDataDir();
    const binariesDir = join(folder, 'nothing');
    const platform = `${process.platform}-${process.arch}`;
    await expect(startEmbedded({ dataDir, binariesDir })).rejects.toMatchObject({
      code: 'binaries_missing',
      message: expect.stringMatching(
        new RegExp(`${platform}.*Nothing was started.*npm install --save-dev.*DATABASE_URL`),
      ),
    });
    expect(fs.existsSync(dirname(dataDir))).toBe(false);
  });
});

test('root can start a server from a folder that only root can enter', async (context) => {
  if (!isRoot) {
    console.warn(
      'SKIPPED: a project in a folder that only root can enter. Run as root to test it.',
    );
    return context.skip('needs root');
  }
  const closed = join(folder, 'closed');
  fs.mkdirSync(closed, { mode: 0o700 });
  const binariesDir = join(closed, 'native');
  fs.cpSync(findInstalled(), binariesDir, { recursive: true, verbatimSymlinks: true });
  // As if the package's install script had not run; and unlike any other copy on this machine.
  for (const name of fs.readdirSync(join(binariesDir, 'lib'))) {
    const path = join(binariesDir, 'lib', name);
    if (fs.lstatSync(path).isSymbolicLink()) fs.rmSync(path);
  }
  fs.appendFileSync(join(binariesDir, 'bin', 'postgres'), folder);

  const dataDir = join(closed, '.holdfast', 'postgres');
  const first = await start({ dataDir, binariesDir });
  const program = fs.readlinkSync(`/proc/${first.pid}/exe`);
  const relocated = dirname(first.dataDir);
  onTestFinished(() => {
    fs.rmSync(dirname(dirname(program)), { recursive: true, force: true });
    fs.rmSync(relocated, { recursive: true, force: true });
  });
  expect(program).toMatch(/^\/var\/tmp\/holdfast-postgres-/);
  expect(fs.statSync(relocated)).toMatchObject({ uid: serverAccount().uid, mode: 0o40700 });
  expect(fs.readFileSync(`${dataDir}.location.txt`, 'utf8')).toContain(first.dataDir);
  await query(first.url, 'CREATE TABLE kept AS SELECT 42 AS answer');
  await first.stop();

  const second = await start({ dataDir, binariesDir });
  expect(second.dataDir).toBe(first.dataDir);
  expect(await query(second.url, 'SELECT answer FROM kept')).toEqual([42]);
  await second.stop();
});
