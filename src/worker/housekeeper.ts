/**
 * The housekeeper: in every worker a timer, in the fleet one pair of hands per queue and interval.
 *
 * A round declares silent workers dead, recovers what they held, and prunes what is past its retention.
 * Each step is a transaction of its own under the advisory lock, so nothing is held for long and a
 * second worker that comes along does nothing. What fails is reported and tried at the next round; what
 * cannot be pruned does not keep the rest.
 */
import type pg from 'pg';
import { deadWorkers } from '../fleet/registry.js';
import { tellOwners } from '../fleet/wake.js';
import { pruneArchive, pruneEffects, pruneIdempotency } from '../housekeeping/prune.js';
import { recover } from '../housekeeping/recover.js';
import { forgetDeadWorkers, sweepDeadWorkers } from '../housekeeping/sweep.js';
import { acquire, takeTurn, waitAndAcquire } from '../housekeeping/turn.js';
import type { Names } from '../postgres/names.js';
import { withTransaction } from '../postgres/pool.js';
import { BEGIN_POOLED } from '../postgres/pooled.js';
import { type EngineMode, type Executor, plainExecutor } from '../postgres/queryable.js';

/** A housekeeper that freezes between two statements must not keep the lock from the others. */
const AND_NOT_FREEZE = "; SET LOCAL idle_in_transaction_session_timeout = '5s'";
/** With a limit in view Postgres may read all of a table in the hope to find enough old rows soon. */
const AND_BY_INDEX = '; SET LOCAL enable_seqscan = off';
const WINDOW = 100;
const RECOVER_BATCH = 1_000;
const PRUNE_BATCH = 5_000;
/** A round does at most this many batches of a kind; the next round goes on. */
const MAX_BATCHES = 20;

export interface HousekeepingReport {
  readonly recovered: number;
  readonly pruned: number;
  readonly dead: readonly string[];
  /** Why something could not be pruned; the rest was. */
  readonly failures: readonly unknown[];
}

export interface HousekeeperGround {
  /** Index plans only: for the queue table. */
  readonly enginePool: pg.Pool;
  /** Bitmaps are allowed: the archive is found through block ranges. */
  readonly plainPool: pg.Pool;
  readonly mode: EngineMode;
  readonly ttlMs: number;
  readonly intervalMs: number;
  readonly workerId: string;
  /** Whether silent workers may be declared dead in this round. */
  readonly sweep: boolean;
}

type Lock = (db: Executor, names: Names) => Promise<boolean>;

/** Runs `work` in a transaction that holds the lock; null when it could not be had. */
function underLock<Value>(
  { enginePool, mode }: HousekeeperGround,
  lock: Lock,
  pool: pg.Pool,
  names: Names,
  work: (db: Executor) => Promise<Value>,
): Promise<Value | null> {
  return withTransaction(
    pool,
    async (client) => {
      // Behind a pooler the transaction has brought the settings along.
      const db = plainExecutor(client, mode);
      return (await lock(db, names)) ? work(db) : null;
    },
    (mode.pooled && pool === enginePool ? BEGIN_POOLED : 'BEGIN') + AND_NOT_FREEZE + AND_BY_INDEX,
  );
}

/** One round for one queue; null when it was not this worker's turn. */
export async function keepHouse(
  ground: HousekeeperGround,
  names: Names,
): Promise<HousekeepingReport | null> {
  const { enginePool, plainPool } = ground;
  const dead = await underLock(ground, acquire, enginePool, names, async (db) => {
    if (!(await takeTurn(db, names, ground.intervalMs))) return null;
    await forgetDeadWorkers(db, names);
    return ground.sweep ? sweepDeadWorkers(db, names, ground.workerId, ground.ttlMs) : [];
  });
  if (dead === null) return null;

  const step = <Value>(pool: pg.Pool, work: (db: Executor) => Promise<Value>) =>
    underLock(ground, waitAndAcquire, pool, names, work);
  const recovered = await inBatches(RECOVER_BATCH, async () => {
    const moved = await step(enginePool, async (db) => {
      const gone = [...new Set([...dead, ...(await deadWorkers(db, names))])];
      const recoverer = ground.workerId;
      const request = { deadWorkers: gone, window: WINDOW, limit: RECOVER_BATCH, recoverer };
      const back = await recover(db, names, request);
      const buckets = back.flatMap((row) =>
        row.status === 'pending' ? [row.partitionBucket] : [],
      );
      // A claim that came while these were being written has passed over them.
      if (buckets.length > 0) await tellOwners(db, names, buckets);
      return back;
    });
    return moved?.length ?? 0;
  });
  let pruned = 0;
  const failures: unknown[] = [];
  for (const prune of [pruneArchive, pruneIdempotency, pruneEffects]) {
    const batch = () => step(plainPool, (db) => prune(db, names, PRUNE_BATCH));
    try {
      pruned += await inBatches(PRUNE_BATCH, async () => (await batch()) ?? 0);
    } catch (error) {
      failures.push(error);
    }
  }
  return { recovered, pruned, dead, failures };
}

/** Repeats a batch while it comes back full, a bounded number of times. Returns how much was done. */
async function inBatches(size: number, batch: () => Promise<number>): Promise<number> {
  let total = 0;
  for (let count = 0; count < MAX_BATCHES; count++) {
    const done = await batch();
    total += done;
    if (done < size) break;
  }
  return total;
}
