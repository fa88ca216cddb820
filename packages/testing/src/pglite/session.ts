/**
 * The one session of a PGlite, which clients share.
 *
 * A client that has begun a transaction holds the session until its end, and everybody else waits, so that nobody
 * runs inside a transaction that is not his; so does a cursor that is not read to its end. Whoever waits for a
 * holder that does nothing meanwhile gets an error after `PATIENCE_MS` instead of hanging. A notification goes
 * to the clients that listen on its channel.
 */

// A test may have replaced the global ones.
import { clearTimeout, setTimeout } from 'node:timers';
import { quoteName } from 'holdfast/internal';
import { message, messagesOf, notification, typeOf } from './messages.js';

/** What is used of a PGlite; its own types are not imported, because the package is optional. */
export interface PgliteLike {
  query(text: string, params?: unknown[]): Promise<{ rows: unknown[] }>;
  exec(text: string): Promise<{ rows: unknown[] }[]>;
  execProtocol(message: Uint8Array, options?: object): Promise<{ data: Uint8Array }>;
  onNotification(callback: (channel: string, payload: string) => void): () => void;
  /** So that nothing comes between the statements of `pglite.transaction()`. */
  _runExclusiveTransaction<Value>(work: () => Promise<Value>): Promise<Value>;
  close(): Promise<void>;
}

/** A client, as the session sees it. */
export interface Listener {
  readonly channels: Set<string>;
  receive(bytes: Buffer): void;
}

export interface Answer {
  readonly bytes: Buffer;
  /** Of the session, after it: outside of a transaction, inside, inside of one that has failed; null: more is expected. */
  readonly status: 'I' | 'T' | 'E' | null;
}

/** Less than the time limit that test runners have. */
const PATIENCE_MS = 4_000;

/** What Postgres says of it: a lock that could not be had. */
export class Stuck extends Error {
  readonly code = '55P03';
}

export class PgliteSession {
  readonly pglite: PgliteLike;
  readonly #clients = new Set<Listener>();
  #holder: object | null = null;
  /** How often something was sent. */
  #sent = 0;
  #names = 0;
  #deafen: (() => void) | null = null;
  readonly #waiting: (() => void)[] = [];

  /** There is one process, and so one number for all. */
  readonly pid: number;

  static async open(pglite: PgliteLike): Promise<PgliteSession> {
    const { rows } = await pglite.query('SELECT pg_backend_pid() AS pid');
    return new PgliteSession(pglite, (rows[0] as { pid: number }).pid);
  }

  private constructor(pglite: PgliteLike, pid: number) {
    this.pglite = pglite;
    this.pid = pid;
  }

  join(client: Listener): void {
    this.#clients.add(client);
    this.#deafen ??= this.pglite.onNotification((channel, payload) => {
      for (const each of this.#clients) {
        if (each.channels.has(channel)) each.receive(notification(this.pid, channel, payload));
      }
    });
  }

  leave(client: Listener): void {
    this.#clients.delete(client);
    if (this.#clients.size > 0) return;
    this.#deafen?.();
    this.#deafen = null;
  }

  /** For a prepared statement: clients may give the same name to different ones. */
  newName(): string {
    return `s${++this.#names}`;
  }

  /** Another client has ended its interest, and with it that of the session. */
  async listenAgain(): Promise<void> {
    const channels = new Set([...this.#clients].flatMap((client) => [...client.channels]));
    const texts = [...channels].map((channel) => `LISTEN ${quoteName(channel)}`);
    if (texts.length > 0) await this.#run(message('Q', texts.join(';')));
  }

  /** Waits for its turn, and keeps it until its transaction is over. */
  async send(client: Listener, bytes: Buffer): Promise<Answer> {
    if (this.#holder !== client) await this.#acquire(client);
    this.#sent++;
    let answer: Answer = { bytes: Buffer.alloc(0), status: 'I' };
    try {
      answer = await this.#run(bytes);
    } finally {
      if (answer.status === 'I') this.#release();
    }
    return answer;
  }

  holds(client: Listener): boolean {
    return this.#holder === client;
  }

  async #run(bytes: Buffer): Promise<Answer> {
    const { pglite } = this;
    const { data } = await pglite._runExclusiveTransaction(() =>
      pglite.execProtocol(bytes, { throwOnError: false }),
    );
    // Under Jest it belongs to another realm.
    const all = Buffer.allocUnsafe(data.length);
    all.set(data);
    let status: Answer['status'] = null;
    const own: Buffer[] = [];
    for (const each of messagesOf(all)) {
      const type = typeOf(each);
      // Those who listen have it already.
      if (type !== 'A') own.push(each);
      if (type === 'Z') status = each.toString('latin1', 5) as Answer['status'];
    }
    return { bytes: Buffer.concat(own), status };
  }

  #acquire(client: Listener): Promise<void> {
    if (this.#holder === null) {
      this.#holder = client;
      return Promise.resolve();
    }
    return new Promise((resolve, reject) => {
      const enter = () => {
        clearTimeout(timer);
        this.#holder = client;
        resolve();
      };
      let sent = this.#sent;
      const look = () => {
        const busy = this.#sent !== sent;
        sent = this.#sent;
        if (busy) {
          timer = setTimeout(look, PATIENCE_MS);
          return;
        }
        this.#waiting.splice(this.#waiting.indexOf(enter), 1);
        reject(new Stuck(STUCK));
      };
      let timer = setTimeout(look, PATIENCE_MS);
      this.#waiting.push(enter);
    });
  }

  #release(): void {
    this.#holder = null;
    this.#waiting.shift()?.();
  }
}

const STUCK =
  `PGlite has a single session, and a transaction or an open cursor has held it for ${PATIENCE_MS / 1000} s while this statement waited; it was not run. ` +
  'A statement beside an open transaction, as ctx.once or pool.query inside of ctx.transaction, needs a second connection: ' +
  'use the transaction for it, or run this test on a Postgres server (see startEmbedded of @holdfast/embedded).';
