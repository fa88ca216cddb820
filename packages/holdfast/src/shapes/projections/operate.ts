/** What people ask about projections and do to them, each act in one transaction with its row in the audit. */
import type pg from 'pg';
import { recordOf, together } from '../../api/act/acts.js';
import { type Holdfast, partsOf } from '../../holdfast.js';
import { lagOf, listStopped, type ProjectionGauges } from '../../inspect/projections/lag.js';
import { invalid, shown } from '../../job/errors/holdfast-error.js';
import { checkId } from '../../job/id.js';
import { checkKnown, type Known } from '../../job/options/known-options.js';
import type { ActName } from '../../operate/audit.js';
import { ACT_OPTIONS, type ActOptions, checkActOptions } from '../../operate/options.js';
import type { Names } from '../../postgres/names.js';
import { type Executor, engineExecutor } from '../../postgres/queryable.js';
import { isForeign, PROJECTORS, youngerCluster } from './names.js';
import { addAnew, rebaseLog } from './rebase.js';
import { hint } from './rows/hints.js';
import { type Build, builds, clusterOf, lock } from './rows/registry.js';
import { askToResume } from './rows/resume.js';
import { type Adding, pick, remove, swap, unknownProjection } from './swap.js';
import type { ProjectionInfo, Projections } from './views.js';

const UNDONE = 'Nothing was done.';

const infoOf = (lag: ProjectionGauges): ProjectionInfo => ({
  ...{
    id: lag.id,
    name: lag.name,
    version: lag.version,
    state: lag.state as Build['state'] as never,
  },
  ...{ log: lag.stream, schema: lag.tables, shards: lag.shards, events: lag.events },
  ...{ lagMs: lag.lagMs, applied: lag.applied, stopped: lag.stopped, parked: lag.parked },
  ...{ refused: lag.refused, createdAt: new Date(lag.createdAt) },
  promotedAt: lag.promotedAt === null ? null : new Date(lag.promotedAt),
});

/** With the same code. Its number. */
async function rebuildOf(
  client: pg.PoolClient,
  db: Executor,
  { hf, names, name }: Adding & { readonly name: string },
): Promise<number> {
  await lock(db, names, name);
  const all = await builds(db, names, name);
  const live = pick(all, name, ({ state }) => state === 'live');
  const cluster = await clusterOf(db, names);
  if (live.younger || isForeign(live.cluster, cluster)) throw youngerCluster(name);
  if (all.some(({ state, version }) => state === 'building' && version === live.version))
    throw invalid(`Projection "${name}" is being built already. ${UNDONE}`);
  return addAnew(client, { hf, names }, live, cluster);
}

/** Those that are not live. How many. */
async function removeOf(
  client: pg.PoolClient,
  db: Executor,
  { names, name, version }: { names: Names; name: string; version: number | undefined },
): Promise<number> {
  await lock(db, names, name);
  const all = await builds(db, names, name);
  if (all.length === 0) throw unknownProjection(name);
  const gone = all.filter(
    (one) => one.state !== 'live' && (version === undefined || one.version === version),
  );
  for (const build of gone) await remove(client, names, build);
  await hint(db, names);
  return gone.length;
}

/** `resume` and `skip`: the owners of the shards do it. How many keys, of how many builds. */
async function wish(
  db: Executor,
  names: Names,
  of: { readonly name: string; readonly key: string | null; readonly skip: string | null },
): Promise<number> {
  const asked = await askToResume(db, names, of);
  if (asked > 0) await hint(db, names);
  else if ((await builds(db, names, of.name)).length === 0) throw unknownProjection(of.name);
  return asked;
}

const known = <Given extends ActOptions>(given: Given, more: object, of: string): Given => {
  checkKnown(given, { ...ACT_OPTIONS, ...more } as Known<Given>, of, UNDONE);
  return checkActOptions(given);
};

/**
 * Looks at projections and acts on them.
 * @example
 * for (const { name, state, events, lagMs } of await projections(hf).list()) console.log(name, state, events, lagMs);
 * await projections(hf).resume('order_totals', { key: 'order:9182' });
 */
export function projections(hf: Holdfast): Projections {
  const parts = partsOf(hf);
  if (!parts) throw invalid(`projections() takes what holdfast() returns, not ${shown(hf)}.`);
  const names = { schema: parts.schema, queue: PROJECTORS };
  const read = () => engineExecutor(parts.pool(), { prepare: false });
  /** An act that moved nothing leaves no row in the audit. */
  const act = (
    what: ActName,
    changes: { readonly projection: string } & Readonly<Record<string, unknown>>,
    given: ActOptions,
    work: (client: pg.PoolClient, db: Executor) => Promise<number>,
  ) =>
    together(parts.pool(), async (db, client) => {
      const done = await work(client, db);
      const row = done > 0 ? recordOf({ act: what, queue: null, changes }, given) : null;
      await row?.add(db, names);
      return done;
    });
  return {
    list: async (name) => (await lagOf(read(), names, name ?? null)).map(infoOf),
    stops: async (name) =>
      (await listStopped(read(), names, name ?? null, 1_000)).map((stop) => ({
        ...{ id: stop.projectionId, name: stop.name, key: stop.key, eventId: stop.eventId },
        ...{ position: stop.position, type: stop.type, error: stop.error, parked: stop.parked },
        ...{ since: new Date(stop.since), resumed: stop.resume, skipped: stop.skip },
      })),
    async resume(name, given = {}) {
      const { key = null } = known(given, { key: true }, 'resume()');
      return act('resume_projection', { projection: name, key }, given, (_, db) =>
        wish(db, names, { name, key, skip: null }),
      );
    },
    async skip(name, eventId, given = {}) {
      known(given, {}, 'skip()');
      const changes = { projection: name, event: checkId(eventId) };
      return act('skip_event', changes, given, (_, db) =>
        wish(db, names, { name, key: null, skip: eventId }),
      );
    },
    async rebuild(name, given = {}) {
      known(given, {}, 'rebuild()');
      return act('rebuild_projection', { projection: name }, given, (client, db) =>
        rebuildOf(client, db, { hf, names, name }),
      );
    },
    async promote(name, given = {}) {
      const { version } = known(given, { version: true }, 'promote()');
      return act('promote_projection', { projection: name, version }, given, async (client) => {
        const wanted = (one: Build) =>
          version === undefined ? one.state === 'building' : one.version === version;
        return (await swap(client, names, name, wanted)).id;
      });
    },
    async remove(name, given = {}) {
      const { version } = known(given, { version: true }, 'remove()');
      return act('remove_projection', { projection: name, version }, given, (client, db) =>
        removeOf(client, db, { names, name, version }),
      );
    },
    async rebase(name, given = {}) {
      const { rebuild = false } = known(given, { rebuild: true }, 'rebase()');
      await act('rebase_projection', { projection: name, rebuild }, given, async (client, db) => {
        await rebaseLog(client, db, { hf, names, name, rebuild });
        return 1;
      });
    },
  };
}
