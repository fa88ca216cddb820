/**
 * The package `@electric-sql/pglite`, which is the user's to install.
 *
 * It is loaded by Node itself and not by the test runner. Under Jest that is the difference between working and
 * not: PGlite imports modules dynamically, which Jest refuses to code that it has loaded. Nothing of it is
 * imported here, so that neither compilers nor bundlers look for a package that need not be there.
 *
 * Postgres sets a timer of ten seconds behind a statement. Here it does not keep the process alive, and the fake
 * timers of a test do not touch it.
 */
import type { Blob } from 'node:buffer';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import timers from 'node:timers';
import { runInThisContext } from 'node:vm';
import { HoldfastError } from 'holdfast';
import type { PgliteLike } from './session.js';

export interface OwnPglite extends PgliteLike {
  readonly waitReady: Promise<void>;
  dumpDataDir(compression: 'none'): Promise<Blob>;
  execProtocolRawSync(message: Uint8Array): Uint8Array;
}

export interface CreateOptions {
  readonly loadDataDir?: Blob;
  readonly initDbStartParams?: readonly string[];
}

type PgliteClass = new (options: CreateOptions) => OwnPglite;

export interface PglitePackage {
  create(options: CreateOptions): Promise<OwnPglite>;
  readonly version: string;
}

const NAME = '@electric-sql/pglite';

interface Host {
  readonly process: NodeJS.Process;
  setTimeout: (run: () => void, ms: number) => NodeJS.Timeout;
  clearTimeout: (timer: NodeJS.Timeout) => void;
}

/**
 * The global object of Node, which under Jest is not that of the tests: there `require`, and all that
 * `node:module` offers, is Jest's own.
 */
const host = runInThisContext('this') as Host;

export function loadPglite(): PglitePackage {
  const require = host.process.getBuiltinModule('node:module').createRequire(import.meta.url);
  try {
    const { PGlite } = require(NAME) as { PGlite: PgliteClass };
    const manifest = join(dirname(require.resolve(NAME)), '..', 'package.json');
    const { version } = JSON.parse(readFileSync(manifest, 'utf8')) as { version: string };
    return { create: creatorOf(PGlite), version };
  } catch (cause) {
    throw new HoldfastError(
      'OPTION_INVALID',
      'The package @electric-sql/pglite could not be loaded, so there is no database to test on. ' +
        'Run `npm install --save-dev @electric-sql/pglite`, or pass { hf } of a Postgres server, or call useHoldfast(hf) once.',
      { cause },
    );
  }
}

function creatorOf(PGlite: PgliteClass): PglitePackage['create'] {
  class QuietPglite extends PGlite {
    override execProtocolRawSync(message: Uint8Array): Uint8Array {
      return quietly(() => super.execProtocolRawSync(message));
    }
  }
  return async (options) => {
    const pglite = new QuietPglite(options);
    await pglite.waitReady;
    return pglite;
  };
}

const { setTimeout, clearTimeout } = timers;

/** For as long as PGlite computes, and nothing else can run, it is given timers that wait for nobody. */
function quietly<Value>(work: () => Value): Value {
  const given = { setTimeout: host.setTimeout, clearTimeout: host.clearTimeout };
  host.setTimeout = (run, ms) => setTimeout(() => quietly(run), ms).unref();
  host.clearTimeout = clearTimeout;
  try {
    return work();
  } finally {
    Object.assign(host, given);
  }
}
