/**
 * `npm start` as a person or a pipeline runs it: the compiled demo with its real processes. Most
 * tests give it the test run's server, where it makes a database of its own; one starts its
 * embedded server twice.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { afterAll, beforeEach, expect, inject, onTestFinished, test } from 'vitest';
import type { LabAct, LabState } from '../../packages/dashboard/src/index.js';
import { dropDatabase } from '../../packages/testing/src/index.js';
import { hasBrowser } from '../../scripts/chromium.mjs';
import { testBrowser } from '../support/browser.js';
import { long, longTest } from '../support/long.js';
import { until } from '../support/until.js';

const MAIN = fileURLToPath(new URL('../../apps/demo/dist/main.js', import.meta.url));
const DATABASE = 'holdfast_demo';
const LONG = 120_000;
// biome-ignore lint/suspicious/noControlCharactersInRegex: that is what colours are.
const COLOUR = /\u001b\[[0-9;]*m/;
const plain = (text: string) => text.replace(new RegExp(COLOUR, 'g'), '');

/** In full the page is a real one; else it is its requests. */
const BROWSER = long(false, hasBrowser());
const open = testBrowser(BROWSER);
beforeEach(() => dropDatabase(inject('serverUrl'), DATABASE));
afterAll(() => dropDatabase(inject('serverUrl'), DATABASE));

interface Run {
  readonly child: ChildProcess;
  readonly said: { text: string };
  readonly ended: Promise<number | null>;
  /** Waits for a text in what it prints. */
  says(text: string): Promise<void>;
}

function follow(child: ChildProcess): Run {
  const said = { text: '' };
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (chunk) => {
      said.text += chunk;
    });
  }
  let over = false;
  const ended = new Promise<number | null>((resolve) => {
    child.on('close', (code) => {
      over = true;
      resolve(code);
    });
  });
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  const says = async (text: string) => {
    await until(
      `"${text}"`,
      () => {
        const heard = plain(said.text).includes(text);
        if (over && !heard) throw new Error(`it ended with:\n${said.text}`);
        return heard;
      },
      { timeoutMs: LONG },
    );
  };
  return { child, said, ended, says };
}

const onServer = () => ({ PATH: process.env.PATH ?? '', DATABASE_URL: inject('serverUrl') });

function start(args: readonly string[] = [], env: Record<string, string> = onServer()): Run {
  const stdio = ['ignore', 'pipe', 'pipe'] as const;
  return follow(spawn(process.execPath, [MAIN, ...args], { env, stdio: [...stdio] }));
}

function onTestServer(): string {
  const url = new URL(inject('serverUrl'));
  url.pathname = `/${DATABASE}`;
  return url.toString();
}

async function rows<Row extends object>(text: string, url = onTestServer()): Promise<Row[]> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => undefined);
  await client.connect();
  try {
    return (await client.query<Row>(text)).rows;
  } finally {
    await client.end();
  }
}

/** The process ids of the fleet, from the registry. */
async function fleet(): Promise<number[]> {
  const found = await rows<{ pid: number }>(
    `SELECT (metadata ->> 'pid')::integer AS pid FROM holdfast.workers WHERE status = 'alive'`,
  );
  return found.map(({ pid }) => pid);
}

/** Also one that is no dead letter yet. */
function isGone(pid: number): boolean {
  const state = String(spawnSync('ps', ['-o', 'stat=', '-p', String(pid)]).stdout).trim();
  return state === '' || state.startsWith('Z');
}

const allGone = (pids: readonly number[]) =>
  until('every worker process is gone', () => pids.every(isGone), { timeoutMs: LONG });

/** What its page says, by HTTP, and what can be done there. */
function pageOf(run: Run) {
  const address = /http:\/\/[\d.:]+\//.exec(run.said.text)?.[0] as string;
  return {
    address,
    state: async () => (await (await fetch(`${address}api/lab`)).json()) as LabState,
    async act(body: LabAct): Promise<string> {
      const headers = { 'content-type': 'application/json', 'x-holdfast': '1' };
      const init = { method: 'POST', headers, body: JSON.stringify(body) };
      const answer = await fetch(`${address}api/lab/act`, init);
      return `${answer.status} ${await answer.text()}`;
    },
  };
}

