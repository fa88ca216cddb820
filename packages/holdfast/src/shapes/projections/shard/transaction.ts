/**
 * The transaction of a page: first the fence, then the read model, then COMMIT. So a process that lost its shard writes
 * nothing, and what it reads and what it has read are one.
 */
import type pg from 'pg';
import { withTransaction } from '../../../postgres/connect/pool.js';
import { type Executor, engineExecutor } from '../../../postgres/queryable.js';
import { type Cursor, enter, hold, type Move, move } from '../rows/cursor.js';
import type { Shard, ShardDeps } from './deps.js';

/** The shard has another owner: nothing was committed. */
export class Overtaken extends Error {}

/** A transaction that stands still, because its process does, must not hold rows up for ever. */
const BEGIN = `BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL idle_in_transaction_session_timeout = '15s'`;

export interface Writing {
  readonly client: pg.PoolClient;
  readonly db: Executor;
  readonly cursor: Cursor;
}

type To = Omit<Move, 'projectionId' | 'shard'>;

/** `work` in the transaction that moves the cursor to `to`, or only holds it; returns the cursor as it is then. */
export async function moving(
  { pool, names, prepare }: ShardDeps,
  { projectionId, shard, holder }: Shard,
  to: To | Pick<To, 'cursor'>,
  work: (writing: Writing) => Promise<void>,
): Promise<Cursor> {
  return withTransaction(
    pool,
    async (client) => {
      const db = engineExecutor(client, { prepare });
      const of = { projectionId, shard };
      const cursor =
        'until' in to
          ? await move(db, names, holder, { ...to, ...of })
          : await hold(db, names, holder, { ...to, ...of });
      if (!cursor || !(await enter(db, names, projectionId))) throw new Overtaken();
      await work({ client, db, cursor });
      return cursor;
    },
    BEGIN,
  );
}
