/**
 * Whether two pools lead to one database, whatever hosts and names they were given: an advisory lock that
 * one of them takes is seen by the other, or it is another database. Also through a transaction pooler.
 */
import { randomBytes } from 'node:crypto';
import type pg from 'pg';
import { HoldfastError } from '../../job/errors/errors.js';
import { withTransaction } from './pool.js';

const TAKE = 'SELECT pg_advisory_xact_lock($1::bigint), current_database() AS name';
const LOOK = 'SELECT pg_try_advisory_xact_lock($1::bigint) AS free, current_database() AS name';

/** Throws if `what` leads elsewhere than `mine`, the connection of holdfast(). `undone` says what was not done. */
export async function checkSameDatabase(
  mine: pg.Pool,
  other: pg.Pool,
  what: string,
  undone = 'nothing was started',
): Promise<void> {
  const lock = [randomBytes(8).readBigInt64BE().toString()];
  // The other one may be the caller's, and have no client free: nothing of ours waits for it.
  const found = await withTransaction(other, async (client) => {
    const [theirs] = (await client.query<{ name: string }>(TAKE, lock)).rows;
    const [ours] = (await mine.query<{ name: string; free: boolean }>(LOOK, lock)).rows;
    return { ours: ours?.name, theirs: theirs?.name, same: ours?.free === false };
  });
  if (found.same) return;
  throw new HoldfastError(
    'OPTION_INVALID',
    `${what} leads to another database or server ("${found.theirs}") than the connection of holdfast() ("${found.ours}"), ` +
      `so ${undone}. Give both the same database; with { pool } alone all connections lead where the pool does.`,
  );
}
