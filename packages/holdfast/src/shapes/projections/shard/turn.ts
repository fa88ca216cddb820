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
import { stopsOf, type Wish } from '../rows/stops.js';
import { makeTables } from './create.js';
import type { Shard, ShardDeps } from './deps.js';
import { applyPage, resumeKey } from './page.js';
import { promoteIfCaughtUp } from './promote.js';
import { Overtaken } from './transaction.js';

/** How often it is asked whether another worker has fewer shards. */
const TURN_MS = 10_000;
/** A crash long ago is not held against a shard: the job ends now and then. */
const LONGEST_MS = 60_000;
/** How often the owner looks for keys that are to go on. */
const LOOK_MS = 1_000;
/** The same where a notification tells of it. */
const TOLD_MS = 5_000;

export interface TurnOf {
  readonly projectionId: number;
  readonly shard: number;
  readonly holder: Holder;
  readonly signal: AbortSignal;
  /** How long the job should wait for a worker that has fewer; 0: there is none. */
  readonly pauseMs: () => Promise<number>;
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
  const someMs = () => TURN_MS * (0.75 + Math.random() / 2);
  const lastAt = performance.now() + LONGEST_MS;
  let endsAt = performance.now() + someMs();
  let isOver = false;
  const goesOn = () => !isOver && !signal.aborted && performance.now() < endsAt;
  const pruning = number === 0 ? pruneLog(deps, goesOn) : null;
  const reader = newReader(deps, shard, db);
  try {
    for (;;) {
      const again = await readOn(deps, shard, db, { reader, signal, goesOn });
      if (again !== 0 || signal.aborted) return again;
      const pauseMs = await turn.pauseMs().catch(() => 0);
      if (pauseMs > 0 || performance.now() > lastAt) return pauseMs;
      endsAt = performance.now() + someMs();
    }
  } finally {
    isOver = true;
    await pruning;
  }
}

interface Reading {
  readonly reader: ReturnType<typeof newReader>;
  readonly signal: AbortSignal;
  readonly goesOn: () => boolean;
}

/** Page after page. Resolves as `takeTurn` does. */
async function readOn(
  deps: ShardDeps,
  shard: Shard,
  db: Executor,
  { reader, signal, goesOn }: Reading,
): Promise<number> {
  const { names, projection } = deps;
  const backoff = new Backoff();
  while (goesOn()) {
    try {
      await reader.look();
      await reader.read(signal);
      backoff.reset();
    } catch (error) {
      if (error instanceof Overtaken) return LOOK_MS;
      deps.log.warn(
        { projection: projection.name, shard: shard.shard, err: describeError(error).message },
        'a projection could not go on; it tries again',
      );
      if (!isTransient(error)) return LOOK_MS;
      await deps.watch.pause(backoff.nextMs(), signal);
      // Whether the page was committed is not known.
      const { holder, projectionId } = shard;
      const again = await take(db, names, holder, projectionId, shard.shard).catch(() => undefined);
      if (!again) return LOOK_MS;
      reader.cursor = again;
    }
  }
  return 0;
}

/** Beside the pages, so that it delays none of them. What fails here is tried again with the next turn. */
async function pruneLog({ projection, log }: ShardDeps, goesOn: () => boolean): Promise<void> {
  try {
    while (goesOn() && (await projection.log.prune()) > 0);
  } catch (error) {
    log.warn(
      { log: projection.log.name, err: describeError(error).message },
      'old events could not be deleted; it is tried again',
    );
  }
}

/** What the owner remembers between pages. */
function newReader(deps: ShardDeps, shard: Shard, db: Executor) {
  const { names, projection, watch } = deps;
  const { projectionId, shard: number, taken } = shard;
  let stops = new Map<string, Wish>();
  let [lookAt, acts] = [0, watch.acts];
  const reader = {
    cursor: taken as Cursor,
    /** Now and then: keys that are to go on, and whether this build has caught up. */
    async look(): Promise<void> {
      if (performance.now() < lookAt && acts === watch.acts) return;
      acts = watch.acts;
      const isTold = !watch.isDeaf && taken.state !== 'building';
      lookAt = performance.now() + (isTold ? TOLD_MS : LOOK_MS);
      stops = await stopsOf(db, names, projectionId, number);
      const resumed = [...stops].filter(([, { resume }]) => resume);
      for (const [key, { skip }] of resumed)
        reader.cursor = await resumeKey(deps, shard, reader.cursor, { key, skip });
      if (resumed.length > 0) {
        stops = await stopsOf(db, names, projectionId, number);
        // The rest of a long line comes with the next look, between pages of the others.
        lookAt = 0;
      }
      if (number === 0 && taken.state === 'building') await promoteIfCaughtUp(deps, projectionId);
    },
    async read(signal: AbortSignal): Promise<void> {
      const { cursor } = reader;
      const seen = watch.hints;
      const next = await page(db, names, projection.log.name, cursor, projection.page);
      if (next.events.length === 0 && cursor.untilSnapshot === null)
        return watch.wait(signal, seen);
      const applied = await applyPage(deps, shard, cursor, next, stops);
      reader.cursor = applied.cursor;
      for (const key of applied.stopped) stops.set(key, { resume: false, skip: null });
      if (next.events.length > 0) watch.found();
    },
  };
  return reader;
}
