/** What people ask about projections and do to them, each act in one transaction. */
import type pg from 'pg';
import { type Holdfast, partsOf } from '../../holdfast.js';
import { lagOf, listStopped, type ProjectionGauges } from '../../inspect/projections/lag.js';
import { invalid, shown } from '../../job/errors/holdfast-error.js';
import { checkKnown, type Known } from '../../job/options/known-options.js';
import { withTransaction } from '../../postgres/connect/pool.js';
import { type Executor, engineExecutor } from '../../postgres/queryable.js';
import { isForeign, PROJECTORS, youngerCluster } from './names.js';
import { addAnew, rebaseLog } from './rebase.js';
import { hint } from './rows/hints.js';
import { type Build, builds, clusterOf, lock } from './rows/registry.js';
import { askToResume } from './rows/resume.js';
import { type Adding, pick, remove, swap, unknownProjection } from './swap.js';

/** A build of a projection, and how far behind it is. */
export interface ProjectionInfo {
  /** Its number. */
  readonly id: number;
  /** The projection's name. */
  readonly name: string;
  /** Of its code and tables. */
  readonly version: number;
  /** `building`: it catches up beside the live one. `old`: it was live, and goes on while workers have its code. */
  readonly state: 'building' | 'live' | 'old';
  /** The log that it reads. */
  readonly log: string;
  /** The schema of its tables; null: it makes none. */
  readonly schema: string | null;
  /** How many workers can share it. */
  readonly shards: number;
  /** About how many events it has not read; up to 100 in a shard they are counted. */
  readonly events: number;
  /** How long ago the oldest of those was written. */
  readonly lagMs: number;
  /** How many events it has read since it was begun. */
  readonly applied: number;
  /** How many keys have stopped at an event that it could not apply. */
  readonly stopped: number;
  /** How many events of these keys wait. */
  readonly parked: number;
  /** When it was begun. */
  readonly createdAt: Date;
  /** When it became live in place of another; null: it did not. */
  readonly promotedAt: Date | null;
}

/** A key that has stopped at an event which its projection could not apply. */
export interface StoppedKey {
  /** The build of the projection. */
  readonly id: number;
  /** The projection's name. */
  readonly name: string;
  /** The key. */
  readonly key: string;
  /** The event that could not be applied. */
  readonly eventId: string;
  /** Where it stands in the log. */
  readonly position: number;
  /** Its type. */
  readonly type: string;
  /** What was thrown. */
  readonly error: string;
  /** Since when. */
  readonly since: Date;
  /** How many events of the key wait, this one included. */
  readonly parked: number;
  /** Whether it was resumed, and nobody has got to it yet. */
  readonly resumed: boolean;
}

/** Looks at projections and acts on them, for programs; `holdfast projections` does the same. */
export interface Projections {
  /**
   * All builds, and how far behind each is.
   * @example const behind = (await projections(hf).list()).filter(({ lagMs }) => lagMs > 60_000);
   */
  list(name?: string): Promise<ProjectionInfo[]>;
  /**
   * Up to 1,000 keys that have stopped, the oldest first.
   * @example const [oldest] = await projections(hf).stops('order_totals');
   */
  stops(name?: string): Promise<StoppedKey[]>;
  /**
   * Applies what waits of a stopped key, in order, or of all of them. Do it once the cause is mended. Returns how many keys
   * were asked to go on.
   * @example await projections(hf).resume('order_totals', { key: 'order:9182' });
   */
  resume(
    name: string,
    options?: {
      /** Default: all keys that have stopped. */
      readonly key?: string;
    },
  ): Promise<number>;
  /**
   * Builds it anew beside the live one, from the start of the log, with the same code. Returns the number of the build.
   * @example await projections(hf).rebuild('order_totals');
   */
  rebuild(name: string): Promise<number>;
  /**
   * Makes a build the live one now. Without a version the latest that is being built.
   * @example await projections(hf).promote('order_totals', { version: 2 });
   */
  promote(
    name: string,
    options?: {
      /** Default: the latest that is being built. */
      readonly version?: number;
    },
  ): Promise<number>;
  /**
   * Removes builds that are not live, with their tables. Without a version all of them. Returns how many.
   * @example await projections(hf).remove('order_totals', { version: 1 });
   */
  remove(
    name: string,
    options?: {
      /** Default: all that are not live. */
      readonly version?: number;
    },
  ): Promise<number>;
  /**
   * After a dump was restored into another cluster, or pg_upgrade: carries the cursors of all projections of its log over by
   * position, where it is certain what was read. Stop the workers first.
   * @example await projections(hf).rebase('order_totals', { rebuild: true });
   */
  rebase(
    name: string,
    options?: {
      /** Build anew where it is not certain. Default: refuse, and do nothing. */
      readonly rebuild?: boolean;
    },
  ): Promise<void>;
}

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
  createdAt: new Date(lag.createdAt),
  promotedAt: lag.promotedAt === null ? null : new Date(lag.promotedAt),
});

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
  const within = <Value>(work: (client: pg.PoolClient, db: Executor) => Promise<Value>) =>
    withTransaction(parts.pool(), (client) =>
      work(client, engineExecutor(client, { prepare: false })),
    );
  const options = <Given extends object>(
    given: Given = {} as Given,
    known: Known<Given>,
    of: string,
  ) => {
    checkKnown(given, known, of, UNDONE);
    return given;
  };
  return {
    list: async (name) => (await lagOf(read(), names, name ?? null)).map(infoOf),
    stops: async (name) =>
      (await listStopped(read(), names, name ?? null, 1_000)).map((stop) => ({
        ...{ id: stop.projectionId, name: stop.name, key: stop.key, eventId: stop.eventId },
        ...{ position: stop.position, type: stop.type, error: stop.error, parked: stop.parked },
        ...{ since: new Date(stop.since), resumed: stop.resume },
      })),
    resume: async (name, given) => {
      const { key = null } = options(given, { key: true }, 'resume()');
      return within(async (_, db) => {
        const asked = await askToResume(db, names, { name, key });
        if (asked > 0) await hint(db, names);
        else if ((await builds(db, names, name)).length === 0) throw unknownProjection(name);
        return asked;
      });
    },
    rebuild: (name) => within((client, db) => rebuildOf(client, db, { hf, names, name })),
    promote: async (name, given) => {
      const { version } = options(given, { version: true }, 'promote()');
      const build = await within((client) =>
        swap(client, names, name, (one) =>
          version === undefined ? one.state === 'building' : one.version === version,
        ),
      );
      return build.id;
    },
    remove: async (name, given) => {
      const { version } = options(given, { version: true }, 'remove()');
      return within(async (client, db) => {
        await lock(db, names, name);
        const all = await builds(db, names, name);
        if (all.length === 0) throw unknownProjection(name);
        const gone = all.filter(
          (one) => one.state !== 'live' && (version === undefined || one.version === version),
        );
        for (const build of gone) await remove(client, names, build);
        await hint(db, names);
        return gone.length;
      });
    },
    rebase: async (name, given) => {
      const { rebuild = false } = options(given, { rebuild: true }, 'rebase()');
      return within((client, db) => rebaseLog(client, db, { hf, names, name, rebuild }));
    },
  };
}
