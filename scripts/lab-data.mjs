// Makes packages/dashboard/dist/lab.data: the files of a PGlite with the lab's tables, as a gzipped tar. The lab starts from them in
// a second; initdb and the migrations would take it several. They are made again only when what they come from has changed.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { bundle } from './lab-files.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const file = join(root, 'packages/dashboard/dist/lab.data');
const stamp = join(root, 'node_modules/.holdfast-lab-data');

const { code } = await bundle('simulation/database.ts');
const pglite = createRequire(import.meta.url).resolve('@electric-sql/pglite');
const wasm = readFileSync(join(dirname(pglite), 'pglite.wasm'));
const sources = createHash('sha256').update(code).update(wasm).digest('hex');
if (existsSync(file) && existsSync(stamp) && readFileSync(stamp, 'utf8') === sources)
  process.exit();

const { PGlite } = await import('@electric-sql/pglite');
const { makeFiles } = await import(`data:text/javascript,${encodeURIComponent(code)}`);
const tar = await (await makeFiles((options) => PGlite.create(options))).arrayBuffer();
mkdirSync(dirname(file), { recursive: true });
// Whole or not at all: others may be running from dist just now.
writeFileSync(`${file}.new`, gzipSync(tar));
renameSync(`${file}.new`, file);
writeFileSync(stamp, sources);
// Postgres has timers that nobody waits for.
process.exit();
