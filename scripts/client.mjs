// The dashboard's client: packages/dashboard/ui as one script, one style sheet and an icon, kept as texts in client-files.js,
// so that a program that was bundled into one file still has them; and the lab's in lab-files.js, which is loaded when
// somebody opens the lab. Nothing is loaded from elsewhere at run time.
import { createHash } from 'node:crypto';
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { rolldown } from 'rolldown';
import { licencesOf, onLog } from './keeper-source.mjs';
import { labFiles, RESOLVE, smaller } from './lab-files.mjs';
import { ROOT } from './root.mjs';

const ui = join(ROOT, 'packages/dashboard/ui');

function fileOf(type, text) {
  const etag = `"${createHash('sha256').update(text).digest('base64url').slice(0, 16)}"`;
  return { type: `${type}; charset=utf-8`, text, etag };
}

export async function writeClientFiles(dist) {
  const bundle = await rolldown({
    input: join(ui, 'main.tsx'),
    platform: 'browser',
    resolve: RESOLVE,
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
  const lab = await labFiles();
  writeTexts(dist, 'client-files', 'CLIENT_FILES', files);
  writeTexts(dist, 'lab-files', 'LAB_FILES', typed(lab.files));
  const licences = licencesOf(moduleIds.filter((id) => id.includes('node_modules')));
  const all = [...new Set([...licences, ...lab.licences])];
  writeFileSync(join(dist, 'LICENCES.txt'), all.join('\n---\n\n'));
}

function writeTexts(dist, file, name, files) {
  const types = `pages/${file}.d.ts`;
  copyFileSync(join(ROOT, 'packages/dashboard/src', types), join(dist, types));
  writeFileSync(
    join(dist, `pages/${file}.js`),
    '// Made by scripts/client.mjs from ui/. LICENCES.txt has the licences of what it contains.\n' +
      `export const ${name} = ${JSON.stringify(files)};\n`,
  );
}

const TYPES = { js: 'text/javascript', css: 'text/css', svg: 'image/svg+xml', html: 'text/html' };
const typed = (texts) =>
  Object.fromEntries(
    Object.entries(texts).map(([name, text]) => [name, fileOf(TYPES[name.split('.').pop()], text)]),
  );
