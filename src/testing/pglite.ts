/**
 * Holdfast on PGlite: Postgres in the test's own process, with no server, no socket and no file.
 *
 * Everything of a Holdfast works on it but a running worker, which needs connections of its own; `drain` and
 * `testJob` take its place. The package `@electric-sql/pglite` is the user's to install.
 */
import type pg from 'pg';
import { type Holdfast, holdfast } from '../holdfast.js';
import { readGauges } from '../inspect/gauges.js';
import { reading } from '../inspect/reading.js';
import { HoldfastError } from '../job/errors.js';
import { checkKnown, type Known } from '../job/known-options.js';
import type { Logger } from '../postgres/log.js';
import { withClient } from '../postgres/pool.js';
import { ENGINE_SETTINGS } from '../postgres/settings.js';
import { migrate } from '../schema/migrate.js';
import { setDeps } from './deps.js';
import { type PgliteLike, PgliteSession, pglitePool } from './pglite-pool.js';

export interface PgliteOptions {
  /** A PGlite of yours, with your tables. Default: a new one, in memory. */
  readonly pglite?: PgliteLike;
  readonly schema?: string;
  readonly logger?: Logger;
}

const OPTIONS = {
  pglite: true,
  schema: true,
  logger: true,
} as const satisfies Known<PgliteOptions>;

export interface PgliteHoldfast extends AsyncDisposable {
  readonly hf: Holdfast;
  /** For your own tables and for handlers: the methods of a `pg` pool that take no callback. */
  readonly pool: pg.Pool;
  readonly pglite: PgliteLike;
  close(): Promise<void>;
}

const SETTINGS = Object.entries(ENGINE_SETTINGS)
  .map(([name, value]) => `SET ${name} = '${value}'`)
  .join(';');

/** Nothing connects to it. */
const NOWHERE = 'postgres://pglite.invalid/pglite';

/** A migrated Holdfast on PGlite. The first of a process takes seconds; share it between the tests of a file. */
export async function startPglite(options: PgliteOptions = {}): Promise<PgliteHoldfast> {
  checkKnown(options, OPTIONS, 'startPglite()', 'Nothing was started.');
  const pglite = options.pglite ?? (await newPglite(options.schema ?? 'holdfast'));
  await pglite.exec(SETTINGS);
  const session = new PgliteSession(pglite);
  const pool = pglitePool(session);
  const { schema, logger } = options;
  const original = holdfast({
    ...{ connectionString: NOWHERE, pool, pooler: false, prepare: false },
    ...(schema !== undefined && { schema }),
    ...(logger && { logger }),
  });
  // Of the caller's own PGlite only the connection is ours.
  const close = async () => {
    await original.close();
    if (!options.pglite) await pglite.close();
  };
  const hf: Holdfast = {
    ...original,
    worker: (workerOptions) => withoutRun(original.worker(workerOptions)),
    gauges: () => reading(pool, (db) => readGauges(db, original.schema)),
    close,
    [Symbol.asyncDispose]: close,
  };
  setDeps(hf, original, { engine: pglitePool(session), ownPool: pglitePool(session) });
  await hf.migrate();
  return { hf, pool, pglite, close, [Symbol.asyncDispose]: close };
}

function withoutRun(worker: ReturnType<Holdfast['worker']>): ReturnType<Holdfast['worker']> {
  worker.run = async () => {
    throw new HoldfastError(
      'WORKER_STATE',
      'A worker cannot run on PGlite, which has no connections to give; it was not started. ' +
        'Pass it to drain(hf, { worker }), or use a Postgres server such as startEmbedded() of holdfast/embedded.',
    );
  };
  return worker;
}

interface OwnPglite extends PgliteLike {
  dumpDataDir(compression: 'none'): Promise<Blob>;
}

interface PgliteModule {
  readonly PGlite: { create(options?: { loadDataDir: Blob }): Promise<OwnPglite> };
}

/** The files of a migrated one: from the second on, they are not made anew. */
let template: Blob | null = null;

async function newPglite(schema: string): Promise<PgliteLike> {
  const { PGlite } = await loadPackage();
  if (schema !== 'holdfast') return PGlite.create();
  if (template) return PGlite.create({ loadDataDir: template });
  const pglite = await PGlite.create();
  await pglite.exec(SETTINGS);
  const pool = pglitePool(new PgliteSession(pglite));
  await withClient(pool, (client) => migrate(client, schema));
  template = await pglite.dumpDataDir('none');
  return pglite;
}

async function loadPackage(): Promise<PgliteModule> {
  // Not a literal: neither compilers nor bundlers shall look for a package that need not be there.
  const name = '@electric-sql/pglite';
  try {
    return (await import(name)) as PgliteModule;
  } catch (cause) {
    throw new HoldfastError(
      'OPTION_INVALID',
      'The package @electric-sql/pglite could not be loaded, so there is no database to test on. ' +
        'Run `npm install --save-dev @electric-sql/pglite`, or pass { hf } of a Postgres server, or call useHoldfast(hf) once.',
      { cause },
    );
  }
}

let shared: Promise<PgliteHoldfast> | null = null;

/** One for the whole process, for tests that name no database. */
export function sharedPglite(): Promise<PgliteHoldfast> {
  shared ??= startPglite();
  shared.catch(() => {
    shared = null;
  });
  return shared;
}
