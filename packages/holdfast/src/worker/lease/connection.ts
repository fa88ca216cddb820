/**
 * A connection of the keeper's thread, which may hold the liveness lock of the worker.
 *
 * Every statement has a time limit: an answer that takes longer will not come, because the connection may be
 * half open. Then it is cut, and a new one is made by those who share it (tasks.ts).
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

export class Connection {
  readonly #deps: ConnectionDeps;
  #client: Client | null = null;
  /** Null while there is no session. */
  db: Executor | null = null;
  #closed = false;
  /** Whose liveness lock this session holds. */
  lockedFor: string | null = null;
  #openedAt = 0;
  #opened = 0;
  onLost: () => void = () => {};

  constructor(deps: ConnectionDeps) {
    this.#deps = deps;
  }

  get ageMs(): number {
    return this.#client ? monotonicMs() - this.#openedAt : 0;
  }

  /** There was a session before this one, and it was lost. */
  get reconnected(): boolean {
    return this.#opened > 1;
  }

  async open(): Promise<void> {
    const { address, pooled, prepare, timeoutMs, locks, foundPooler } = this.#deps;
    const config = engineConfig({
      ...address,
      applicationName: 'holdfast keeper',
      connectTimeoutMs: timeoutMs,
      queryTimeoutMs: timeoutMs,
      pooled,
    });
    const client = new pg.Client(config) as Client;
    client.on('error', () => this.#lose(client));
    const db = engineExecutor(client, { prepare, pooled });
    try {
      await client.connect();
      // A lock that is taken through a pooler stays with the pooler, and outlives this process.
      if (locks() && (await backendPid(db, this.#deps.names)) !== client.processID) foundPooler();
      if (this.#closed) throw new Error('the keeper has stopped');
    } catch (error) {
      cut(client);
      throw error;
    }
    this.#client = client;
    this.db = db;
    this.#openedAt = monotonicMs();
    this.#opened++;
  }

  /** Holds the lock of this worker and of no other. Null: of none. */
  async holdLock(db: Executor, workerId: string | null): Promise<void> {
    const before = this.lockedFor;
    if (workerId === before) return;
    if (workerId !== null) await holdLiveness(db, this.#deps.names, workerId);
    if (db !== this.db) throw new Error('the session broke while it took the liveness lock');
    this.lockedFor = workerId;
    if (before !== null) await dropLiveness(db, this.#deps.names, before);
  }

  /** After an error: a session that may be half open is cut, one that only refused is kept. */
  failed(error: unknown): void {
    if (error instanceof pg.DatabaseError && error.severity === 'ERROR') return;
    if (this.#client) this.#lose(this.#client);
  }

  #lose(client: Client): void {
    if (this.#client !== client) return;
    this.#client = null;
    this.db = null;
    this.lockedFor = null;
    cut(client);
    this.onLost();
  }

  async close(withinMs: number): Promise<void> {
    this.#closed = true;
    const client = this.#client;
    this.#client = null;
    if (!client) return;
    await within(
      withinMs,
      client.end().catch(() => undefined),
    );
    cut(client);
  }
}

function cut(client: Client): void {
  client.connection.stream.destroy();
}
