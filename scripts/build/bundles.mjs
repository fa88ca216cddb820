// The bundles: the core as a few ES modules, and core and test kit as CommonJS for Jest, which cannot load ES modules.
// Comments are left out; names and lines stay, for stack traces.
import { copyFileSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { rolldown } from 'rolldown';
import { onLog } from '../keeper-source.mjs';
import { writeCommonJs } from './commonjs.mjs';
import { copyTypes, stubTypes } from './types.mjs';

/** By the name of the file in dist, its file in build. */
const ENTRIES = {
  index: 'index',
  adapters: 'enqueue/adapters',
  metrics: 'metrics/index',
  receive: 'shapes/receive/index',
  config: 'cli/parse/define-config',
  outbox: 'shapes/outbox/index',
  'outbox-http': 'shapes/outbox/sinks/http',
  'outbox-nats': 'shapes/outbox/sinks/nats',
  'outbox-redis': 'shapes/outbox/sinks/redis',
  'outbox-rabbitmq': 'shapes/outbox/sinks/rabbitmq',
  'outbox-kafka': 'shapes/outbox/sinks/kafka',
  projections: 'shapes/projections/index',
  webhooks: 'shapes/webhooks/index',
  internal: 'internal',
};

/** Entries that load without the engine. */
const SMALL = [
  ...[ENTRIES.adapters, ENTRIES.metrics, ENTRIES.config],
  ...Object.values(ENTRIES).filter((path) => path.includes('/sinks/')),
];

/** What a package says that others install. */
function outside(folder) {
  const { dependencies, peerDependencies } = JSON.parse(
    readFileSync(join(folder, 'package.json'), 'utf8'),
  );
  const names = Object.keys({ ...dependencies, ...peerDependencies });
  return [...names, '@holdfast'].map((name) => new RegExp(`^${name}($|/)`));
}

async function write(input, external, output, alias = {}) {
  const bundle = await rolldown({
    ...{ input, platform: 'node', external, resolve: { alias }, onLog },
    // Without the path of each file as a comment.
    experimental: { attachDebugInfo: 'none' },
  });
  await bundle.write({ comments: { legal: true, annotation: false, jsdoc: false }, ...output });
  await bundle.close();
}

/** Of an earlier build no part may be left. */
function emptied(folder) {
  rmSync(folder, { recursive: true, force: true });
  return folder;
}

export async function bundleCore(folder) {
  const [build, dist] = [join(folder, 'build'), emptied(join(folder, 'dist'))];
  // Each file that a process loads takes a millisecond, so they are few: what `import 'holdfast'` alone needs is one. What the small entries and
  // the command need too stands apart, so that they do not load the engine.
  const small = new Set();
  for (const path of [...SMALL, 'cli/main']) loadedBy(join(build, `${path}.js`), small);
  const all = loadedBy(join(build, 'index.js'));
  await write({ ...inputsFrom(build), cli: join(build, 'cli/main.js') }, outside(folder), {
    dir: dist,
    format: 'esm',
    entryFileNames: '[name].js',
    chunkFileNames: 'parts/[name].js',
    codeSplitting: {
      groups: [
        // A group takes along what its files import: the first has all of its own.
        { name: 'base', priority: 2, test: (id) => all.has(id) && small.has(id) },
        { name: 'core', priority: 1, test: (id) => all.has(id) },
      ],
    },
  });
  const { internal, ...open } = ENTRIES;
  copyTypes(build, Object.values(open), join(dist, 'types'));
  stubTypes(join(build, `${internal}.d.ts`), join(dist, 'types', `${internal}.d.ts`));
  await writeCommonJs(dist, join(dist, 'types'), open);
  copyFileSync(join(folder, '../../docs/roles.sql'), join(dist, 'roles.sql'));
  writeFileSync(join(dist, 'LICENCES.txt'), readFileSync(join(build, 'worker/lease/LICENCES.txt')));
}

/** The files that a process loads with this one: not those that are loaded on demand. */
function loadedBy(file, found = new Set()) {
  if (found.has(file)) return found;
  found.add(file);
  const text = readFileSync(file, 'utf8');
  for (const [, path] of text.matchAll(/^(?:import|export)[^'"]*['"](\.{1,2}\/[^'"]+)['"]/gm))
    loadedBy(resolve(dirname(file), path), found);
  return found;
}

const inputsFrom = (build) =>
  Object.fromEntries(
    Object.entries(ENTRIES).map(([name, path]) => [name, join(build, `${path}.js`)]),
  );

/** Core and test kit for Jest, see packages/testing/jest-preset.js. */
export async function bundleForJest(core, testing) {
  const kit = join(testing, 'dist/index.js');
  const own = { holdfast: 'index', 'holdfast/internal': 'internal' };
  const alias = Object.entries(own).map(([name, path]) => [name, join(core, `build/${path}.js`)]);
  const external = [...outside(core), ...outside(testing)].filter((one) => !one.test('holdfast'));
  await write(
    { ...inputsFrom(join(core, 'build')), testing: kit },
    external.filter((one) => !one.test('@holdfast/x')),
    {
      dir: emptied(join(testing, 'dist/jest')),
      ...{ format: 'cjs', exports: 'named', entryFileNames: '[name].js' },
      chunkFileNames: 'parts/[name].js',
    },
    Object.fromEntries(alias),
  );
  writeFileSync(join(testing, 'dist/jest/package.json'), '{ "type": "commonjs" }\n');
  const licences = readFileSync(join(core, 'build/worker/lease/LICENCES.txt'));
  writeFileSync(join(testing, 'dist/jest/LICENCES.txt'), licences);
}
