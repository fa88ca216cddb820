// The bundles: the core as a few ES modules, and as CommonJS, with the test kit, for what cannot load ES modules: Jest, and
// TypeScript that compiles to CommonJS. Comments are left out; names and lines stay, for stack traces.
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { rolldown } from 'rolldown';
import { onLog } from '../keeper-source.mjs';
import { copyTypes } from './types.mjs';

/** By the name of the file in dist, its file in build. */
const ENTRIES = {
  index: 'index',
  adapters: 'enqueue/adapters',
  metrics: 'metrics/index',
  config: 'cli/parse/define-config',
  internal: 'internal',
};

/** What a package says that others install. */
function outside(folder) {
  const { dependencies, peerDependencies } = JSON.parse(
    readFileSync(join(folder, 'package.json'), 'utf8'),
  );
  const names = Object.keys({ ...dependencies, ...peerDependencies });
  return [...names, '@holdfast'].map((name) => new RegExp(`^${name}($|/)`));
}

async function write(input, external, output) {
  const bundle = await rolldown({ input, platform: 'node', external, onLog });
  await bundle.write({ comments: { legal: true, annotation: false, jsdoc: false }, ...output });
  await bundle.close();
}

const CJS = { format: 'cjs', exports: 'named', entryFileNames: '[name].js' };

export async function bundleCore(folder) {
  const [build, dist] = [join(folder, 'build'), join(folder, 'dist')];
  const cjs = join(dist, 'cjs');
  const inputs = Object.fromEntries(
    Object.entries(ENTRIES).map(([name, path]) => [name, join(build, `${path}.js`)]),
  );
  // Names of chunks have a hash: of an earlier build none may be left.
  rmSync(join(dist, 'parts'), { recursive: true, force: true });
  rmSync(join(cjs, 'parts'), { recursive: true, force: true });
  await write({ ...inputs, cli: join(build, 'cli/main.js') }, outside(folder), {
    dir: dist,
    format: 'esm',
    entryFileNames: '[name].js',
    chunkFileNames: 'parts/[name].js',
  });
  await write(inputs, outside(folder), { ...CJS, dir: cjs, chunkFileNames: 'parts/[name].js' });
  writeFileSync(join(cjs, 'package.json'), '{ "type": "commonjs" }\n');
  copyTypes(build, Object.values(ENTRIES), [join(dist, 'types'), join(cjs, 'types')]);
  const licences = join(build, 'worker/lease/LICENCES.txt');
  writeFileSync(join(dist, 'LICENCES.txt'), readFileSync(licences));
}

export async function bundleTesting(folder) {
  const dist = join(folder, 'dist');
  const cjs = join(dist, 'cjs');
  await write({ index: join(dist, 'index.js') }, outside(folder), { ...CJS, dir: cjs });
  writeFileSync(join(cjs, 'package.json'), '{ "type": "commonjs" }\n');
  copyTypes(dist, ['index'], [join(cjs, 'types')]);
}
