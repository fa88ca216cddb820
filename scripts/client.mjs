// The dashboard's client: ui/ as one script, one style sheet and an icon, kept as texts in dist/dashboard/client-files.js,
// so that a program that was bundled into one file still has them. Nothing is loaded from elsewhere at run time.
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';
import { licencesOf, onLog } from './keeper-source.mjs';

const ui = fileURLToPath(new URL('../ui', import.meta.url));

/** Comments and indentation are for us. */
const smaller = (css) =>
  css
    .replace(/\/\*.*?\*\//gs, '')
    .replace(/\s*\n\s*/g, '\n')
    .trim();

function fileOf(type, text) {
  const etag = `"${createHash('sha256').update(text).digest('base64url').slice(0, 16)}"`;
  return { type: `${type}; charset=utf-8`, text, etag };
}

export async function writeClientFiles(dist) {
  const bundle = await rolldown({
    input: join(ui, 'main.tsx'),
    platform: 'browser',
    transform: { target: 'es2022' },
    onLog,
  });
  const { output } = await bundle.generate({ format: 'esm', minify: true, codeSplitting: false });
  await bundle.close();
  const [{ code, moduleIds }] = output;
  const files = {
    'app.js': fileOf('text/javascript', code),
    'app.css': fileOf('text/css', smaller(readFileSync(join(ui, 'app.css'), 'utf8'))),
    'icon.svg': fileOf('image/svg+xml', readFileSync(join(ui, 'icon.svg'), 'utf8')),
  };
  writeFileSync(
    join(dist, 'dashboard/client-files.js'),
    '// Made by scripts/client.mjs from ui/. LICENCES.txt has the licences of what it contains.\n' +
      `export const CLIENT_FILES = ${JSON.stringify(files)};\n`,
  );
  const licences = licencesOf(moduleIds.filter((id) => id.includes('node_modules')));
  writeFileSync(join(dist, 'dashboard/LICENCES.txt'), licences.join('\n---\n\n'));
}
