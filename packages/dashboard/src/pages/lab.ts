/**
 * The lab inside the dashboard: its page, its engine, and Postgres as WebAssembly. The last comes from the package
 * `@electric-sql/pglite`, which is the user's to install: the lab's page says so where it is missing. Nothing of the
 * lab is loaded before somebody opens it, and nothing of it asks the dashboard's database.
 */
import { readFile, stat } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { VERSION } from 'holdfast/internal';
import { forLab, problem, reply } from '../guard/reply.js';
import type { Settings } from '../options.js';
import { textFile } from './pages.js';

/** Not literals where they are resolved: a bundler need not find what need not be there. */
const PGLITE = '@electric-sql/pglite';
const MANIFEST = '@holdfast/dashboard/package.json';
const PGLITE_TYPES: readonly [pattern: RegExp, type: string][] = [
  [/^(index|chunk-\w+)\.js$/, 'text/javascript; charset=utf-8'],
  [/^(pglite|initdb)\.wasm$/, 'application/wasm'],
  [/^pglite\.data$/, 'application/octet-stream'],
];

export async function labPage(
  path: string,
  request: Request,
  { base }: Settings,
): Promise<Response | null> {
  if (path === 'lab')
    return reply(308, null, { location: `${base}lab/${new URL(request.url).search}` });
  if (!path.startsWith('lab/')) return null;
  const name = path.slice(4) || 'index.html';
  if (name.startsWith('pglite/')) return pgliteFile(name.slice(7), request);
  if (name === 'lab.data') return dataFile(request);
  const { LAB_FILES } = await import('./lab-files.js');
  const file = Object.hasOwn(LAB_FILES, name) ? LAB_FILES[name] : undefined;
  if (!file) return null;
  const text = file.text.replace('<!--head-->', '<meta name="holdfast-dashboard" content="../">');
  return textFile(name === 'index.html' ? { ...file, text } : file, request, forLab);
}

/** By Node's rules: from beside this file, or from the program's own folder if this one was bundled. */
function resolvePath(name: string): string | null {
  for (const from of [import.meta.url, join(process.cwd(), 'index.js')]) {
    try {
      return createRequire(from).resolve(name);
    } catch {
      // The next one.
    }
  }
  return null;
}

async function pgliteFile(name: string, request: Request): Promise<Response | null> {
  const type = PGLITE_TYPES.find(([pattern]) => pattern.test(name))?.[1];
  if (!type) return null;
  const index = resolvePath(PGLITE);
  if (index === null)
    return problem(
      404,
      `The package ${PGLITE} is not installed, so there is no lab: npm install ${PGLITE}.`,
    );
  const manifest = await readFile(join(dirname(index), '../package.json'), 'utf8');
  const { version } = JSON.parse(manifest) as { version: string };
  return fileReply(join(dirname(index), name), type, version, request);
}

/** The files of a migrated Postgres. Where a bundled program lacks them, the lab makes its own, which takes seconds. */
async function dataFile(request: Request): Promise<Response | null> {
  const manifest = resolvePath(MANIFEST);
  if (manifest === null) return null;
  const path = join(dirname(manifest), 'dist/lab.data');
  const { size, mtimeMs } = await stat(path).catch(() => ({ size: 0, mtimeMs: 0 }));
  return fileReply(path, 'application/octet-stream', `${VERSION}.${mtimeMs}.${size}`, request);
}

async function fileReply(path: string, type: string, version: string, request: Request) {
  const etag = `"${version}"`;
  const headers = { ...forLab, 'cache-control': 'no-cache', etag };
  if (request.headers.get('if-none-match') === etag) return reply(304, null, headers);
  try {
    const bytes = new Uint8Array(await readFile(path));
    return reply(200, bytes, { ...headers, 'content-type': type });
  } catch (error) {
    if ((error as { code?: unknown }).code === 'ENOENT') return null;
    throw error;
  }
}
