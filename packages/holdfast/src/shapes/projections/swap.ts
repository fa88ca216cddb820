/** Acts on builds, each in one transaction: add one, let one take the place of the live one, remove one. */
import type pg from 'pg';
import type { Holdfast } from '../../holdfast.js';
import { HoldfastError, invalid } from '../../job/errors/holdfast-error.js';
import { type Names, quoteName } from '../../postgres/names.js';
import { engineExecutor } from '../../postgres/queryable.js';
import { shardJob } from './names.js';
import {
  addBuild,
  type Build,
  builds,
  drop,
  holdAll,
  lock,
  type NewBuild,
  setState,
  setTables,
} from './rows/registry.js';

export interface Adding {
  readonly hf: Pick<Holdfast, 'enqueueMany'>;
  readonly names: Names;
}

/** Adds a build with the jobs of its shards. */
export async function add(
  client: pg.PoolClient,
  { hf, names }: Adding,
  of: NewBuild & { readonly schema: string | null },
): Promise<number> {
  const db = engineExecutor(client, { prepare: false });
  const id = await addBuild(db, names, of);
  // The live tables have the name that readers know; those of other builds are numbered.
  if (of.schema !== null)
    await setTables(db, names, id, of.state === 'live' ? of.schema : `${of.schema}_b${id}`);
  const job = shardJob(of.name, of.version);
  const items = Array.from({ length: of.shards }, (_, shard) =>
    job.item({ id, shard }, { partitionKey: `${of.name}:${id}:${shard}` }),
  );
  await hf.enqueueMany(items, { tx: client });
  return id;
}

export const unknownProjection = (name: string) =>
  new HoldfastError(
    'PROJECTION_UNKNOWN',
    `There is no projection ${JSON.stringify(name)} with such a build; nothing was done. \`holdfast projections ls\` shows those that there are.`,
  );

/** Throws unless there is one. */
export function pick(all: readonly Build[], name: string, which: (build: Build) => boolean): Build {
  const found = all.findLast(which);
  if (!found) throw unknownProjection(name);
  return found;
}

/** The build becomes the live one. The live one is kept as the old one; one that was old before goes. */
export async function swap(
  client: pg.PoolClient,
  names: Names,
  name: string,
  which: (build: Build) => boolean,
): Promise<Build> {
  const db = engineExecutor(client, { prepare: false });
  await lock(db, names, name);
  await holdAll(db, names, name);
  const all = await builds(db, names, name);
  const next = pick(all, name, which);
  if (next.state === 'live') return next;
  if (next.tables !== null && !next.created)
    throw invalid(
      `Version ${next.version} of projection "${name}" has no tables yet: no worker with its code has begun it. Nothing was done.`,
    );
  for (const build of all)
    if (build.state === 'old' && build.id !== next.id) await remove(client, names, build);
  const live = all.find(({ state }) => state === 'live');
  if (live?.tables && next.tables) {
    const aside = `${live.tables}_b${live.id}`;
    if (live.created)
      await client.query(`ALTER SCHEMA ${quoteName(live.tables)} RENAME TO ${quoteName(aside)}`);
    await client.query(
      `ALTER SCHEMA ${quoteName(next.tables)} RENAME TO ${quoteName(live.tables)}`,
    );
    await setState(db, names, live.id, { state: 'old', tables: aside });
    await setState(db, names, next.id, { state: 'live', tables: live.tables });
  } else {
    if (live) await setState(db, names, live.id, { state: 'old', tables: live.tables });
    await setState(db, names, next.id, { state: 'live', tables: next.tables });
  }
  return next;
}

/** With its tables. Its jobs find nothing to do and end. */
export async function remove(client: pg.PoolClient, names: Names, build: Build): Promise<void> {
  const db = engineExecutor(client, { prepare: false });
  await drop(db, names, build.id);
  if (build.tables) await client.query(`DROP SCHEMA IF EXISTS ${quoteName(build.tables)} CASCADE`);
}
