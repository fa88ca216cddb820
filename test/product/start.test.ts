/**
 * docs/start.md, typed word for word in an empty folder: from the packed package to a job inside a transaction. Only
 * the folders are other ones, and the ids are those that came back. What the page shows under a command is what the
 * command says, but for times, ids and names.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Block, documentationBlocks } from '../support/doc-blocks.js';
import { long } from '../support/long.js';
import { type Registry, startRegistry } from '../support/registry.js';
import { until } from '../support/until.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const blocks = documentationBlocks(ROOT).filter(({ page }) => page === 'docs/start.md');
const SOURCES = [
  'package-lock.json',
  'scripts',
  'tsconfig.json',
  'apps',
  'packages',
  'package.json',
];
const MANIFESTS = ['holdfast', 'testing', 'embedded', 'dashboard', 'lab'].flatMap((name) =>
  ['package.json', 'README.md', 'LICENSE', 'dist', 'jest-preset.cjs'].map(
    (file) => `packages/${name}/${file}`,
  ),
);
/**
 * In full the package is built here, too. Else it is what was built for these tests, and of that only what runs: to
 * pack and to unpack the rest takes seconds of processor time, and test/product/package.test.ts sees what is packed.
 */
const CHECKOUT = long(
  [
    'package.json',
    'apps/demo/package.json',
    ...MANIFESTS.filter((path) => existsSync(join(ROOT, path))),
  ],
  SOURCES,
);
const runs = (path: string) => !/\.d\.ts$|\/dist\/(cjs|jest)\b|\/lab\.data$/.test(path);
const filter = long(runs, () => true);

/** Half a gigabyte is written and deleted. */
const HOOK_MS = 300_000;

let registry: Registry;
let folder: string;
const children: ChildProcess[] = [];

beforeAll(async () => {
  registry = await startRegistry(join(ROOT, 'node_modules'));
  folder = mkdtempSync(join(tmpdir(), 'holdfast-start-'));
  // As root, the embedded server runs under another account, which must get through.
  chmodSync(folder, 0o755);
  for (const name of CHECKOUT) {
    cpSync(join(ROOT, name), join(folder, 'holdfast', name), { recursive: true, filter });
  }
  // The settings of whoever runs this test are not read: npm may have something to say of them.
  const npmrc = [`registry=${registry.url}`, `cache=${join(folder, 'cache')}`];
  writeFileSync(
    join(folder, 'npmrc'),
    [...npmrc, 'audit=false', 'update-notifier=false', ...long(['ignore-scripts=true'], [])].join(
      '\n',
    ),
  );
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'holdfast', 'node_modules'));
}, HOOK_MS);

afterAll(async () => {
  for (const { pid } of children) endGroup(pid as number);
  await registry?.close();
  await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
}, HOOK_MS);

/** What npx has started would outlive it. */
function endGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // Nobody is left.
  }
}

/** What a person has in front of him: a shell, or a program that runs until it is stopped. */
class Terminal {
  readonly child: ChildProcess;
  seen = '';

  constructor(command: string, args: readonly string[], more: NodeJS.ProcessEnv, cwd = folder) {
    const { PATH = '', HOME = '' } = process.env;
    const env = { PATH, HOME, npm_config_userconfig: join(folder, 'npmrc'), ...more };
    this.child = spawn(command, args, { cwd, env, detached: true });
    children.push(this.child);
    for (const stream of [this.child.stdout, this.child.stderr]) {
      stream?.setEncoding('utf8').on('data', (text) => {
        this.seen += text;
      });
    }
  }

  /** Types it in a shell, and returns what was said. */
  async type(text: string): Promise<string> {
    this.seen = '';
    const mark = `typed-${Math.random()}`;
    // On both: what one of them says may come after what the other said later.
    this.child.stdin?.write(
      `${text}\nended=$?; echo "${mark} $ended"; echo "${mark} $ended" >&2\n`,
    );
    const [, status] = await this.says(new RegExp(`${mark} (\\d+)\n[^]*${mark}`));
    const said = this.seen.replace(new RegExp(`${mark} \\d+\n?`, 'g'), '');
    if (status !== '0') throw new Error(`${text}\nfailed with ${status}:\n${said}`);
    return said;
  }

  says(what: RegExp): Promise<RegExpExecArray> {
    const ask = () => {
      const found = what.exec(this.seen);
      if (!found && this.child.exitCode !== null) throw new Error(`it ended before ${what}`);
      return found;
    };
    return until(String(what), ask, { timeoutMs: 300_000 }).catch((error) => {
      throw new Error(`${error.message}; it says:\n${this.seen}`);
    });
  }

  /** Resolves when nothing that was started in it is left to say anything. */
  async stop(signal: NodeJS.Signals): Promise<void> {
    const closed = new Promise((resolve) => this.child.once('close', resolve));
    this.child.kill(signal);
    await closed;
  }
}

/** A line of the log goes to a terminal in one form and to a pipe, as here, in another: what both name. */
function fromTerminal(_: string, level: string, message: string, facts: string): string {
  const names = [...facts.matchAll(/ {2}(\w+)=/g)].map(([, name]) => name);
  return [level, message, ...names].join(' ');
}

function fromJson(line: string): string {
  const { level, msg, time: _, component: __, ...facts } = JSON.parse(line);
  return [level, msg, ...Object.keys(facts).filter((name) => facts[name] !== null)].join(' ');
}

