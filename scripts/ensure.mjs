// Installs and builds what is missing, and says so. Runs on a fresh clone with nothing but Node and npm.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { takeLock } from './build/lock.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const [major, minor] = process.versions.node.split('.').map(Number);
if (major < 20 || (major === 20 && minor < 20) || major === 21 || (major === 22 && minor < 12)) {
  console.error(
    `Holdfast needs Node 20.20, or 22.12 or later; this is ${process.version}. Nothing was done.`,
  );
  process.exit(1);
}

function run(what, command, args) {
  console.error(`holdfast: ${what} …`);
  const started = Date.now();
  const result = spawnSync(command, args, {
    cwd: root,
    stdio: ['ignore', 2, 2],
    shell: process.platform === 'win32',
  });
  if (result.status !== 0) {
    console.error(`holdfast: ${what} failed (${command} ${args.join(' ')}).`);
    process.exit(result.status ?? 1);
  }
  console.error(`holdfast: ${what}: done in ${((Date.now() - started) / 1000).toFixed(1)} s`);
}

/** A digest of files: installs and builds happen again when what they came from has changed. */
function digest(paths) {
  const hash = createHash('sha256');
  for (const path of paths) hash.update(path).update(readFileSync(join(root, path)));
  return hash.digest('hex');
}

function sources(folder) {
  return readdirSync(join(root, folder), { withFileTypes: true, recursive: true })
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name).slice(root.length))
    .filter((path) => /\.(tsx?|css|svg|html|json)$/.test(path) && !path.endsWith('.test.ts'))
    .filter((path) => !/[\\/](dist|build|node_modules|templates)[\\/]/.test(path))
    .sort();
}

function stale(stamp, wanted) {
  const path = join(root, stamp);
  return !existsSync(path) || readFileSync(path, 'utf8') !== wanted;
}

const asked = process.argv.includes('--build');
const installStamp = 'node_modules/.holdfast-install';
const installed = () => digest(['package-lock.json']);
// Somebody may have pruned the packages of development since.
const lacksPackages = () =>
  stale(installStamp, installed()) || !existsSync(join(root, 'node_modules/rolldown'));

function install() {
  // Not `npm ci`: it refuses a lockfile that lacks the optional packages of other platforms, and a
  // registry mirror may not carry those. `--no-save` keeps the lockfile as it was committed.
  rmSync(join(root, installStamp), { force: true });
  // Also where NODE_ENV is production: the build and the tests need them.
  const args = ['install', '--include=dev', '--no-save', '--no-audit', '--no-fund'];
  run('installing packages', 'npm', args);
  writeFileSync(join(root, installStamp), installed());
}

const built = () =>
  digest([
    'package-lock.json',
    'tsconfig.json',
    'scripts/build.mjs',
    'scripts/build/bundles.mjs',
    'scripts/build/commonjs.mjs',
    'scripts/build/types.mjs',
    'scripts/root.mjs',
    'scripts/client.mjs',
    'scripts/keeper-source.mjs',
    'scripts/lab-data.mjs',
    'scripts/lab-files.mjs',
    ...sources('packages'),
    ...sources('apps'),
  ]);
/** What the build makes. */
const MADE = [
  'packages/holdfast/build',
  'packages/holdfast/dist',
  'packages/testing/dist',
  'packages/embedded/dist',
  'packages/nest/dist',
  'packages/dashboard/dist',
  'apps/demo/dist',
];
const buildStamp = 'node_modules/.holdfast-build';
const lacksBuild = () =>
  !MADE.every((made) => existsSync(join(root, made))) || stale(buildStamp, built());

function build() {
  // Only a build that was asked for starts from nothing: others may be running from dist just now.
  if (asked) for (const made of MADE) rmSync(join(root, made), { recursive: true, force: true });
  rmSync(join(root, buildStamp), { force: true });
  // What is edited meanwhile is built the next time.
  const from = built();
  run('building', process.execPath, [join('scripts', 'build.mjs')]);
  writeFileSync(join(root, buildStamp), from);
}

// Whoever builds has removed the stamp, so nobody goes on with half a build.
if (asked || lacksPackages() || lacksBuild()) {
  const release = takeLock(join(root, '.holdfast/build.lock'), (text) =>
    console.error(`holdfast: ${text}`),
  );
  // Another may have done it while this one waited.
  if (lacksPackages()) install();
  if (asked || lacksBuild()) build();
  release();
}