longTest(
  `from the page workers are killed, frozen, drained and added, and jobs poison them, and nothing is lost; a job that a vandal deletes makes the run fail, which Ctrl-C drains${long('', ', and the next start does not clear that away')}`,
  async () => {
    const run = start();
    await run.says('the shop is open');
    const { address, state, act } = pageOf(run);
    await until('the lab has figures', async () => ((await state()).accepted ?? 0) > 0);
    // That the buttons of the page act is seen in test/dashboard/browser.test.ts.
    if (BROWSER) {
      const page = await open(`${address}live-lab`);
      await page.getByRole('button', { name: 'Kill -9 worker 1', exact: true }).click();
    } else expect(await act({ act: 'kill', worker: 1 })).toMatch(/^200/);
    await run.says('worker 1 is killed (kill -9)');
    expect(await act({ act: 'freeze', worker: 2 })).toMatch(/^200/);
    expect(await act({ act: 'drain', worker: 2 })).toMatch(/^409.*worker 2 is frozen/);
    expect(await act({ act: 'continue', worker: 2 })).toMatch(/^200/);
    expect(await act({ act: 'kill', worker: 1 })).toMatch(/^409.*no worker 1 any more/);
    expect(await act({ act: 'drain', worker: 3 })).toMatch(/^200/);
    for (const what of ['add', 'hot-key', 'shards', 'poison'] as const)
      expect(await act({ act: what })).toMatch(/^200/);
    expect(await act({ act: 'enqueue', key: 'order:mine' })).toMatch(/^200.*the key order:mine/);
    await run.says('after kill -9');
    await run.says('was killed by what it ran; another one starts');
    // How a poisoned job ends is seen in test/crash/poison.test.ts; here in full only.
    const poisoned = `SELECT FROM holdfast.orders WHERE type = 'poison' AND status = 'dead_letter'`;
    const ended = async () => (await rows(poisoned)).length === 1;
    if (long(false, true))
      await until('the poisoned job is a dead letter', ended, { timeoutMs: LONG });
    expect(await state()).toMatchObject({ lost: 0, doubled: 0, outOfOrder: 0 });
    // It kills nobody while the fleet drains.
    await until('the poisoned job has been deleted by a vandal', async () => {
      const gone = await rows(
        `DELETE FROM holdfast.orders WHERE type = 'poison' AND status <> 'processing' RETURNING id`,
      );
      return gone.length === 1;
    });
    await until('what killed workers held was taken back', async () => {
      const orphans = `SELECT FROM holdfast.orders WHERE status = 'processing'
        AND claimed_by NOT IN (SELECT id FROM holdfast.workers WHERE status = 'alive')`;
      return !(await fleet()).some(isGone) && (await rows(orphans)).length === 0;
    });
    const pids = await fleet();
    const burst = act({ act: 'burst' });
    const seen = await until('the burst is told of', async () => {
      const now = await state();
      return now.events.some(({ text }) => text.includes('orders at once')) ? now : null;
    });
    expect(seen.workers.length).toBeGreaterThan(1);
    // A burst ends with the run; all of it would take seconds.
    run.child.kill('SIGINT');
    expect(await burst).toMatch(/^200/);
    expect(await run.ended).toBe(1);
    expect(run.said.text).toContain('closing: no new orders, and the workers drain');
    expect(pids.every(isGone)).toBe(true);
    expect(await fleet()).toEqual([]);
    const held = `SELECT type, claimed_by, crashes FROM holdfast.orders WHERE status = 'processing'`;
    expect(await rows(held)).toEqual([]);
    // What waits is no loss.
    expect(run.said.text).toMatch(/lost +1\n/);
    expect(run.said.text).toContain('THE PROOF FAILED');
    // The password of somebody's server is not printed.
    expect(run.said.text).not.toContain(new URL(inject('serverUrl')).password || 'no password');

    // What a start keeps of an earlier run is seen in leftovers.test.ts; in full a whole fleet starts again.
    if (!long(false, true)) return;
    const next = start(['--for', '1s']);
    expect(await next.ended).toBe(1);
    expect(next.said.text).toContain('left what the proof does not accept');
  },
  LONG,
);

