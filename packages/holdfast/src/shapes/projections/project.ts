/** Adds projections to a worker: their builds and shards to the database, the handlers of the shards to the worker. */
import type { Holdfast } from '../../holdfast.js';
import { partsOf } from '../../holdfast.js';
import { HoldfastError, Snooze } from '../../job/errors/errors.js';
import { describeError } from '../../job/errors/failure.js';
import { invalid, shown } from '../../job/errors/holdfast-error.js';
import { plainPool, withTransaction } from '../../postgres/connect/pool.js';
import { behindPooler } from '../../postgres/connect/pooled.js';
import { engineExecutor } from '../../postgres/queryable.js';
import { checkWorker, Handling } from '../../worker/handlers.js';
import type { HandlerContext } from '../../worker/run/handler-context.js';
import type { Worker } from '../../worker/worker.js';
import { isForeign, PROJECTORS, type ShardOf, shardJob, youngerCluster } from './names.js';
import type { Projection } from './projection.js';
import { type Build, builds, clusterOf, lock } from './rows/registry.js';
import { newSessions } from './shard/sessions.js';
import { pauseFor } from './shard/spread.js';
import { takeTurn } from './shard/turn.js';
import { add } from './swap.js';

/** Connections of a projecting process, beside those of its worker. */
const MAX_CONNECTIONS = 8;
/** A live build, one that is built anew, and one that was. */
const BUILDS = 4;

/**
 * Lets a worker build projections. Call it before `run()`. It makes the queue `projectors`, and a build for each projection
 * whose version is new: the first is live at once, a later one is built beside the live one.
 * @example
 * const projector = hf.worker();
 * await project(projector, [orderTotals]);
 * await projector.run();
 */
export async function project(worker: Worker, projections: readonly Projection[]): Promise<void> {
  checkWorker(worker, 'The first argument of project()', 'Nothing was done.');
  if (!Array.isArray(projections) || projections.length === 0)
    throw invalid(
      `project() takes a worker and an array of projections, not ${shown(projections)}. Nothing was done.`,
    );
  const { hf } = (projections[0] as Projection).log;
  if (projections.some(({ log }) => log.hf !== hf))
    throw invalid(
      'The logs of these projections were made with different holdfast() objects. Nothing was done.',
    );
  const parts = partsOf(hf);
  if (!parts)
    throw invalid('The log of a projection was not made with eventLog(). Nothing was done.');
  const { schema, connection, log } = parts;
  await hf.createQueue(PROJECTORS, { ordering: 'key' });
  for (const one of projections) await register(hf, schema, one);
  const pool = plainPool(
    { ...connection, applicationName: 'holdfast projector' },
    MAX_CONNECTIONS,
    log,
  );
  parts.onClose(() => pool.end());
  const prepare = !(parts.pooler || (await behindPooler(pool)));
  const names = { schema, queue: PROJECTORS };
  const cluster = await clusterOf(engineExecutor(pool, { prepare }), names);
  const sessions = newSessions({ connection, names, pool, log });
  parts.onClose(() => sessions.stop());
  for (const projection of projections) {
    const { watch } = sessions;
    const deps = { ...{ projection, pool, names, prepare, watch, cluster }, log };
    const held = new Map<number, number>();
    const count = (id: number, by: number) => held.set(id, (held.get(id) ?? 0) + by).get(id) ?? 0;
    const handler = async (context: HandlerContext<unknown>) => {
      const { payload, id, fenceToken, signal, type, partitionKey } = context;
      const { id: projectionId, shard } = payload as ShardOf;
      const holder = { jobId: id, generation: fenceToken };
      const pauseMs = () => pauseFor(deps, { type, partitionKey, held: count(projectionId, 0) });
      count(projectionId, 1);
      const again = await sessions
        .during(() => takeTurn(deps, { projectionId, shard, holder, signal, pauseMs }))
        .catch((error) => {
          log.error(
            { projection: projection.name, shard, err: describeError(error).message },
            'a projection cannot run',
          );
          return FAILED_MS;
        });
      count(projectionId, -1);
      if (again !== null) throw new Snooze(again, 'the turn of the shard is over');
    };
    const job = shardJob(projection.name, projection.version);
    Handling.addResident(worker, job as never, projection.shards * BUILDS, handler as never);
  }
}

const FAILED_MS = 5_000;

/** Adds a build if the version is new, and throws where the cursors cannot be trusted. */
async function register(hf: Holdfast, schema: string, projection: Projection): Promise<void> {
  const parts = partsOf(hf);
  const pool = parts?.pool();
  if (!pool) return;
  const { name, version } = projection;
  const names = { schema, queue: PROJECTORS };
  await withTransaction(pool, async (client) => {
    const db = engineExecutor(client, { prepare: false });
    await lock(db, names, name);
    const all = await builds(db, names, name);
    const cluster = await clusterOf(db, names);
    checkCluster(all, name, cluster);
    for (const build of all) checkBuild(projection, build);
    if (all.some((build) => build.version === version)) return;
    const state = all.some((build) => build.state === 'live') ? 'building' : 'live';
    const { shards, promote: auto, schema: tables } = projection;
    const stream = projection.log.name;
    const of = { name, version, stream, shards, auto, state, cluster, tables: null } as const;
    await add(client, { hf, names }, { ...of, schema: tables });
  });
}

/** A foreign build may be what a rebuild replaces; then it stands still, and its successor is built. */
function checkCluster(all: readonly Build[], name: string, cluster: string | null): void {
  const foreign = (build: Build) => build.younger || isForeign(build.cluster, cluster);
  const live = all.find(({ state }) => state === 'live');
  if (!live || !foreign(live)) return;
  if (!all.some((build) => build.state === 'building' && !foreign(build)))
    throw youngerCluster(name);
}

function checkBuild({ name, version, log, schema }: Projection, build: Build): void {
  if (build.version !== version) return;
  const changed = (was: string) =>
    new HoldfastError(
      'PROJECTION_CHANGED',
      `Version ${version} of projection "${name}" ${was}. Nothing was done. Raise its version.`,
    );
  if (build.stream !== log.name)
    throw changed(`reads the log "${build.stream}", and this program's reads "${log.name}"`);
  if ((schema === null) !== (build.tables === null))
    throw changed(
      `was built ${schema === null ? 'with' : 'without'} \`create\`, and this program's is not so`,
    );
}
