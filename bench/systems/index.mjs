// The systems under measurement, all of one shape:
//   configurations   name → what it sets, why, and where that is documented
//   tables, emptied  what holds waiting jobs; what is truncated between repetitions
//   queuePerConfiguration   whether a configuration has jobs of its own
//   busy             a question to the database: is any job unfinished?
//   prepare(url)     installs the schema
//   producer(url, …) { one, inTransaction, many, close }
//   worker(url, …)   runs `handle(payload)` for every job; { stop }
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const NAMES = ['holdfast', 'graphile-worker', 'pg-boss', 'bullmq', 'bullmq-redis'];

/** One alone: an actor neither waits for the others' code nor carries it. */
export const loadSystem = async (name) => (await import(`./${name}.mjs`)).system;

export async function loadSystems() {
  const loaded = await Promise.all(NAMES.map(loadSystem));
  return Object.fromEntries(loaded.map((system) => [system.name, system]));
}

const require = createRequire(import.meta.url);
const read = (url) => JSON.parse(readFileSync(url, 'utf8'));

export function versionOf(system) {
  if (!system.package)
    return read(new URL('../../packages/holdfast/package.json', import.meta.url)).version;
  return read(
    `${require.resolve(system.package).split(`/${system.package}/`)[0]}/${system.package}/package.json`,
  ).version;
}