/** Without what differs from run to run. */
function plain(text: string): string[] {
  return text
    .replace(/^\{"level".*$/gm, fromJson)
    .replace(/^[\d:]{8} (\w+) +(.*?)((?: {2}\w+=.*)+)$/gm, fromTerminal)
    .replace(/[0-9a-f]{8}-[0-9a-f-]{27}/g, 'ID')
    .replace(/\d{4}-\d\d-\d\d[T ][\d:.]+Z/g, 'TIME')
    .replace(/\b[\w.-]+-\d+-[0-9a-f]{6}\b/g, 'WORKER')
    .replace(/\b\d+(\.\d+)? m?s\b/g, 'AGO')
    .split('\n')
    .map((line) => line.trim().replace(/ +/g, ' '))
    .filter((line) => line !== '');
}

/** The blocks of a section, in order; each is taken once. */
function section(number: number) {
  const all = blocks.filter((block) => block.section.startsWith(`${number}. `));
  return (info: string): string => {
    const index = all.findIndex((block) => block.info === info);
    if (index < 0) throw new Error(`section ${number} has no further block of ${info}`);
    return (all.splice(index, 1)[0] as Block).code;
  };
}

test('every command works as it stands, and says what the page shows', async () => {
  const shop = join(folder, 'shop');
  const here = (text: string) =>
    text.replaceAll('/path/to/holdfast', join(folder, 'holdfast')).replaceAll('/tmp/shop', shop);
  const shell = new Terminal('bash', [], {});

  const install = section(1);
  await shell.type('set -e');
  await shell.type(here(install('sh')));

  const database = section(2);
  database('sh');
  await shell.type(here(database('sh')));
  writeFileSync(join(shop, 'db.mjs'), database('ts'));
  const server = new Terminal('node', ['db.mjs'], {}, shop);
  const [, url = ''] = await server.says(/^export DATABASE_URL=(.*)\n/m);
  await shell.type(`export DATABASE_URL=${url}`);

  const handler = section(3);
  expect(plain(await shell.type(handler('sh')))).toEqual(plain(handler('text')));
  // npx takes a second of processor time to find the program; in full it does so each time.
  if (long(true, false)) await shell.type('npx() { ./node_modules/.bin/"$@"; }');
  const tables = section(4);
  expect(plain(await shell.type(tables('sh')))).toEqual(plain(tables('text')));

  const enqueue = section(5);
  const said = await shell.type(enqueue('sh'));
  expect(plain(said)).toEqual(plain(enqueue('text')));
  const mine = (text: string, id: string) => text.replace(/[0-9a-f]{8}-[0-9a-f-]{27}/g, id.trim());
  const asked = mine(enqueue('sh'), said);
  expect(plain(await shell.type(asked))).toEqual(plain(enqueue('text')));

  const work = section(6);
  const [npx = '', ...words] = work('sh').split(' ');
  const startWorker = () => new Terminal(npx, words, { DATABASE_URL: url }, shop);
  let worker = startWorker();
  await worker.says(/attempt 1\)\n/);
  expect(plain(worker.seen)).toEqual(plain(work('text')));
  const explain = asked.split('\n').find((line) => line.includes('explain')) as string;
  const completed = await until('it is completed', async () => {
    const shown = await shell.type(explain);
    return shown.includes('completed') ? shown : null;
  });
  expect(plain(completed)).toEqual(plain(work('text')));

  // Ctrl-C goes to all of the terminal; SIGTERM is what a supervisor sends, to npx alone.
  const restart = async (text: string) => {
    await worker.stop('SIGTERM');
    expect(plain(worker.seen).at(-1)).toMatch(/^info worker stopped /);
    writeFileSync(file, text);
    worker = startWorker();
    await worker.says(/worker started/);
  };
  const file = join(shop, 'jobs/hello.mjs');
  const before = readFileSync(file, 'utf8');
  const fails = section(7);
  await restart(before.replace(/(function sayHello.*\n)/, `$1${fails('text')}\n`));
  const [nobody = '', list = ''] = fails('sh').split('\n');
  await shell.type(nobody);
  await worker.says(/a job became a dead letter/);
  const dead = await until('it is a dead letter', async () => {
    const shown = await shell.type(list);
    return shown.includes('dead_letter') ? shown : null;
  });
  expect(plain(dead)).toEqual(plain(fails('text')));
  await restart(before);
  const [id = ''] = /[0-9a-f]{8}-[0-9a-f-]{27}/.exec(dead) ?? [];
  expect(plain(await shell.type(mine(fails('sh'), id)))).toEqual(plain(fails('text')));
  await worker.says(/Hello, nobody!.*\n/);

  const transaction = section(8);
  writeFileSync(join(shop, 'place-order.mjs'), transaction('ts'));
  const [rollback = '', commit = '', again = ''] = transaction('sh').split('\n');
  expect(plain(await shell.type(rollback))).toEqual(['ID is new']);
  expect(await shell.type('npx holdfast jobs ls')).toContain('No job matches.');
  const placed = await shell.type(commit);
  expect(plain(placed)).toEqual(['ID is new']);
  await worker.says(/Hello, order 9182!/);
  expect(await shell.type(again)).toBe(placed.replace('is new', 'stood already'));

  await worker.stop('SIGTERM');
  await server.stop('SIGINT');
}, 900_000);
