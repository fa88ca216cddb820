/**
 * Holdfast on PGlite: Postgres in the test's own process, with no server, no socket and no file.
 *
 * Everything of a Holdfast works on it but a running worker, which needs connections of its own; `drain` and
 * `testJob` take its place. The package `@electric-sql/pglite` is the user's to install.
 */
import type { Blob } from 'node:buffer';
import type { Logger } from 'holdfast';
import { type Holdfast, HoldfastError, holdfast } from 'holdfast';
import {
  checkKnown,
  ENGINE_SETTINGS,
  gaugesReader,
  type HoldfastParts,
  type Known,
  migrate,
  PROGRAM,
  partsOf,
  withClient,
} from 'holdfast/internal';
import type pg from 'pg';
import { setDeps } from '../deps.js';
import { dumpFiles, INITDB } from './dump.js';
import { PgliteFiles } from './files.js';
import { loadPglite } from './package.js';
import { pglitePool } from './pool.js';
import { type PgliteLike, PgliteSession } from './session.js';

/** Options of `startPglite()`. */
export interface PgliteOptions {
  /** A PGlite of yours, with your tables. Default: a new one, in memory. */
  readonly pglite?: PgliteLike;
  /** The schema with Holdfast's tables. Default `holdfast`. */
  readonly schema?: string;
  /** Your logger. Default: lines on stderr. */
  readonly logger?: Logger;
}

const OPTIONS = {
  pglite: true,
  schema: true,
  logger: true,
} as const satisfies Known<PgliteOptions>;

/** A Holdfast on a Postgres inside the process. */
export interface PgliteHoldfast extends AsyncDisposable {
  /** Already migrated. */
  readonly hf: Holdfast;
  /** For your own tables and for handlers: a pool of `pg`, with all that it can do. */
  readonly pool: pg.Pool;
  /** The PGlite itself. */
  readonly pglite: PgliteLike;
  /** Closes the Holdfast, and its PGlite unless it is yours. */
  close(): Promise<void>;
}

const SETTINGS = Object.entries(ENGINE_SETTINGS)
  .map(([name, value]) => `SET ${name} = '${value}'`)
  .join(';');

/** Nothing connects to it. */
const NOWHERE = 'postgres://pglite.invalid/pglite';

/**
 * Starts a migrated Holdfast on PGlite. It takes a second: share it between the tests of a file.
 * @example
 * await using kit = await startPglite();
 * await kit.hf.enqueue(sendReceipt, { orderId: 9182 });
 */
export async function startPglite(options: PgliteOptions = {}): Promise<PgliteHoldfast> {
  checkKnown(options, OPTIONS, 'startPglite()', 'Nothing was started.');
  const pglite = options.pglite ?? (await newPglite(options.schema ?? 'holdfast'));
  await pglite.exec(SETTINGS);
  const session = await PgliteSession.open(pglite);
  const pool = pglitePool(session);
  const { schema, logger } = options;
  const original = holdfast({
    ...{ connectionString: NOWHERE, pool, pooler: false, prepare: false },
    ...(schema !== undefined && { schema }),
    ...(logger && { logger }),
  });
  const { log } = partsOf(original) as HoldfastParts;
  // Of the caller's own PGlite only the connection is ours.
  const end = async () => {
    await original.close();
    if (!options.pglite) await pglite.close();
  };
  let ended: Promise<void> | null = null;
  const close = () => {
    ended ??= end();
    return ended;
  };
  const hf: Holdfast = {
    ...original,
    worker: (workerOptions) => withoutRun(original.worker(workerOptions)),
    gauges: gaugesReader(() => pool, original.schema, log),
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
        'Pass it to drain(hf, { worker }), or use a Postgres server such as startEmbedded() of @holdfast/embedded.',
    );
  };
  return worker;
}

/** By schema, the files of a migrated one: this process makes or reads them once. */
const templates = new Map<string, Blob>();

async function newPglite(schema: string): Promise<PgliteLike> {
  const { create, version } = loadPglite();
  const known = templates.get(schema);
  if (known) return create({ loadDataDir: known });
  const files = new PgliteFiles([version, schema, ...INITDB, JSON.stringify(PROGRAM)]);
  const kept = await files.read();
  const loaded = kept && (await create({ loadDataDir: kept }).catch(() => null));
  if (loaded) {
    templates.set(schema, kept);
    return loaded;
  }
  const pglite = await create({ initDbStartParams: INITDB });
  await pglite.exec(SETTINGS);
  const pool = pglitePool(await PgliteSession.open(pglite));
  await withClient(pool, (client) => migrate(client, schema));
  const made = await dumpFiles(pglite);
  templates.set(schema, made);
  await files.write(made);
  return pglite;
}

let shared: Promise<PgliteHoldfast> | null = null;

/** Whether a test has used it. */
export const isShared = () => shared !== null;

/** One for the whole process, for tests that name no database. */
export function sharedPglite(): Promise<PgliteHoldfast> {
  shared ??= startPglite();
  shared.catch(() => {
    shared = null;
  });
  return shared;
}
