/**
 * The thread in which the lab runs: Postgres as WebAssembly, the product's tables, and the engine. It has a thread of
 * its own because it replaces the clock and the timers of all code beside it, and so that the page stays quick.
 * PGlite's files lie beside this one, in pglite/; nothing is fetched from elsewhere.
 */
import './shims/globals.js';
import type { PGlite as PGliteClass, PGliteOptions } from '@electric-sql/pglite';
import { Lab } from './engine/lab.js';
import type { FromEngine, ToEngine } from './protocol.js';
import { openServer } from './simulation/database.js';

interface Scope {
  readonly location: { readonly href: string };
  postMessage(message: FromEngine): void;
  onmessage: ((event: { data: ToEngine }) => void) | null;
}
const scope = globalThis as unknown as Scope;

const say = (message: FromEngine) => scope.postMessage(message);

const fetchBeside = (name: string) => fetch(new URL(name, scope.location.href));

/** The files of a migrated Postgres, which the build has made. Null: there are none. */
async function fetchFiles(): Promise<Blob | null> {
  const { ok, body } = await fetchBeside('lab.data');
  if (!ok || !body) return null;
  return new Response(body.pipeThrough(new DecompressionStream('gzip'))).blob();
}

/** All at once: PGlite by itself would compile only after its other files are there. */
async function openLab(): Promise<Lab> {
  say({ kind: 'progress', text: 'Loading Postgres …' });
  const address = new URL('pglite/index.js', scope.location.href).href;
  const [{ PGlite }, pgliteWasmModule, fsBundle, files] = await Promise.all([
    import(address) as Promise<{ PGlite: typeof PGliteClass }>,
    WebAssembly.compileStreaming(fetchBeside('pglite/pglite.wasm')),
    fetchBeside('pglite/pglite.data').then((response) => response.blob()),
    fetchFiles().catch(() => null),
  ]);
  const create = (options: PGliteOptions) =>
    PGlite.create({ ...options, pgliteWasmModule, fsBundle });
  const server = await openServer(create, files, (why) => {
    console.warn(`Holdfast lab: its files of Postgres were not used. ${why}`);
    say({ kind: 'progress', text: 'Running initdb and Holdfast’s migrations …' });
  });
  return new Lab(server);
}

const began = performance.now();
const opening = openLab();
opening.then(
  () => say({ kind: 'ready', tookMs: performance.now() - began }),
  (error: unknown) => say({ kind: 'failed', error: String(error) }),
);

async function run(lab: Lab, message: ToEngine) {
  if (message.call === 'act') return lab.act(message.act);
  if (message.call === 'advance') return lab.advance(message.ms);
  const progress = (text: string) => say({ kind: 'progress', text });
  return lab.open(message.name, message.seed, message.settings, progress);
}

/** One call after the other: they share a database and a clock. */
let last: Promise<unknown> = opening.catch(() => undefined);
scope.onmessage = ({ data }) => {
  last = last.then(async () => {
    try {
      say({ kind: 'frames', id: data.id, frames: await run(await opening, data) });
    } catch (error) {
      say({ kind: 'error', id: data.id, error: String(error) });
    }
  });
};
