/**
 * The turn of a shard: its owner takes the cursor, reads page after page, and waits for events in between. It ends when
 * the turn is over, the worker drains or the job is lost; whoever claims the job next goes on where it stopped.
 */
import { describeError } from '../../../job/errors/failure.js';
import { Backoff } from '../../../postgres/connect/backoff.js';
import { isTransient } from '../../../postgres/connect/transient.js';
import { type Executor, engineExecutor } from '../../../postgres/queryable.js';
import { isForeign, youngerCluster } from '../names.js';
import { type Cursor, type Holder, take } from '../rows/cursor.js';
import { page } from '../rows/page.js';
import { isThere } from '../rows/registry.js';
import { stopsOf } from '../rows/stops.js';
import { makeTables } from './create.js';
import type { Shard, ShardDeps } from './deps.js';
import { applyPage, resumeKey } from './page.js';
import { promoteIfCaughtUp } from './promote.js';
import { Overtaken } from './transaction.js';

/** So that shards spread over the workers that there are, and a crash long ago is not held against a shard. */
const TURN_MS = 10_000;
/** How often the owner looks for keys that are to go on. */
const LOOK_MS = 1_000;

export interface TurnOf {
  readonly projectionId: number;
  readonly shard: number;
  readonly holder: Holder;
  readonly signal: AbortSignal;
}

/** Resolves with how soon the next turn should begin; null: there is nothing to do any more. */
export async function takeTurn(deps: ShardDeps, turn: TurnOf): Promise<number | null> {
  const { pool, names, prepare, projection } = deps;
  const { projectionId, shard: number, holder, signal } = turn;
  const db = engineExecutor(pool, { prepare });
  const taken = await take(db, names, holder, projectionId, number);
  if (!taken) return (await isThere(db, names, projectionId)) ? LOOK_MS : null;
  const { younger, cluster } = taken;
  if (younger || isForeign(cluster, deps.cluster)) throw youngerCluster(projection.name);
  const shard: Shard = { projectionId, shard: number, holder, taken };
  await makeTables(deps, shard);
  if (number === 0) await projection.log.prune();
  const endsAt = performance.now() + TURN_MS * (0.75 + Math.random() / 2);
  const reader = newReader(deps, shard, db);
  const backoff = new Backoff();
  while (!signal.aborted && performance.now() < endsAt) {
    try {
      await reader.look();
      await reader.read(signal);
      backoff.reset();
    } catch (error) {
      if (error instanceof Overtaken) return LOOK_MS;
      deps.log.warn(
        { projection: projection.name, shard: number, err: describeError(error).message },
        'a projection could not go on; it tries again',
      );
      if (!isTransient(error)) return LOOK_MS;
      await deps.watch.pause(backoff.nextMs(), signal);
      // Whether the page was committed is not known.
      const again = await take(db, names, holder, projectionId, number).catch(() => undefined);
      if (!again) return LOOK_MS;
      reader.cursor = again;
    }
  }
  return 0;
}

/** What the owner remembers between pages. */
function newReader(deps: ShardDeps, shard: Shard, db: Executor) {
  const { names, projection, watch } = deps;
  const { projectionId, shard: number, taken } = shard;
  let stops = new Map<string, boolean>();
  let [lookAt, hints] = [0, watch.hints];
  const reader = {
    cursor: taken as Cursor,
    /** Now and then: keys that are to go on, and whether this build has caught up. */
    async look(): Promise<void> {
      if (performance.now() < lookAt && hints === watch.hints) return;
      hints = watch.hints;
      lookAt = performance.now() + LOOK_MS;
      stops = await stopsOf(db, names, projectionId, number);
      const resumed = [...stops].filter(([, resume]) => resume);
      for (const [key] of resumed) reader.cursor = await resumeKey(deps, shard, reader.cursor, key);
      if (resumed.length > 0) {
        stops = await stopsOf(db, names, projectionId, number);
        // The rest of a long line comes with the next look, between pages of the others.
        lookAt = 0;
      }
      if (number === 0 && taken.state === 'building') await promoteIfCaughtUp(deps, projectionId);
    },
    async read(signal: AbortSignal): Promise<void> {
      const { cursor } = reader;
      const next = await page(db, names, projection.log.name, cursor, projection.page);
      if (next.events.length === 0 && cursor.untilSnapshot === null) return watch.wait(signal);
      const applied = await applyPage(deps, shard, cursor, next, stops);
      reader.cursor = applied.cursor;
      for (const key of applied.stopped) stops.set(key, false);
      if (next.events.length > 0) watch.found();
    },
  };
  return reader;
}