// The others are refused in apps/demo/src/usage.test.ts.
test('an option that it does not know is wrong usage: exit code 2, and nothing is started', async () => {
  const run = start(['--fro', '20s']);
  expect(await run.ended).toBe(2);
  expect(run.said.text).toContain('--fro');
  expect(run.said.text).toContain('Usage: npm start');
  expect(run.said.text).not.toContain('holdfast demo:');
});

test('--help explains and starts nothing', async () => {
  const run = start(['--help']);
  expect(await run.ended).toBe(0);
  expect(run.said.text).toContain('--for TIME');
});

test('a server that cannot be reached is said in one line, with exit code 1', async () => {
  const run = start([], { ...onServer(), DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none' });
  expect(await run.ended).toBe(1);
  expect(run.said.text).toContain('The demo cannot go on: connect ECONNREFUSED');
});

/** How to reach the embedded server whose folder this is. */
function embeddedState(folder: string): { port: number; password: string } {
  return JSON.parse(readFileSync(join(folder, '.holdfast', 'postgres.state.json'), 'utf8'));
}

function embeddedUrl(folder: string): string {
  const { port, password } = embeddedState(folder);
  return `postgres://postgres:${password}@127.0.0.1:${port}/${DATABASE}`;
}

/** The process ids of the fleet, from the system. */
function childrenOf({ child }: Run): number[] {
  const { stdout } = spawnSync('pgrep', ['-P', String(child.pid), 'node']);
  return String(stdout).trim().split('\n').map(Number);
}

test(
  'when the demo is killed no worker stays, not even a frozen one; a second start cleans up, goes on with its jobs, moves off a taken port, kills a worker, recovers, and ends by itself with the proof',
  async () => {
    const cwd = mkdtempSync(join(tmpdir(), 'holdfast-demo-'));
    onTestFinished(() => rmSync(cwd, { recursive: true, force: true, maxRetries: 5 }));
    const env = { PATH: process.env.PATH ?? '' };
    const embedded = (args: readonly string[]) =>
      follow(
        spawn(process.execPath, [MAIN, ...args], { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] }),
      );

    const first = embedded([]);
    await first.says('the shop is open');
    await until('something was ordered', async () => {
      return (await rows('SELECT FROM shop.orders LIMIT 1', embeddedUrl(cwd))).length === 1;
    });
    const pids = childrenOf(first);
    expect(pids).toHaveLength(4);
    expect(await pageOf(first).act({ act: 'freeze', worker: 2 })).toMatch(/^200/);
    first.child.kill('SIGKILL');
    await first.ended;
    await allGone(pids);

    const { port } = embeddedState(cwd);
    const squatter = net.createServer();
    onTestFinished(() => void squatter.close());
    await until('the port of the first server is taken', async () => {
      squatter.once('error', () => undefined);
      squatter.listen(port, '127.0.0.1');
      await new Promise((resolve) => setImmediate(resolve));
      return squatter.listening;
    });
    const second = embedded(['--for', '15s']);
    await second.says('the shop is open');
    const others = childrenOf(second);
    expect(others).toHaveLength(4);
    const { address } = pageOf(second);
    const page = await (await fetch(address)).text();
    const events = (await fetch(`${address}api/events`)).body!.getReader();
    let seenLive = '';
    while (!seenLive.includes('event: ')) seenLive += Buffer.from((await events.read()).value!);
    await events.cancel();
    // It kills one and starts another in its place.
    others.push(...childrenOf(second));
    expect(await second.ended, second.said.text).toBe(0);
    await allGone(others);

    const { text } = second.said;
    expect(page).toContain('<title>Holdfast</title>');
    expect(seenLive).toMatch(/event: snapshot/);
    expect(text).toMatch(/^dashboard {2}http:\/\/127\.0\.0\.1:\d+\/\n/);
    expect(text).toMatch(/worker \d is killed \(kill -9\)/);
    expect(text).toMatch(/went to others \d+\.\d s after kill -9/);
    expect(text).toMatch(/accepted +[\d,]+ jobs of [\d,]+ orders/);
    expect(text).toMatch(/lost +0\n/);
    expect(text).toMatch(/doubled effects +0\n/);
    expect(text).toMatch(/out of order +0\n/);
    expect(text).toMatch(/payouts +[1-9]\d*, at most [12] at once\n/);
    expect(text).toMatch(/reports +[1-9]\d* of \d merchants?, [12] of one at once\n/);
    expect(text).toMatch(/partner told +[1-9]\d* times/);
    expect(text).toMatch(/products +indexed [1-9]\d* times, debounced\n/);
    expect(text).toMatch(/sales booked +[1-9]\d*, in \d+ batches\n/);
    expect(text).toMatch(/checkouts +[1-9]\d*: [1-9]\d* completed, [1-9]\d* undone\n/);
    expect(text).toMatch(/charges +[1-9]\d*, and \d+ requests that came twice\n/);
    expect(text).toMatch(/approvals +[1-9]\d* taken, \d+ never given\n/);
    expect(text).toMatch(/events +[1-9]\d* published in order, \d+ came twice\n/);
    expect(text).toMatch(/webhooks +[1-9]\d* delivered and signed, \d+ came twice\n/);
    expect(text).toMatch(/sales +[\d,.]+ of 8 customers, as SQL says\n/);
    expect(text).toMatch(/recoveries +1\n +killed +1, after \d+\.\d s\n/);
    expect(text).toContain('Nothing was lost');
    expect(text).toMatch(/an earlier run left [\d,]+ orders: 0 lost, 0 doubled/);
    // No colour and nothing to draw over where there is no terminal; and it fits on a small one.
    expect(text).not.toContain('\u001b');
    const wide = text.split('\n').filter((line) => line.length > 80 && !line.includes('psql'));
    expect(wide).toEqual([]);
    expect(embeddedState(cwd).port).not.toBe(port);
  },
  LONG,
);

/** In a terminal of its own, made by util-linux's script. */
function inTerminal(): Run {
  const command = `stty cols 80 rows 24; exec '${process.execPath}' '${MAIN}'`;
  return follow(
    spawn('script', ['-qefc', command, '/dev/null'], {
      env: { ...onServer(), TERM: 'xterm' },
    }),
  );
}

/** In short its kills are those of the page, and of the start that ends by itself. */
const KILLS = long(false, true);

longTest('on a terminal the figures stay in place, and keys act on the fleet', async () => {
  const run = inTerminal();
  await run.says('q quit');
  const pids = await fleet();
  const press = (key: string) => run.child.stdin?.write(key);
  press('d');
  await run.says('has drained and left');
  press('a');
  await run.says('worker 5 has joined');
  // One that is killed before its first heartbeat counts as starting for a minute.
  if (KILLS)
    await until('its start is over', async () => {
      const starting = `SELECT FROM holdfast.workers WHERE status = 'alive' AND last_seen_at <= started_at`;
      return (await rows(starting)).length === 0;
    });
  press('h');
  await run.says('has 100 parcels');
  press('f');
  await run.says('is frozen for 15 s');
  press('c');
  await run.says('is cut off from the database');
  if (KILLS) {
    press('k');
    await run.says('is killed (kill -9)');
    await run.says('after kill -9');
  }
  press('b');
  await run.says('1,000 orders at once');
  press('\u0003');
  expect(await run.ended).toBe(0);
  await allGone(pids);
  expect(run.said.text).toContain('\u001b[J');
  expect(run.said.text).toMatch(COLOUR);
  if (KILLS) expect(run.said.text).toMatch(/ killed +1, after \d/);
  expect(run.said.text).toContain('Nothing was lost');
});
