/**
 * How every question of inspect is asked: in a read-only transaction; with a time limit, so that it does not outlive the
 * patience of whoever asked; without compilation, which would cost more than the question; and without reading or sorting
 * a table where an index has the order, whatever the statistics say: after a burst they still call it empty. The settings
 * hold for the transaction only, and so behind any pooler. A locked table is waited for only for a moment: then the
 * question fails with LOCKED, which says who has locked it.
 */
import type pg from 'pg';
import { HoldfastError } from '../../job/errors/errors.js';
import { inTransaction, withClient } from '../../postgres/connect/pool.js';
import { type Executor, engineExecutor } from '../../postgres/queryable.js';
import { statement } from '../../postgres/statement.js';
import { moment } from './columns.js';
import { type LockSession, lockedError, readLocks } from './locks.js';

/** Long enough for a count of millions, short enough not to hold back vacuum for the night. */
export const READ_LIMIT_MS = 60_000;
/** Longer than any lock that the product itself takes on a table. */
export const LOCK_LIMIT_MS = 2_000;

const AGAIN_MS = 50;

export interface ReadOptions {
  /** Whose locks are looked at when one is in the way. Default `holdfast`. */
  readonly schema?: string;
  /** For one statement. Default a minute. */
  readonly limitMs?: number;
  /** How long one statement waits for a lock. Default two seconds. */
  readonly lockMs?: number;
  /** All questions see the same rows; by default each sees what was committed when it began. */
  readonly snapshot?: boolean;
  /** Shared by readings that follow each other: who holds the locks is asked once for all of them. */
  readonly holders?: LockHolders;
}

/** Empty at first. */
export interface LockHolders {
  sessions?: readonly LockSession[];
}

const begin = (options: ReadOptions) => `
BEGIN ISOLATION LEVEL ${options.snapshot ? 'REPEATABLE READ' : 'READ COMMITTED'} READ ONLY;
SET LOCAL timezone = 'UTC';
SET LOCAL datestyle = 'ISO';
SET LOCAL jit = off;
SET LOCAL enable_seqscan = off;
SET LOCAL enable_sort = off;
SET LOCAL idle_in_transaction_session_timeout = 0;
SET LOCAL lock_timeout = ${options.lockMs ?? LOCK_LIMIT_MS};
SET LOCAL statement_timeout = ${options.limitMs ?? READ_LIMIT_MS}`;

/** As it begins by default. */
export const READING = begin({});

/** One part of a reading, which may fail without the rest: what it throws can be caught, and the reading goes on. */
export type Part = <Value>(work: () => Promise<Value>) => Promise<Value>;

/** Several questions on one connection. */
export function reading<Value>(
  pool: pg.Pool,
  work: (db: Executor, part: Part) => Promise<Value>,
  options: ReadOptions = {},
): Promise<Value> {
  return readingOn(
    pool,
    (client, part) => work(engineExecutor(client, { prepare: false }), part),
    options,
  );
}

/** The same for what wants the client itself. */
export async function readingOn<Value>(
  pool: pg.Pool,
  work: (client: pg.PoolClient, part: Part) => Promise<Value>,
  given: ReadOptions,
): Promise<Value> {
  const options = { holders: {}, ...given };
  // Not thrown inside: the connection is whole and goes back to the pool.
  const answer = await withClient(pool, async (client) => {
    try {
      const value = await inTransaction(
        client,
        () => work(client, partOf(client, options)),
        begin(options),
      );
      return { value };
    } catch (error) {
      if (!wasLocked(error)) throw error;
      // In a transaction of its own: the settings of the first one ended with it.
      const ask = () => inTransaction(client, () => findHolders(client, options), begin(options));
      return { locked: await named(ask, error, options) };
    }
  });
  if ('locked' in answer) throw answer.locked;
  return answer.value;
}

function partOf(client: pg.PoolClient, options: ReadOptions): Part {
  return async (work) => {
    await client.query('SAVEPOINT part');
    try {
      const value = await work();
      await client.query('RELEASE part');
      return value;
    } catch (error) {
      await client.query('ROLLBACK TO part');
      if (!wasLocked(error)) throw error;
      // Who has waited for one table does not wait as long for the next.
      await client.query(`SET LOCAL lock_timeout = ${AGAIN_MS}`);
      throw await named(() => findHolders(client, options), error, options);
    }
  };
}

const wasLocked = (error: unknown) => (error as { code?: unknown } | null)?.code === '55P03';

const findHolders = (client: pg.PoolClient, { schema = 'holdfast' }: ReadOptions) =>
  readLocks(engineExecutor(client, { prepare: false }), schema);

/** The first error is the news: where the list of locks cannot be read, it is thrown without names. */
async function named(ask: () => Promise<LockSession[]>, error: unknown, options: ReadOptions) {
  const { schema = 'holdfast', lockMs = LOCK_LIMIT_MS, holders = {} } = options;
  holders.sessions ??= await ask().catch(() => []);
  return lockedError(schema, holders.sessions, lockMs, error);
}

/** True of what a reading threw because a table was locked. */
export const isLocked = (error: unknown): boolean =>
  error instanceof HoldfastError && error.code === 'LOCKED';

export const askClock = statement({
  name: 'clock',
  text: 'SELECT clock_timestamp() AS now',
  columns: { now: moment },
});

/** The database's time, in milliseconds since 1970. */
export async function databaseNow(db: Executor, schema: string): Promise<number> {
  const [row] = await db.run(askClock, { schema, queue: 'inbox' }, []);
  return Date.parse(row?.now as string);
}
