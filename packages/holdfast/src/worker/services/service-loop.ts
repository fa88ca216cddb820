/**
 * Services: work on a queue that the fleet does once per interval. The worker that wins the election (
 * maintenance/election.ts) runs those that are due, in small statements that pass over what others have locked. Nobody is
 * declared dead before the database has been reachable from here for a whole TTL: after an outage heartbeats are old.
 */
import type pg from 'pg';
import { EARLY, makeDueAgain, type Periodic, winElection } from '../../maintenance/election.js';
import { withTransaction } from '../../postgres/connect/pool.js';
import { BEGIN_POOLED } from '../../postgres/connect/pooled.js';
import type { Names } from '../../postgres/names.js';
import { type EngineMode, type Executor, plainExecutor } from '../../postgres/queryable.js';
import type { SharedDeps } from '../deps.js';
import type { Settings } from '../options.js';
import { rounds } from '../time.js';

export interface Service extends Periodic {
  readonly run: (round: Round) => Promise<number>;
  /** A run that did so much has left something over: it goes on in the next round. */
  readonly atMost?: number;
}

/** Of one queue. */
export interface AddedService extends Service {
  readonly queue: string;
}

export interface Round {
  readonly names: Names;
  readonly workerId: string;
  readonly ttlMs: number;
  readonly maySweep: boolean;
  /** With index plans only, for the queue table. */
  readonly engine: Executor;
  /** A transaction in which bitmaps are allowed: the archive is found through block ranges. */
  readonly withBitmaps: <Value>(work: (db: Executor) => Promise<Value>) => Promise<Value>;
}

/** A transaction on an engine's connection that begins with settings of its own, as `; SET LOCAL …`. */
export function transactionWith<Value>(
  pool: pg.Pool,
  mode: EngineMode,
  settings: string,
  work: (db: Executor) => Promise<Value>,
): Promise<Value> {
  const begin = (mode.pooled ? BEGIN_POOLED : 'BEGIN') + settings;
  return withTransaction(pool, (client) => work(plainExecutor(client, mode)), begin);
}

/** A round does at most this many chunks of a kind; the next round goes on. */
export const MAX_CHUNKS = 20;

/** Repeats a chunk while it comes back full, a bounded number of times. Returns how much was done. */
export async function inChunks(size: number, chunk: (size: number) => Promise<number>) {
  let total = 0;
  for (let count = 1; count <= MAX_CHUNKS; count++) {
    total += await chunk(size);
    if (total < count * size) break;
  }
  return total;
}

/** The archive is found through block ranges, which only bitmaps can read. And nobody freezes with a lock. */
const WITH_BITMAPS =
  "; SET LOCAL enable_bitmapscan = on; SET LOCAL plan_cache_mode = auto; SET LOCAL idle_in_transaction_session_timeout = '5s'";

/** A queue without a job has so many rounds fewer: there is only its archive to prune. */
const UNUSED = 180;

type Shared =
  | 'schema'
  | 'queues'
  | 'engine'
  | 'mode'
  | 'workerId'
  | 'time'
  | 'emit'
  | 'reportError';

interface ServiceLoopDeps extends Pick<SharedDeps, Shared> {
  readonly enginePool: pg.Pool;
  readonly services: readonly Service[];
  /** Those of some queues only. */
  readonly added?: readonly AddedService[];
  /** A round of a queue comes every `maintenanceMs`. */
  readonly settings: Pick<Settings, 'maintenanceMs' | 'ttlMs'>;
}

export function newServiceLoop(deps: ServiceLoopDeps) {
  const { schema, queues, added = [], engine, enginePool, mode, time, reportError } = deps;
  const { maintenanceMs, ttlMs } = deps.settings;
  /** By queue, when its last round began, as far as claims have said. */
  const beganAt = new Map<string, number>();
  /** Queues in which no job is, of whatever kind: their rounds are rare. */
  const unusedQueues = new Set<string>();
  let stopRounds = () => {};
  let stopped = false;
  /** Also at the start: it may have been started at the end of an outage, before the others are back. */
  let outage = true;
  let reachableSince = Number.NEGATIVE_INFINITY;

  function reachableForMs(): number {
    if (outage) reachableSince = time.now();
    outage = false;
    return time.now() - reachableSince;
  }

  function roundMayCome(queue: string): boolean {
    const everyMs = maintenanceMs * (unusedQueues.has(queue) ? UNUSED : 1);
    return time.now() - (beganAt.get(queue) ?? Number.NEGATIVE_INFINITY) >= EARLY * everyMs;
  }

  async function round(queue: string): Promise<void> {
    const names = { schema, queue };
    const services = [...deps.services, ...added.filter((one) => one.queue === queue)];
    try {
      const due = await winElection(engine, names, maintenanceMs, services);
      if (!due) return;
      const about: Round = {
        ...{ names, workerId: deps.workerId(), ttlMs, engine },
        maySweep: reachableForMs() > ttlMs,
        withBitmaps: (work) => transactionWith(enginePool, mode, WITH_BITMAPS, work),
      };
      const done = new Map<string, number>();
      const again: string[] = [];
      for (const { name, run, atMost } of services) {
        if (!due.has(name)) continue;
        try {
          const count = await run(about);
          done.set(name, count);
          if (atMost !== undefined && count >= atMost) again.push(name);
        } catch (error) {
          // One that fails does not keep the rest; it is tried again at the next round.
          again.push(name);
          if (!stopped) reportError(`${name} of ${queue}`, error);
        }
      }
      const recovered = done.get('recover') ?? 0;
      const pruned = [...done].reduce((sum, [name, n]) => sum + (/^prune/.test(name) ? n : 0), 0);
      deps.emit({ kind: 'maintained', queue, recovered, pruned });
      await makeDueAgain(engine, names, again);
    } catch (error) {
      // A worker that stops takes its connections away, and what is left of the round with them.
      if (!stopped) reportError(`maintenance of ${queue}`, error);
    }
  }

  return {
    start(): void {
      const work = async () => {
        // An outage counts from the first election after it, whoever wins it.
        reachableForMs();
        for (const queue of queues) if (roundMayCome(queue)) await round(queue);
      };
      stopRounds = rounds(time, maintenanceMs, work, 0);
    },
    stop(): void {
      stopped = true;
      stopRounds();
    },
    recordOutage(): void {
      outage = true;
    },
    /** A claim has seen when the last round of this queue began. */
    recordRound(queue: string, agoMs: number | null, unused = false): void {
      if (agoMs !== null) beganAt.set(queue, time.now() - agoMs);
      if (unused) unusedQueues.add(queue);
      else unusedQueues.delete(queue);
    },
  };
}
