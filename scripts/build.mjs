// Makes dist: the ES modules and their types by tsc, the program of the keeper's thread and the dashboard's client
// as texts, the files of the lab's Postgres, and beside them the same package as CommonJS (dist/cjs) for whoever cannot load ES modules with require: Jest, and
// TypeScript that compiles to CommonJS.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';
import { writeClientFiles } from './client.mjs';
import { onLog, writeKeeperSource } from './keeper-source.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const dist = join(root, 'dist');
const cjs = join(dist, 'cjs');
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

/** The entry points, as paths in dist without their ends. */
const entries = Object.values(manifest.exports)
  .map((entry) => entry.default?.default)
  .filter(Boolean)
  .map((path) => relative('dist', path).replace(/\.js$/, ''));

function compile() {
  const tsc = join(root, 'node_modules/typescript/bin/tsc');
  const args = [tsc, '-p', join(root, 'tsconfig.build.json')];
  const { status } = spawnSync(process.execPath, args, { cwd: root, stdio: ['ignore', 2, 2] });
  if (status !== 0) process.exit(status ?? 1);
}

/**
 * For users without @types/pg what comes from `pg` is `any` instead of an error. A namespace is imported the
 * same way in both module formats, with esModuleInterop and without.
 */
function freeTypesOfPg() {
  const line = /^import (?:type )?pg from 'pg';$/m;
  for (const name of readdirSync(dist, { recursive: true }).map(String)) {
    if (!name.endsWith('.d.ts')) continue;
    const text = readFileSync(join(dist, name), 'utf8');
    const free = text.replace(line, "// @ts-ignore\nimport type * as pg from 'pg';");
    if (free !== text) writeFileSync(join(dist, name), free);
  }
}

/** The demo starts this one several times. */
const DEMO_WORKER = 'demo/fleet/worker';

async function bundleCommonJs() {
  const outside = Object.keys({ ...manifest.dependencies, ...manifest.peerDependencies });
  const bundle = await rolldown({
    input: Object.fromEntries(
      [...entries, DEMO_WORKER].map((name) => [name, join(dist, `${name}.js`)]),
    ),
    platform: 'node',
    external: outside.map((name) => new RegExp(`^${name}($|/)`)),
    onLog,
  });
  await bundle.write({
    dir: cjs,
    format: 'cjs',
    exports: 'named',
    entryFileNames: '[name].js',
    chunkFileNames: 'shared/[name].js',
  });
  await bundle.close();
  writeFileSync(join(cjs, 'package.json'), '{ "type": "commonjs" }\n');
}

/** The declarations of the entry points and all that they import, once more as those of CommonJS. */
function copyTypes() {
  const found = new Set(entries.map((name) => join(dist, `${name}.d.ts`)));
  for (const file of found) {
    const text = readFileSync(file, 'utf8');
    for (const [, path] of text.matchAll(/['"](\.{1,2}\/[^'"]+)\.js['"]/g)) {
      const target = `${resolve(dirname(file), path)}.d.ts`;
      if (existsSync(target)) found.add(target);
    }
    const copy = join(cjs, relative(dist, file));
    mkdirSync(dirname(copy), { recursive: true });
    writeFileSync(copy, text);
  }
}

/** Beside the rest: it takes seconds, and needs nothing of dist. */
function makeLabData() {
  const script = join(root, 'scripts/lab-data.mjs');
  // V8 does not earn back what it would optimize of initdb: half of the time.
  const args = ['--liftoff-only', script];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 2, 2] });
  return new Promise((resolve) => child.once('exit', (status) => resolve(status === 0)));
}

const labData = makeLabData();
compile();
freeTypesOfPg();
await writeKeeperSource(dist);
await writeClientFiles(dist);
await bundleCommonJs();
copyTypes();
if (!(await labData)) process.exit(1);
