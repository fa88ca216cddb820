/**
 * The Database over `pg`: statements and transactions on a pool, sessions on connections of their own.
 *
 * The pool is the caller's: it is not closed here. Behind a transaction pooler statements bring their
 * settings along, and a session needs a direct connection: without one it stays off and says why.
 */
import type pg from 'pg';
import { Listener } from './connect/listen.js';
import { withTransaction } from './connect/pool.js';
import { BEGIN_POOLED } from './connect/pooled.js';
import type { Database } from './database.js';
import { type EngineMode, engineExecutor, plainExecutor } from './queryable.js';

export interface PgDatabaseOptions {
  /** Of the engine's own (`enginePool`), so that its sessions have the engine's settings. */
  readonly pool: pg.Pool;
  /** Where sessions connect to, directly. */
  readonly sessionUrl: string;
  readonly mode: EngineMode;
}

export function pgDatabase({ pool, sessionUrl, mode }: PgDatabaseOptions): Database {
  return {
    ...engineExecutor(pool, mode),

    transaction: (work) =>
      // The settings come with BEGIN, so the statements in it need not bring them.
      withTransaction(
        pool,
        (client) => work(plainExecutor(client, mode)),
        mode.pooled ? BEGIN_POOLED : undefined,
      ),

    session(events) {
      const listener = new Listener({
        ...events,
        address: { connectionString: sessionUrl },
        reportError: events.error,
        async ping(word) {
          await pool.query('SELECT pg_notify($1, $2)', [events.channels()[0], word]);
        },
      });
      listener.start();
      return listener;
    },
  };
}
