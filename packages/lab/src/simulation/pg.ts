/**
 * The `pg` of a simulation: clients and pools whose messages go through the simulated network to the simulated
 * server. Statements of a client are executed one after the other, as on a real connection.
 */
import { EventEmitter } from 'node:events';
import type { Owner } from './clock.js';
import type { Session } from './server.js';
import type { Answer } from './wire.js';
import { here, me } from './world.js';

interface Config {
  readonly query_timeout?: number;
  readonly max?: number;
}

interface QueryConfig {
  readonly text: string;
  readonly name?: string;
  readonly values?: readonly unknown[];
  readonly rowMode?: 'array';
}

export class DatabaseError extends Error {
  readonly severity = 'ERROR';
  readonly code: string;
  constructor(message: string, code: string) {
    super(message);
    this.code = code;
  }
}

const broken = (message = 'Connection terminated unexpectedly') =>
  Object.assign(new Error(message), { code: 'ECONNRESET', syscall: 'read' });

const CONNECT_MS = 1;

class Client extends EventEmitter {
  readonly #owner: Owner = me();
  readonly #timeoutMs: number | null;
  #session: Session | null = null;
  #last: Promise<unknown> = Promise.resolve();
  #open = new Set<(error: Error) => void>();
  #ended = false;
  processID: number | null = null;
  readonly connection = { stream: { destroy: () => this.#break(null) } };

  constructor(config: Config = {}) {
    super();
    this.#timeoutMs = config.query_timeout ?? null;
  }

  async connect(): Promise<void> {
    const { clock, server, network } = here();
    const owner = this.#owner;
    const fault = network.befalls(owner, 'connect');
    await new Promise<void>((resolve, reject) => {
      clock.at(owner, CONNECT_MS + network.delayMs(owner), () => {
        if (this.#ended || fault) return reject(broken('connect ECONNREFUSED'));
        this.#session = server.connect(owner, (channel, payload) => this.#hear(channel, payload));
        this.processID = this.#session.pid;
        resolve();
      });
    });
  }

  #hear(channel: string, payload: string): void {
    const { clock, network } = here();
    const session = this.#session;
    if (network.loses(this.#owner, channel)) return;
    clock.at(this.#owner, network.delayMs(this.#owner), () => {
      if (session === this.#session && session?.open)
        this.emit('notification', { channel, payload });
    });
  }

  query(config: string | QueryConfig, params: readonly unknown[] = []): Promise<unknown> {
    const query = typeof config === 'string' ? { text: config, values: params } : config;
    const sent = this.#last.then(() => this.#send(query));
    this.#last = sent.catch(() => undefined);
    return sent;
  }

  #send({ text, name, values = [], rowMode }: QueryConfig): Promise<unknown> {
    const { clock, server, network, note } = here();
    const owner = this.#owner;
    const session = this.#session;
    if (!session || this.#ended)
      return Promise.reject(broken('Client was closed and is not queryable'));
    if (!session.open) {
      this.#break(broken());
      return Promise.reject(broken());
    }
    const what = name?.replace(/_[0-9a-f]+$/, '') ?? text.trim().slice(0, 20).replace(/\s+/g, ' ');
    const fault = network.befalls(owner, what);
    const sentAt = clock.now;
    return new Promise((resolve, reject) => {
      const fail = (error: Error) => {
        this.#open.delete(fail);
        limit?.();
        reject(error);
      };
      this.#open.add(fail);
      const limit = this.#limit(fail);
      const lost = () => clock.at(owner, network.delayMs(owner), () => this.#break(broken()));
      if (fault?.kind === 'cut before') {
        server.disconnect(session);
        lost();
        return;
      }
      const outMs =
        network.delayMs(owner) + (fault && /delay|last word/.test(fault.kind) ? fault.ms : 0);
      if (fault?.kind === 'last word') here().kill(owner);
      server.arrive(outMs, session, () => {
        const answer = server.execute(session, text, values, rowMode !== 'array');
        note(owner, what, values, answer, sentAt, text);
        if (fault?.kind === 'cut after') {
          server.disconnect(session);
          lost();
        } else if (fault?.kind !== 'silence') {
          const backMs = network.delayMs(owner) + (fault?.kind === 'late answer' ? fault.ms : 0);
          clock.at(owner, backMs, () => {
            if (!this.#open.delete(fail)) return;
            limit?.();
            if (answer.error) reject(new DatabaseError(answer.error.message, answer.error.code));
            else resolve({ rows: rowMode === 'array' ? answer.rows : objects(answer) });
          });
        }
      });
    });
  }

  #limit(fail: (error: Error) => void): (() => void) | null {
    if (this.#timeoutMs === null) return null;
    const event = here().clock.at(this.#owner, this.#timeoutMs, () =>
      fail(new Error('Query read timeout')),
    );
    return () => {
      event.cancelled = true;
    };
  }

  /** The connection is over; whoever waits for an answer hears it. */
  #break(error: Error | null): void {
    const session = this.#session;
    this.#session = null;
    if (session?.open) here().server.leave(session);
    for (const fail of [...this.#open]) fail(error ?? broken());
    if (!session || this.#ended) return;
    this.#ended = true;
    if (error && this.listenerCount('error') > 0) this.emit('error', error);
    this.emit('end');
  }

  end(): Promise<void> {
    const session = this.#session;
    this.#ended = true;
    if (session) this.#break(null);
    return Promise.resolve();
  }

  get usable(): boolean {
    return this.#session !== null && !this.#ended;
  }
}

class Pool extends EventEmitter {
  readonly #config: Config;
  readonly #idle: Client[] = [];
  readonly #all = new Set<Client>();
  readonly #waiting: { resolve: (client: Client) => void; reject: (error: Error) => void }[] = [];
  ending = false;

  constructor(config: Config = {}) {
    super();
    this.#config = config;
  }

  async connect(): Promise<Client & { release(error?: Error): void }> {
    const client = await this.#take();
    const lent = client as Client & { release(error?: Error): void };
    lent.release = (error) => this.#giveBack(client, error);
    this.emit('acquire', lent);
    return lent;
  }

  async #take(): Promise<Client> {
    if (this.ending)
      throw broken('Cannot use a pool after calling end on the pool; client was closed');
    for (let idle = this.#idle.pop(); idle; idle = this.#idle.pop()) {
      if (idle.usable) return idle;
      this.#remove(idle);
    }
    if (this.#all.size >= (this.#config.max ?? 10)) {
      return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }));
    }
    const client = new Client(this.#config);
    client.on('error', () => this.#remove(client));
    this.#all.add(client);
    this.emit('connect', client);
    try {
      await client.connect();
    } catch (error) {
      this.#remove(client);
      throw error;
    }
    return client;
  }

  #giveBack(client: Client, error?: Error): void {
    if (error || !client.usable || this.ending) {
      this.#remove(client);
      const next = this.#waiting.shift();
      if (next) this.#take().then(next.resolve, next.reject);
      return;
    }
    const next = this.#waiting.shift();
    if (next) next.resolve(client);
    else this.#idle.push(client);
  }

  #remove(client: Client): void {
    if (!this.#all.delete(client)) return;
    void client.end();
    this.emit('remove', client);
  }

  async query(config: string | QueryConfig, params?: readonly unknown[]): Promise<unknown> {
    const client = await this.connect();
    try {
      const result = await client.query(config, params);
      client.release();
      return result;
    } catch (error) {
      client.release(error as Error);
      throw error;
    }
  }

  /** Harsher than a real one, which waits for those that are lent out. */
  end(): Promise<void> {
    this.ending = true;
    for (const client of [...this.#all]) this.#remove(client);
    return Promise.resolve();
  }
}

function objects({ fields, rows }: Answer): Record<string, unknown>[] {
  // Of the numbers that are read in this way, one is compared as a number.
  const parsed = (field: string, value: string | null) => (field === 'pid' ? Number(value) : value);
  return rows.map((row) =>
    Object.fromEntries(fields.map((field, at) => [field, parsed(field, row[at] ?? null)])),
  );
}

const pg = { Client, Pool, DatabaseError, defaults: { user: 'lab' } };

// biome-ignore lint/style/noDefaultExport: the module whose place it takes has one.
export default pg;
