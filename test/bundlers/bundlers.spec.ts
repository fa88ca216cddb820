/** Workers bundled into one file, without node_modules beside it, and under other runtimes: they keep their leases. */
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { testDatabase } from '../support/database.js';
import { keepsItsLease, PLAIN_WORKER, PlainWorker } from '../support/plain-worker.js';

const TOOLS = fileURLToPath(new URL('../../.bundlers', import.meta.url));
const WORKER = join(TOOLS, 'worker.mjs');
const db = testDatabase();

beforeAll(() => copyFileSync(PLAIN_WORKER, WORKER));

/** `pg` is CommonJS: an ES module that contains it needs a require, says every bundler's manual. */
const BANNER =
  "import { createRequire as makeRequire } from 'node:module'; const require = makeRequire(import.meta.url);";

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-bundlers-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

function run(command: string, args: readonly string[]): void {
  const bin = join(TOOLS, 'node_modules/.bin', command);
  const { status, stdout, stderr } = spawnSync(bin, args, { cwd: TOOLS, encoding: 'utf8' });
  if (status !== 0) throw new Error(`${command} failed: ${stdout}${stderr}`);
}

/** A configuration file in the folder of the tools, where it finds its plugins. */
function config(name: string, text: string): string {
  const path = join(TOOLS, name);
  writeFileSync(path, text);
  onTestFinished(() => rmSync(path, { force: true }));
  return path;
}

type Build = (format: 'esm' | 'cjs', file: string) => void;

const BUILDS: Record<string, Build> = {
  esbuild: (format, file) => {
    const banner = format === 'esm' ? [`--banner:js=${BANNER}`] : [];
    const args = ['--bundle', '--minify', '--platform=node', `--format=${format}`, ...banner];
    run('esbuild', [WORKER, ...args, `--outfile=${file}`]);
  },
  tsup: (format, file) => {
    const banner = format === 'esm' ? JSON.stringify({ js: BANNER }) : '{}';
    const path = config(
      'tsup.config.mjs',
      `export default {
        entry: { worker: 'worker.mjs' }, format: ['${format}'], outDir: ${JSON.stringify(join(file, '..'))},
        outExtension: () => ({ js: '.${format === 'esm' ? 'mjs' : 'cjs'}' }),
        noExternal: [/.*/], splitting: false, platform: 'node', banner: ${banner},
      };`,
    );
    run('tsup', ['--config', path]);
  },
  rollup: (format, file) => {
    const path = config(
      'rollup.config.mjs',
      `import commonjs from '@rollup/plugin-commonjs';
       import json from '@rollup/plugin-json';
       import resolve from '@rollup/plugin-node-resolve';
       export default {
         input: 'worker.mjs', output: { file: ${JSON.stringify(file)}, format: '${format}', inlineDynamicImports: true },
         plugins: [resolve({ preferBuiltins: true }), commonjs({ ignore: ['pg-native', 'pg-cloudflare'] }), json()],
         onwarn() {},
       };`,
    );
    run('rollup', ['--config', path]);
  },
  webpack: (format, file) => {
    const esm = format === 'esm';
    const path = config(
      'webpack.mjs',
      `import webpack from 'webpack';
       const output = {
         path: ${JSON.stringify(join(file, '..'))}, filename: ${JSON.stringify(file.split('/').at(-1))},
         ${esm ? "module: true, chunkFormat: 'module', library: { type: 'module' }" : ''}
       };
       webpack({
         context: ${JSON.stringify(TOOLS)}, entry: './worker.mjs', target: 'node20', mode: 'production', output,
         ${esm ? 'experiments: { outputModule: true },' : ''}
         externals: { 'pg-native': 'commonjs pg-native' },
       }, (error, stats) => {
         if (error || stats.hasErrors()) { console.error(error ?? stats.toString()); process.exit(1); }
       });`,
    );
    const { status, stderr } = spawnSync(process.execPath, [path], { encoding: 'utf8' });
    if (status !== 0) throw new Error(stderr);
  },
};

describe.each(Object.entries(BUILDS))('bundled by %s', (_, build) => {
  test.each([
    ['esm', 'mjs'],
    ['cjs', 'cjs'],
  ] as const)('into one file of %s', async (format, end) => {
    const folder = newFolder();
    const file = join(folder, `worker.${end}`);
    build(format, file);
    expect(readdirSync(folder)).toEqual([`worker.${end}`]);
    await keepsItsLease(db, new PlainWorker(db.url, [process.execPath, file]));
  });
});

/** The binary of a runtime, wherever its package for this platform has it. */
function runtime(scope: string, name: string): string {
  const folder = join(TOOLS, 'node_modules', scope);
  const [found] = readdirSync(folder, { recursive: true })
    .map(String)
    .filter((path) => path.split('/').at(-1) === name);
  return join(folder, found as string);
}

test('under Bun', async () => {
  await keepsItsLease(db, new PlainWorker(db.url, [runtime('@oven', 'bun'), WORKER]));
});

test('under Deno', async () => {
  await keepsItsLease(db, new PlainWorker(db.url, [runtime('@deno', 'deno'), 'run', '-A', WORKER]));
});
