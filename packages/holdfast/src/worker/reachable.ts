/** A database that may be away: the start waits for it, until the worker is stopped; and what counts as away. */
import { once } from 'node:events';
import type pg from 'pg';
import { HoldfastError } from '../job/errors/errors.js';
import type { Address } from '../postgres/connect/address.js';
import { LAST_MS, untilDone } from '../postgres/connect/backoff.js';
import { closePool, plainPool } from '../postgres/connect/pool.js';
import { behindPooler } from '../postgres/connect/pooled.js';
import { checkSameDatabase } from '../postgres/connect/same-database.js';
import { isHeldUp, isOutage, isTransient } from '../postgres/connect/transient.js';
import type { Logger } from '../postgres/log/log.js';
import type { Executor } from '../postgres/queryable.js';
import type { WorkerDeps } from './deps.js';
import { ANSWER_MS } from './time.js';

export interface ReachableDeps {
  readonly halt: AbortSignal;
  readonly reportError: (what: string, error: unknown) => void;
}

/**
 * A database that is away for now is waited for; one that refuses us is an error, unless every error is waited out (
 * `whatever`). One that accepts and does not answer must not hold up a stop. Null: stopped.
 */
export function untilReachable<Value>(
  { halt, reportError }: ReachableDeps,
  what: string,
  work: () => Promise<Value>,
  whatever = false,
): Promise<Value | null> {
  const over = new AbortController();
  const nothing = () => null;
  const stopped = once(halt, 'abort', { signal: over.signal }).then(nothing, nothing);
  const orStopped = () => Promise.race([work(), stopped]);
  const failed = (error: unknown) => {
    if (!whatever && !isTransient(error)) throw error;
    reportError(what, error);
  };
  return untilDone(halt, orStopped, failed).finally(() => over.abort());
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
export function outageOf(log: Logger) {
  let since: number | null = null;
  return {
    record(): void {
      since ??= performance.now();
    },
    watch(engine: Executor): Executor {
      return {
        run: async (statement, names, params) => {
          const rows = await engine.run(statement, names, params);
          if (since !== null) {
            const awayMs = Math.round(performance.now() - since);
            log.info({ awayMs }, 'the database answers again');
          }
          since = null;
          return rows;
        },
      };
    },
  };
}

/** Whether a pooler stands before the database. Not by the caller's pool: that may go another way. */
export async function findPooler(deps: ReachableDeps, address: Address, log: Logger) {
  const pool = plainPool(address, 1, log);
  const pooled = untilReachable(deps, 'starting', () => behindPooler(pool));
  return (await pooled.finally(() => closePool(pool, LAST_MS))) ?? false;
}

/** Enqueues, handlers' transactions, claims and hints have to meet in one database. */
export async function checkWays(
  worker: pg.Pool,
  { pool, besidePool, direct }: Pick<WorkerDeps, 'pool' | 'besidePool' | 'direct'>,
  log: Logger,
): Promise<void> {
  if (besidePool) await checkSameDatabase(worker, pool, 'The pool');
  if (!direct) return;
  const way = plainPool({ ...direct, queryTimeoutMs: ANSWER_MS }, 1, log);
  try {
    await checkSameDatabase(worker, way, 'listenUrl');
  } catch (error) {
    // One that is closed for now is the listener's to report; the worker polls until it opens.
    if (error instanceof HoldfastError) throw error;
  } finally {
    await closePool(way, LAST_MS);
  }
}
