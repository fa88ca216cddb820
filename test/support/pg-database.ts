/**
 * A database as the verbs and a worker need it, whichever driver reaches it: statements, each in a transaction of its own;
 * several in one; and a session, which receives notifications and holds advisory locks for exactly as long as it lives.
 * Here over `pg`; over PGlite in pglite.ts.
 */
import type pg from 'pg';
import { newListener } from '../../packages/holdfast/src/postgres/connect/listen.js';
import { withTransaction } from '../../packages/holdfast/src/postgres/connect/pool.js';
import { BEGIN_POOLED } from '../../packages/holdfast/src/postgres/connect/pooled.js';
import {
  type EngineMode,
  type Executor,
  engineExecutor,
  plainExecutor,
} from '../../packages/holdfast/src/postgres/queryable.js';

export interface Database extends Executor {
  /** Committed when `work` returns, rolled back when it throws. Statements in it run one by one. */
  transaction<Value>(work: (tx: Executor) => Promise<Value>): Promise<Value>;
  /** Opens a session and opens it again after every loss, until it is stopped. */
  session(events: SessionEvents): Session;
}

export interface SessionEvents {
  /** What to listen to; asked for every new session. */
  readonly channels: () => readonly string[];
  /** On a new session that listens already: take locks. If it fails, the session is given up. */
  readonly prepare: (db: Executor) => Promise<void>;
  /** From now on every notification arrives. What was sent before may be lost: look at the tables. */
  readonly up: () => void;
  /** The session is over, with its locks and with notifications that have not arrived. */
  readonly down: () => void;
  readonly notified: (channel: string, payload: string) => void;
  /** What failed, and why; the session goes on by itself. */
  readonly error: (what: string, error: unknown) => void;
}

export interface Session {
  /** Off: it was stopped, or the database can keep no session (a transaction pooler stands before it). */
  readonly state: 'off' | 'connecting' | 'on';
  /** Statements on the session, such as taking a lock. Rejects while there is none. */
  run<Value>(work: (db: Executor) => Promise<Value>): Promise<Value>;
  /** A new session, because the channels or the locks are others now. */
  restart(): void;
  stop(): Promise<void>;
}

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
      const listener = newListener({
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
