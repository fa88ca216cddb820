/** A database that may be away: the start waits for it, until the worker is stopped; and what counts as away. */
import { once } from 'node:events';
import type pg from 'pg';
import { HoldfastError } from '../job/errors.js';
import type { Address } from '../postgres/address.js';
import { LAST_MS, untilDone } from '../postgres/backoff.js';
import type { Logger } from '../postgres/log.js';
import { closePool, isHeldUp, isOutage, isTransient, plainPool } from '../postgres/pool.js';
import { behindPooler } from '../postgres/pooled.js';
import type { Executor } from '../postgres/queryable.js';
import { checkSameDatabase } from '../postgres/same-database.js';

const DIRECT_MS = 5_000;

export interface ReachableDeps {
  readonly halt: AbortSignal;
  readonly reportError: (what: string, error: unknown) => void;
}

/** A database that is away for now is waited for; one that refuses us is an error. */
export async function untilReachable(
  { halt, reportError }: ReachableDeps,
  work: () => Promise<void>,
): Promise<void> {
  // A database that accepts and does not answer must not hold up a stop.
  const stopped = once(halt, 'abort');
  const orStopped = () => Promise.race([work(), stopped]);
  await untilDone(halt, orStopped, (error) => {
    if (!isTransient(error)) throw error;
    reportError('starting', error);
  });
}

/**
 * Whether the database was away for everybody. A statement that had no answer within its time may have been slow, on a
 * database that was there: it was if a heartbeat that was sent after it has been confirmed.
 */
export function wasAway(error: unknown, confirmedAgoMs: number, timeoutMs: number): boolean {
  if (!isOutage(error)) return false;
  return !isHeldUp(error) || confirmedAgoMs > timeoutMs;
}

/** After an outage, one line that it is over: at the first answer to a statement of the engine. */
export class Outage {
  readonly #log: Logger;
  #since: number | null = null;

  constructor(log: Logger) {
    this.#log = log;
  }

  record(): void {
    this.#since ??= performance.now();
  }

  watch(engine: Executor): Executor {
    return {
      run: async (statement, names, params) => {
        const rows = await engine.run(statement, names, params);
        if (this.#since !== null) this.#end(this.#since);
        return rows;
      },
    };
  }

  #end(since: number): void {
    this.#since = null;
    this.#log.info({ awayMs: Math.round(performance.now() - since) }, 'the database answers again');
  }
}

/** Whether a pooler stands before the database. Not by the caller's pool: that may go another way. */
export async function findPooler(
  deps: ReachableDeps,
  address: Address,
  log: Logger,
): Promise<boolean> {
  const pool = plainPool(address, 1, log);
  let pooled = false;
  await untilReachable(deps, async () => {
    pooled = await behindPooler(pool);
  }).finally(() => closePool(pool, LAST_MS));
  return pooled;
}

/** A direct way that is closed for now is the listener's to report; the worker polls until it opens. */
export async function checkDirect(worker: pg.Pool, direct: Address, log: Logger): Promise<void> {
  const pool = plainPool({ ...direct, queryTimeoutMs: DIRECT_MS }, 1, log);
  try {
    await checkSameDatabase(worker, pool, 'listenUrl');
  } catch (error) {
    if (error instanceof HoldfastError) throw error;
  } finally {
    await closePool(pool, LAST_MS);
  }
}
