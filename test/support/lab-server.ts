/** The lab's server for tests in Node, on the files that the build has made for the page. */
import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { PGlite, type PGliteOptions } from '@electric-sql/pglite';
import { openServer } from '../../packages/lab/src/simulation/database.js';
import type { Server } from '../../packages/lab/src/simulation/server.js';

const DATA = new URL('../../packages/dashboard/dist/lab.data', import.meta.url);

export const builtFiles = () => new Blob([gunzipSync(readFileSync(DATA))]);

/** After a change of the migrations without a build it makes its own, in some seconds. */
export function openBuiltServer(): Promise<Server> {
  const create = (options: PGliteOptions) => PGlite.create(options);
  return openServer(create, builtFiles(), (why) =>
    console.warn(`packages/dashboard/dist/lab.data was not used: ${why}`),
  );
}
