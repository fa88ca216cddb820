// The lab's own files: its page, and the program of its engine's thread, which is the product's source with what a
// browser lacks replaced. PGlite is no part of them: its files are served beside, as they were installed; nor is
// lab.data (see lab-data.mjs), which is no text.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { rolldown } from 'rolldown';
import { licencesOf, onLog } from './keeper-source.mjs';
import { ROOT } from './root.mjs';

const lab = join(ROOT, 'packages/lab/src');
const source = (path) => join(ROOT, 'packages', path);

/** Packages of ours are read from their sources. */
export const RESOLVE = {
  alias: {
    'holdfast/internal': source('holdfast/src/internal.ts'),
    holdfast: source('holdfast/src/index.ts'),
    '@holdfast/testing/internal': source('testing/src/internal.ts'),
    '@holdfast/lab': source('lab/src/index.ts'),
  },
  extensionAlias: { '.js': ['.ts', '.tsx', '.js'] },
};

/** In the browser `pg` is the simulation's, and so are time, threads and chance. */
const SHIMS = {
  pg: 'simulation/pg.ts',
  'node:crypto': 'simulation/modules.ts',
  'node:os': 'simulation/modules.ts',
  'node:timers/promises': 'simulation/timers.ts',
  'node:worker_threads': 'simulation/thread.ts',
  'node:events': 'shims/events.ts',
  'node:fs': 'shims/nothing.ts',
  './keeper-source.js': 'shims/nothing.ts',
};
const shims = {
  name: 'shims',
  resolveId: (id) => (Object.hasOwn(SHIMS, id) ? join(lab, SHIMS[id]) : null),
};

/** A program of the lab as one text. */
export async function bundle(input) {
  const built = await rolldown({
    input: join(lab, input),
    platform: 'browser',
    resolve: RESOLVE,
    transform: { target: 'es2022' },
    // The package says that no module of its own has side effects; the globals are nothing else.
    treeshake: { moduleSideEffects: [{ test: /\/shims\/globals/, sideEffects: true }] },
    plugins: [shims],
    onLog,
  });
  const { output } = await built.generate({ format: 'esm', minify: true, codeSplitting: false });
  await built.close();
  return output[0];
}

/** Comments and indentation are for us. */
export const smaller = (css) =>
  css
    .replace(/\/\*.*?\*\//gs, '')
    .replace(/\s*\n\s*/g, '\n')
    .trim();

/** By name, the text of each; and the licences of what is in them. */
export async function labFiles() {
  const ui = source('dashboard/ui');
  const [page, engine] = [await bundle('main.tsx'), await bundle('worker.ts')];
  const css = [join(ui, 'app.css'), join(lab, 'lab.css')].map((file) => readFileSync(file, 'utf8'));
  const modules = [...page.moduleIds, ...engine.moduleIds];
  return {
    files: {
      'index.html': readFileSync(join(lab, 'index.html'), 'utf8'),
      'lab.js': page.code,
      'engine.js': engine.code,
      'lab.css': smaller(css.join('\n')),
      'icon.svg': readFileSync(join(ui, 'icon.svg'), 'utf8'),
    },
    licences: licencesOf(modules.filter((id) => id.includes('node_modules'))),
  };
}
