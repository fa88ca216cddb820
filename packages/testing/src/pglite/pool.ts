/**
 * A pool of `pg` on PGlite, Postgres in this process. All of it is `pg`: its pool, its clients, its queries, results
 * and errors. Only the socket is ours, so whatever works on `pg` works here, in every form that it takes.
 *
 * Clients share the one session of PGlite (see session.ts), and with it settings, temporary tables and advisory locks.
 */
import pg from 'pg';
import type { PgliteSession } from './session.js';
import { PgliteSocket } from './socket.js';

/** They are never connected to; without them `pg` would read the environment. */
const ADDRESS = {
  ...{ host: 'localhost', port: 5432, user: 'postgres', database: 'postgres' },
  ...{ password: '', ssl: false },
};

interface Pulsing {
  _pulseQueue(): void;
}

class PglitePool extends pg.Pool {
  /** `pg` hands out an idle client at the next tick, and a test may have replaced `process.nextTick`. */
  override connect(): Promise<pg.PoolClient>;
  override connect(
    callback: (
      error: Error | undefined,
      client: pg.PoolClient | undefined,
      done: (release?: unknown) => void,
    ) => void,
  ): void;
  override connect(callback?: Parameters<pg.Pool['connect']>[0]): unknown {
    const made: unknown = callback ? super.connect(callback) : super.connect();
    if (this.idleCount > 0) queueMicrotask(() => (this as unknown as Pulsing)._pulseQueue());
    return made;
  }
}

/** Several of them may share one session. */
export function pglitePool(session: PgliteSession): pg.Pool {
  const pool = new PglitePool({
    ...ADDRESS,
    stream: () => new PgliteSocket(session) as never,
    // No timer keeps the process alive.
    ...{ idleTimeoutMillis: 0, allowExitOnIdle: true },
  });
  pool.on('release', (_, client) => {
    const { connection } = client as unknown as { connection: { stream: PgliteSocket } };
    connection.stream.reset();
  });
  return pool;
}
