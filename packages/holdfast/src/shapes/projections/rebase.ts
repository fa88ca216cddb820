/** A log in another cluster than the one in which its cursors were written: after a dump was restored, or pg_upgrade. */
import type pg from 'pg';
import { HoldfastError, invalid } from '../../job/errors/holdfast-error.js';
import type { Executor } from '../../postgres/queryable.js';
import { type Build, builds, clusterOf, lock } from './rows/registry.js';
import { adopt, lateOf, rebase } from './rows/resume.js';
import { type Adding, add, pick } from './swap.js';

/** Another build of what is live, with the same code. */
export function addAnew(
  client: pg.PoolClient,
  adding: Adding,
  { name, version, stream, shards, tables }: Build,
  cluster: string | null,
): Promise<number> {
  if (tables === null)
    throw invalid(
      `Projection "${name}" has no \`create\`, so a second build would write to the tables of the live one. Nothing was done. ` +
        'Raise its version and let that write to other tables.',
    );
  const of = { name, version, stream, shards, auto: true, state: 'building' } as const;
  return add(client, adding, { ...of, cluster, tables: null, schema: tables });
}

/**
 * All builds of the log together: the events get xids of this cluster, and from then on nobody can tell any more by the
 * old ones what a cursor had read.
 */
export async function rebaseLog(
  client: pg.PoolClient,
  db: Executor,
  { hf, names, name, rebuild }: Adding & { readonly name: string; readonly rebuild: boolean },
): Promise<void> {
  await lock(db, names, name);
  const { stream } = pick(await builds(db, names, name), name, () => true);
  const of = (await builds(db, names, null)).filter((build) => build.stream === stream);
  const late = await lateOf(db, names, stream);
  const uncertain = of.filter(({ id }) => (late.get(id) ?? 0) > 0);
  if (uncertain.length > 0 && !rebuild)
    throw new HoldfastError(
      'PROJECTION_CLUSTER',
      `Events of the log "${stream}" were committed late, and the cursors of ${uncertain.map((one) => `"${one.name}"`).join(', ')} cannot tell here which of them were read. Nothing was done. ` +
        `Build what is uncertain anew: \`holdfast projections rebase ${name} --rebuild\`.`,
    );
  const cluster = await clusterOf(db, names);
  await adopt(db, names);
  for (const build of of)
    if (!uncertain.includes(build)) await rebase(db, names, { id: build.id, cluster });
    else if (build.state === 'live') await addAnew(client, { hf, names }, build, cluster);
}
