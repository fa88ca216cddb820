/**
 * Database: all that verbs and a worker ask of a Postgres, whichever driver reaches it.
 *
 * It runs statements, each in a transaction of its own; it runs several in one; and it keeps a session.
 * A session is one connection that lasts: it receives notifications, and holds the advisory locks that are
 * taken on it for exactly as long as it lives. Listening and locking are one thing here because they must
 * end together: a worker that no longer receives them must not hold the lock that says it can be woken.
 *
 * `pg` stands behind it in pg-database.ts. Nothing in this file, nor in the verbs, loads a driver, so that
 * they also run where there is no socket, as on PGlite in a browser.
 */
import type { Executor } from './queryable.js';

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
