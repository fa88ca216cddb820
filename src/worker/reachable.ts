/** The start of a worker while the database may be away: it waits, until it is stopped. */
import { Backoff, LAST_MS, pause } from '../postgres/backoff.js';
import type { Logger } from '../postgres/log.js';
import { type ConnectionOptions, closePool, isTransient, plainPool } from '../postgres/pool.js';
import { behindPooler } from '../postgres/pooled.js';

export interface ReachableDeps {
  readonly halt: AbortSignal;
  readonly reportError: (what: string, error: unknown) => void;
}

/** A database that is away for now is waited for; one that refuses us is an error. */
export async function untilReachable(
  { halt, reportError }: ReachableDeps,
  work: () => Promise<void>,
): Promise<void> {
  const backoff = new Backoff();
  const stopped = aborted(halt);
  while (!halt.aborted) {
    try {
      // A database that accepts and does not answer must not hold up a stop.
      await Promise.race([work(), stopped]);
      return;
    } catch (error) {
      if (!isTransient(error)) throw error;
      reportError('starting', error);
      await pause(backoff.nextMs(), halt);
    }
  }
}

/** Whether a pooler stands before the database. Not by the caller's pool: that may go another way. */
export async function findPooler(
  deps: ReachableDeps,
  connection: ConnectionOptions,
  log: Logger,
): Promise<boolean> {
  const pool = plainPool(connection, 1, log);
  let pooled = false;
  await untilReachable(deps, async () => {
    pooled = await behindPooler(pool);
  }).finally(() => closePool(pool, LAST_MS));
  return pooled;
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) =>
    signal.addEventListener('abort', () => resolve(), { once: true }),
  );
}
