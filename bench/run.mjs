// One run: a Postgres of its own with fsync on, the chosen parts one after the other, and the book
// that keeps what they found. It ends with 0 when every goal is met, with 1 when one is short, and
// it takes its processes and its server along however it ends.
import { totalmem } from 'node:os';
import { startEmbedded } from '../packages/embedded/dist/index.js';
import { killActors } from './actors.mjs';
import { ALONE, parseArguments } from './arguments.mjs';
import { entriesFor } from './entries.mjs';
import { OWN_DATABASES, parts } from './parts/index.mjs';
import { startRedis } from './redis.mjs';
import { Book } from './report/book.mjs';
import { describeMachine } from './report/machine.mjs';
import { openStage } from './stage.mjs';
import { loadSystem, loadSystems, versionOf } from './systems/index.mjs';

const options = parseArguments(process.argv.slice(2));
const alone = options.parts.every((name) => ALONE.includes(name));
const say = (text) => console.error(text);
let server = null;
let redis = null;
let ending = null;

/** However often it is asked, once: workers, Redis and Postgres are gone when it resolves. */
function end() {
  ending ??= (async () => {
    await killActors();
    await redis?.stop();
    await server?.stop();
  })();
  return ending;
}
function interrupted() {
  if (ending) return;
  say('bench: interrupted; stopping its processes and its server.');
  end().finally(() => process.exit(130));
}
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, interrupted);
process.on('disconnect', interrupted);

// Postgres' own advice for a machine of its own: a quarter of the memory. Checkpoints are made
// between repetitions instead of at moments of their own choice.
const settings = {
  shared_buffers: `${Math.floor(totalmem() / 4 / 1024 / 1024)}MB`,
  max_wal_size: '8GB',
  checkpoint_timeout: '30min',
  max_connections: '400',
  // It counts statements and their buffers; other parts are measured without it.
  ...(options.parts.includes('fleet-size') &&
    alone && {
      shared_preload_libraries: 'pg_stat_statements',
      'pg_stat_statements.track': 'top',
    }),
};

/** Loaded when they run, as the parts are. */
const more = {
  dashboard: async (context) => (await import('./dashboard.mjs')).dashboard(context),
  fleet: async (context) => (await import('./fleet/index.mjs')).fleet(context),
  'fleet-size': async (context) => (await import('./fleet-size/index.mjs')).fleetSize(context),
  flow: async (context) => (await import('./flow.mjs')).flow(context),
  inspect: async (context) => (await import('./inspect.mjs')).inspect(context),
  schedules: async (context) => (await import('./schedules.mjs')).schedules(context),
  shapes: async (context) => (await import('./shapes/index.mjs')).shapes(context),
  workflows: async (context) => (await import('./workflows/index.mjs')).workflows(context),
};

async function prepare(entries, urls) {
  for (const system of new Set(entries.all.map((entry) => entry.system))) {
    await system.prepare(system.postgres ? urls.postgres : urls.redis);
  }
}

async function measure() {
  const began = Date.now();
  const systems = alone ? { holdfast: await loadSystem('holdfast') } : await loadSystems();
  server = await startEmbedded({ throwaway: true, settings, onProgress: say });
  const shared = options.parts.some((name) => !OWN_DATABASES.includes(name));
  redis = options.quick || !shared ? null : await startRedis(say);
  const urls = { postgres: server.url, redis: redis?.url ?? null };
  const stage = await openStage(server.url, systems);
  const entries = entriesFor(systems, urls);
  if (shared) await prepare(entries, urls);
  const machine = await describeMachine(stage.admin, server, settings);
  const used = (shared ? entries.all : entries.steady).map((entry) => entry.system);
  const versions = Object.fromEntries(used.map((system) => [system.name, versionOf(system)]));
  const book = new Book({ ...options, machine, versions, systems, redis: Boolean(redis), shared });
  book.open();
  const capacities = new Map();
  for (const name of options.parts) {
    const from = Date.now();
    say(`\n=== ${name}`);
    const context = {
      ...{ stage, entries, server, urls, url: server.url, machine },
      ...{ capacities, options, quick: options.quick, only: options.only, say },
      ...book.part(name),
    };
    try {
      await (parts[name] ?? more[name])(context);
    } catch (error) {
      if (ending) return 130;
      context.failed(error);
    }
    await killActors();
    await stage.synchronousCommit(true);
    if (shared) await stage.emptyAll();
    book.closePart(name, (Date.now() - from) / 1000);
  }
  await stage.close();
  return book.close((Date.now() - began) / 1000);
}

try {
  const code = await measure();
  if (!ending) {
    await end();
    process.exit(code);
  }
} catch (error) {
  if (!ending) {
    console.error(error);
    await end();
    process.exit(1);
  }
}
