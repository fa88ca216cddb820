/**
 * A connection of the keeper's thread, which may hold the worker's liveness lock. An answer that takes longer than the
 * time limit will not come: the connection may be half open, so it is cut, and a new one is made (tasks.ts).
 */
import type { Socket } from 'node:net';
import pg from 'pg';
import { backendPid, dropLiveness, holdLiveness } from '../../fleet/liveness.js';
import { within } from '../../postgres/connect/backoff.js';
import { engineConfig } from '../../postgres/connect/pool.js';
import type { Names } from '../../postgres/names.js';
import { type Executor, engineExecutor } from '../../postgres/queryable.js';
import { type KeeperSetup, monotonicMs } from './protocol.js';

interface ConnectionDeps extends Pick<KeeperSetup, 'address' | 'pooled' | 'prepare'> {
  readonly names: Names;
  readonly timeoutMs: number;
  readonly locks: () => boolean;
  /** It was to hold the lock, and a pooler stands between. */
  readonly foundPooler: () => void;
}

type Client = pg.Client & { processID: number | null; connection: { stream: Socket } };

export type Connection = ReturnType<typeof newConnection>;

export function newConnection(deps: ConnectionDeps) {
  const { address, pooled, prepare, timeoutMs, locks, foundPooler, names } = deps;
  let client: Client | null = null;
  let closed = false;
  let openedAt = 0;
  let opened = 0;

  function lose(lost: Client): void {
    if (client !== lost) return;
    client = null;
    self.db = null;
    self.lockedFor = null;
    cut(lost);
    self.onLost();
  }

  const self = {
    /** Null while there is no session. */
    db: null as Executor | null,
    /** Whose liveness lock this session holds. */
    lockedFor: null as string | null,
    onLost: () => {},
    get ageMs() {
      return client ? monotonicMs() - openedAt : 0;
    },
    /** There was a session before this one, and it was lost. */
    get reconnected() {
      return opened > 1;
    },
    async open(): Promise<void> {
      const times = { connectTimeoutMs: timeoutMs, queryTimeoutMs: timeoutMs };
      const config = engineConfig({
        ...{ ...address, applicationName: 'holdfast keeper', pooled, ...times },
      });
      const made = new pg.Client(config) as Client;
      made.on('error', () => lose(made));
      const db = engineExecutor(made, { prepare, pooled });
      try {
        await made.connect();
        // A lock that is taken through a pooler stays with the pooler, and outlives this process.
        if (locks() && (await backendPid(db, names)) !== made.processID) foundPooler();
        if (closed) throw new Error('the keeper has stopped');
      } catch (error) {
        cut(made);
        throw error;
      }
      client = made;
      self.db = db;
      openedAt = monotonicMs();
      opened++;
    },
    /** Holds the lock of this worker and of no other. Null: of none. */
    async holdLock(db: Executor, workerId: string | null): Promise<void> {
      const before = self.lockedFor;
      if (workerId === before) return;
      if (workerId !== null) await holdLiveness(db, names, workerId);
      if (db !== self.db) throw new Error('the session broke while it took the liveness lock');
      self.lockedFor = workerId;
      if (before !== null) await dropLiveness(db, names, before);
    },
    /** After an error: a session that may be half open is cut, one that only refused is kept. */
    failed(error: unknown): void {
      if (error instanceof pg.DatabaseError && error.severity === 'ERROR') return;
      if (client) lose(client);
    },
    async close(withinMs: number): Promise<void> {
      closed = true;
      const last = client;
      client = null;
      if (!last) return;
      const ended = last.end().catch(() => undefined);
      await within(withinMs, ended);
      cut(last);
    },
  };
  return self;
}

function cut(client: Client): void {
  client.connection.stream.destroy();
}
