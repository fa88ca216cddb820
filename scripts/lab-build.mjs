// `npm run lab:build`: the lab of dist as one folder, dist-lab, that any web server serves, at any path, without a server
// behind it.
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { LAB_FILES } from '../packages/dashboard/dist/pages/lab-files.js';

const root = fileURLToPath(new URL('..', import.meta.url));
const folder = resolve(process.argv[2] ?? join(root, 'dist-lab'));
const pglite = dirname(createRequire(import.meta.url).resolve('@electric-sql/pglite'));

/** A server of files sends no policy, so the page brings its own. */
const POLICY =
  "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self'; connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'";

/** Those of PGlite that a browser asks for; extensions and the ways to other file systems are left out. */
const PGLITE_FILES = /^(index\.js|chunk-\w+\.js|initdb\.wasm|pglite\.(wasm|data))$/;

const head = `<meta http-equiv="Content-Security-Policy" content="${POLICY}">`;
rmSync(folder, { recursive: true, force: true });
mkdirSync(join(folder, 'pglite'), { recursive: true });
for (const [name, { text }] of Object.entries(LAB_FILES))
  writeFileSync(join(folder, name), text.replace('<!--head-->', head));
for (const name of ['lab.data', 'LICENCES.txt'])
  copyFileSync(join(root, 'packages/dashboard/dist', name), join(folder, name));
for (const name of readdirSync(pglite).filter((one) => PGLITE_FILES.test(one)))
  copyFileSync(join(pglite, name), join(folder, 'pglite', name));
copyFileSync(join(pglite, '../LICENSE'), join(folder, 'pglite', 'LICENSE'));

const sizes = readdirSync(folder, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => readFileSync(join(entry.parentPath ?? entry.path, entry.name)).length);
const megabytes = sizes.reduce((sum, size) => sum + size, 0) / 1e6;
console.log(
  `${folder}: ${sizes.length} files, ${megabytes.toFixed(1)} MB. Serve it with any web server.`,
);
