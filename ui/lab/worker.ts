/**
 * The thread in which the lab runs: Postgres as WebAssembly, the product's migrations, and the engine. It has a thread of
 * its own because it replaces the clock and the timers of all code beside it, and so that the page stays quick.
 * PGlite's files lie beside this one, in pglite/; nothing is fetched from elsewhere.
 */
import './shims/globals.js';
import type { PGlite as PGliteClass } from '@electric-sql/pglite';
import { Lab } from './engine/lab.js';
import type { FromEngine, ToEngine } from './protocol.js';
import { Server } from './simulation/server.js';

interface Scope {
  readonly location: { readonly href: string };
  postMessage(message: FromEngine): void;
  onmessage: ((event: { data: ToEngine }) => void) | null;
}
const scope = globalThis as unknown as Scope;

const say = (message: FromEngine) => scope.postMessage(message);

async function openLab(): Promise<Lab> {
  const address = new URL('pglite/index.js', scope.location.href).href;
  say({ kind: 'progress', text: 'Loading Postgres …' });
  const { PGlite } = (await import(address)) as { PGlite: typeof PGliteClass };
  // Small files for what is written ahead: most of the time goes into making them.
  const pglite = await PGlite.create({ initDbStartParams: ['--wal-segsize=1'] });
  say({ kind: 'progress', text: 'Running Holdfast’s migrations …' });
  return new Lab(await Server.open(pglite));
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
