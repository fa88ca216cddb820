/**
 * The simulation's database: loaded from files that the build has made, in a second, or made here by initdb and the
 * migrations, which takes several. Files that do not fit (of another Postgres, of other migrations) count as none.
 */
import type { PGlite, PGliteOptions } from '@electric-sql/pglite';
import { dumpFiles, INITDB } from '@holdfast/testing/internal';
import { Server } from './server.js';

/** `PGlite.create`, perhaps with options of the caller's own. */
export type Create = (options: PGliteOptions) => Promise<PGlite>;

/** `slowly` is called with the reason if the files are of no use. */
export async function openServer(
  create: Create,
  files: Blob | null,
  slowly: (why: string) => void,
): Promise<Server> {
  try {
    if (!files) throw new Error('There are none.');
    return await Server.open(await create({ loadDataDir: files }));
  } catch (error) {
    slowly(String(error));
    return Server.open(await create({ initDbStartParams: INITDB }));
  }
}

/** For the build. */
export async function makeFiles(create: Create): Promise<Blob> {
  const pglite = await create({ initDbStartParams: INITDB });
  await Server.open(pglite);
  return dumpFiles(pglite);
}
