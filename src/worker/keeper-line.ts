/**
 * A line: one connection of the keeper's thread, made again as soon as it breaks.
 *
 * If it is to hold the liveness lock, the lock is taken before anything else is done on a new connection,
 * and follows when the worker gets another id. While the process lives the lock must not stay free for
 * longer than a reconnection takes, so a broken line does not wait until somebody needs it.
 */
import type { Socket } from 'node:net';
import pg from 'pg';
import { backendPid, dropLiveness, holdLiveness } from '../fleet/liveness.js';
import { engineConfig } from '../postgres/pool.js';
import { type Executor, engineExecutor } from '../postgres/queryable.js';
import { Backoff, pause } from './backoff.js';

/** Others look twice within a second: a database that is back must be met before that. */
const LONGEST_PAUSE_MS = 1_000;
const CONNECT_MS = 5_000;

export interface LineGround {
  readonly url: string;
  readonly pooled: boolean;
  readonly prepare: boolean;
  readonly schema: string;
  readonly queryTimeoutMs: number;
  /** For whom the liveness lock is to be held; null: not on this line. */
  readonly holdsFor: () => string | null;
  /** The line was to hold the lock, and found a pooler in between. */
  readonly foundPooler: () => void;
}

type Client = pg.Client & { processID: number | null; connection: { stream: Socket } };

export class Line {
  readonly #ground: LineGround;
  readonly #halt = new AbortController();
  #client: Client | null = null;
  #preparing: Promise<Executor> | null = null;
  #heldFor: string | null = null;
  #behindPooler = false;
  #opening = false;
  #connectedAt = 0;
  #connections = 0;

  constructor(ground: LineGround) {
    this.#ground = ground;
  }

  /** Whose liveness lock this line holds now. */
  get heldFor(): string | null {
    return this.#client ? this.#heldFor : null;
  }

  /** How long this session has lasted. */
  get ageMs(): number {
    return this.#client ? performance.now() - this.#connectedAt : 0;
  }

  /** There was a session before this one, and it was lost. */
  get reconnected(): boolean {
    return this.#connections > 1;
  }

  /** Connected, and with the lock that it should hold. */
  executor(): Promise<Executor> {
    this.#preparing ??= this.#prepare().finally(() => {
      this.#preparing = null;
    });
    return this.#preparing;
  }

  async #prepare(): Promise<Executor> {
    const client = this.#client ?? (await this.#connect());
    const db = this.#executorOf(client);
    await this.#moveLock(db);
    return db;
  }

  #executorOf(client: Client): Executor {
    const { prepare, pooled } = this.#ground;
    return engineExecutor(client, { prepare, pooled });
  }

  async #connect(): Promise<Client> {
    const { url, pooled, queryTimeoutMs, schema } = this.#ground;
    const client = new pg.Client(
      engineConfig({
        connectionString: url,
        applicationName: 'holdfast keeper',
        connectTimeoutMs: CONNECT_MS,
        queryTimeoutMs,
        pooled,
      }),
    ) as Client;
    client.on('error', () => this.#lost(client));
    try {
      await client.connect();
      if (this.#ground.holdsFor() !== null) {
        const pid = await backendPid(this.#executorOf(client), { schema, queue: 'inbox' });
        this.#behindPooler = pid !== client.processID;
        if (this.#behindPooler) this.#ground.foundPooler();
      }
      if (this.#halt.signal.aborted) throw new Error('the keeper has stopped');
    } catch (error) {
      cut(client);
      throw error;
    }
    this.#client = client;
    this.#heldFor = null;
    this.#connectedAt = performance.now();
    this.#connections++;
    return client;
  }

  async #moveLock(db: Executor): Promise<void> {
    const names = { schema: this.#ground.schema, queue: 'inbox' };
    // A lock that is taken through a pooler stays with the pooler, and would outlive this process.
    const wanted = this.#behindPooler ? null : this.#ground.holdsFor();
    const before = this.#heldFor;
    if (wanted === before) return;
    if (wanted !== null) await holdLiveness(db, names, wanted);
    this.#heldFor = wanted;
    if (before !== null) await dropLiveness(db, names, before);
  }

  #lost(client: Client): void {
    if (this.#client !== client) return;
    this.#client = null;
    void this.open();
  }

  /**
   * Connects and takes the lock, and does not give up. Its errors are not news: whoever uses the line
   * meanwhile waits for the same try, and reports them.
   */
  async open(): Promise<void> {
    if (this.#opening) return;
    this.#opening = true;
    const backoff = new Backoff();
    let done = false;
    while (!done && !this.#halt.signal.aborted) {
      done = await this.executor().then(
        () => true,
        () => false,
      );
      const waitMs = Math.min(backoff.nextMs(), LONGEST_PAUSE_MS);
      if (!done) await pause(waitMs, this.#halt.signal);
    }
    this.#opening = false;
  }

  /** After an error: a session that may be half open is given up, one that only refused is kept. */
  failed(error: unknown): void {
    if (error instanceof pg.DatabaseError && error.severity === 'ERROR') return;
    const client = this.#client;
    if (!client) return;
    this.#lost(client);
    cut(client);
  }

  async close(withinMs: number): Promise<void> {
    this.#halt.abort();
    const client = this.#client;
    this.#client = null;
    if (!client) return;
    const late = new AbortController();
    await Promise.race([client.end().catch(() => undefined), pause(withinMs, late.signal)]);
    late.abort();
    cut(client);
  }
}

function cut(client: Client): void {
  client.connection.stream.destroy();
}
