// `node bench/weight.mjs`: what the core weighs, beside graphile-worker and pg-boss: packed, installed without pg, and the time
// of a process that imports it, that makes a worker, and of `--help`. The packages are installed as users install them; the
// processes run one after the other, in turn, on the Node that the peers need. Build first: npm run build.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ensurePeers, nodeBinary } from './install.mjs';
import { median } from './statistics.mjs';

const ROUNDS = 15;
const ROOT = fileURLToPath(new URL('..', import.meta.url));
const PEERS = fileURLToPath(new URL('.', import.meta.url));

function run(command, args, cwd) {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, encoding: 'utf8' });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')} failed: ${stderr}`);
  return stdout;
}

function sizeOf(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0);
}

/** What npm installs of it into an empty folder, without pg and what pg brings. */
function installed(folder, what) {
  writeFileSync(join(folder, 'package.json'), '{}');
  const quiet = ['--no-audit', '--no-fund', '--loglevel=error', '--ignore-scripts'];
  run('npm', ['install', ...quiet, what], folder);
  const modules = join(folder, 'node_modules');
  const bytes = sizeOf(modules);
  const pg = /^(pg|pg-.*|pgpass|postgres-.*|split2|xtend)$/;
  const others = readdirSync(modules).filter((name) => pg.test(name));
  return bytes - others.reduce((sum, name) => sum + sizeOf(join(modules, name)), 0);
}

function msOf(cwd, args) {
  const from = performance.now();
  run(nodeBinary, args, cwd);
  return performance.now() - from;
}

ensurePeers();
const folder = mkdtempSync(join(tmpdir(), 'holdfast-weight-'));
let short = 0;
const say = (what, text, goal, met) => {
  if (!met) short++;
  console.log(`${what.padEnd(34)} ${text.padEnd(44)} ${goal.padEnd(22)} ${met ? 'met' : 'SHORT'}`);
};
try {
  const pack = [
    'pack',
    '--json',
    '--ignore-scripts',
    '-w',
    'holdfast',
    '--pack-destination',
    folder,
  ];
  const [{ filename, size }] = JSON.parse(run('npm', pack, ROOT));
  say('packed', `${(size / 1_000).toFixed(0)} kB`, 'at most 450 kB', size <= 450_000);
  const bytes = installed(folder, join(folder, filename));
  const mb = (bytes / 1e6).toFixed(2);
  say('installed, without pg', `${mb} MB`, 'at most 2.5 MB', bytes <= 2_500_000);
  const script = (code) => ['--input-type=module', '--eval', code];
  const cases = {
    nothing: [folder, script('')],
    holdfast: [folder, script("await import('holdfast')")],
    'graphile-worker': [PEERS, script("await import('graphile-worker')")],
    'pg-boss': [PEERS, script("await import('pg-boss')")],
    'a worker': [
      folder,
      script(
        "const { holdfast, job } = await import('holdfast'); holdfast({ connectionString: 'postgres://localhost/x' }).worker().handle(job('x'), () => {});",
      ),
    ],
    '--help': [folder, ['node_modules/holdfast/dist/cli.js', '--help']],
  };
  const times = Object.fromEntries(Object.keys(cases).map((name) => [name, []]));
  for (let round = 0; round < ROUNDS; round++)
    for (const [name, [cwd, args]] of Object.entries(cases)) times[name].push(msOf(cwd, args));
  const ms = Object.fromEntries(Object.entries(times).map(([name, list]) => [name, median(list)]));
  const own = (name) => ms[name] - ms.nothing;
  for (const [name, value] of Object.entries(ms))
    console.log(
      `  ${name.padEnd(16)} ${value.toFixed(0)} ms, ${own(name).toFixed(0)} of them its own`,
    );
  const peer = own('graphile-worker');
  const ratio = (name) => own(name) / peer;
  const beside = (name) => `${ratio(name).toFixed(2)} times graphile-worker`;
  say("import 'holdfast'", beside('holdfast'), 'at most 1.0 times', ratio('holdfast') <= 1);
  say('with a worker made', beside('a worker'), 'at most 1.3 times', ratio('a worker') <= 1.3);
  say('--help', `${ms['--help'].toFixed(0)} ms`, 'at most 200 ms', ms['--help'] <= 200);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
process.exitCode = short > 0 ? 1 : 0;
