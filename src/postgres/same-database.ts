/**
 * Whether two pools lead to one database, whatever hosts and names they were given: an advisory lock that
 * one of them takes is seen by the other, or it is another database. Also through a transaction pooler.
 */
import { randomBytes } from 'node:crypto';
import type pg from 'pg';
import { HoldfastError } from '../job/errors.js';
import { withTransaction } from './pool.js';

const TAKE = 'SELECT pg_advisory_xact_lock($1::bigint), current_database() AS name';
const LOOK = 'SELECT pg_try_advisory_xact_lock($1::bigint) AS free, current_database() AS name';

/** `what` leads elsewhere than the worker's connection: nothing may start. */
export async function checkSameDatabase(
  worker: pg.Pool,
  other: pg.Pool,
  what: string,
): Promise<void> {
  const lock = [randomBytes(8).readBigInt64BE().toString()];
  const found = await withTransaction(worker, async (client) => {
    const [mine] = (await client.query<{ name: string }>(TAKE, lock)).rows;
    const [theirs] = (await other.query<{ name: string; free: boolean }>(LOOK, lock)).rows;
    return { mine: mine?.name, theirs: theirs?.name, same: theirs?.free === false };
  });
  if (found.same) return;
  throw new HoldfastError(
    'OPTION_INVALID',
    `${what} leads to another database or server ("${found.theirs}") than the worker's connection ("${found.mine}"), ` +
      'so nothing was started. Give both the same database; with { pool } alone the worker connects as the pool does.',
  );
}
