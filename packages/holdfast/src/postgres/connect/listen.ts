/**
 * The listener: a connection of its own that receives notifications, for as long as it is wanted.
 *
 * It reconnects after every loss, with a jittered backoff, and never throws out of a timer. Notifications that are
 * sent meanwhile are lost, so its owner learns of every loss and of every new session, and takes its session locks
 * anew. A connection can be open and receive nothing. So after a while of silence the listener sends itself a ping
 * through another connection, and reconnects if the ping does not arrive. Any notification counts, so of listeners
 * with a channel in common one ping serves all. Behind a pooler, where a session cannot be kept, it reports that
 * once and stays off.
 */
import type { Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import { quoteName } from '../names.js';
import { type Executor, engineExecutor } from '../queryable.js';
import type { Address } from './address.js';
import { Backoff } from './backoff.js';

export interface ListenerDeps {
  readonly address: Address;
  /** What to listen to; asked for every new session. */
  readonly channels: () => readonly string[];
  /** On a new session that listens already: take locks. If it fails, the session is given up. */
  readonly prepare: (db: Executor) => Promise<void>;
  /** From now on every notification arrives. */
  readonly up: () => void;
  /** The session is over, with its locks and with notifications that have not arrived. */
  readonly down: () => void;
  readonly notified: (channel: string, payload: string) => void;
  /** Sends this payload, on another connection, to a channel that is listened to. */
  readonly ping: (payload: string) => Promise<void>;
  /** After how much silence a ping is sent, and how soon it must arrive. */
  readonly pingEveryMs?: number;
  readonly pingTimeoutMs?: number;
  readonly reportError: (what: string, error: unknown) => void;
}

const PING_EVERY_MS = 20_000;
/** The limit for a connection, a statement and a ping. A session that lasted longer resets the backoff. */
const TIMEOUT_MS = 5_000;
const PING = /^!ping:\d+$/;

/** A session that is listened on outlives the server's limit for idle ones, and the role's for statements. */
const STAY = `SELECT set_config('idle_session_timeout', '0', false), set_config('statement_timeout', '0', false)`;

type Client = pg.Client & { processID: number | null; connection: { stream: Socket } };

class BehindPooler extends Error {}

/** Resolves after the time, or at once when the signal is aborted. */
const wait = (ms: number, signal: AbortSignal) =>
  pause(ms, undefined, { signal }).catch(() => undefined);

export class Listener {
  readonly #deps: ListenerDeps;
  readonly #halt = new AbortController();
  #state: 'off' | 'connecting' | 'on' = 'off';
  #client: Client | null = null;
  /** Ends the session: with an error that is reported, or without one. */
  #end: (error: Error | null) => void = () => {};
  #pings = 0;
  #notifiedAt = 0;
  /** Ends the wait for the ping that is under way. */
  #onNotified: () => void = () => {};
  #over: Promise<void> = Promise.resolve();

  constructor(deps: ListenerDeps) {
    this.#deps = deps;
  }

  get state(): 'off' | 'connecting' | 'on' {
    return this.#state;
  }

  start(): void {
    this.#state = 'connecting';
    this.#over = this.#live();
  }

  /** A new session, because the channels or the locks are others now. */
  restart(): void {
    this.#end(null);
  }

  async stop(): Promise<void> {
    this.#halt.abort();
    this.#end(null);
    await this.#over;
  }

  /** Statements on the session. One that fails may have left a lock behind: the session is given up. */
  async run<Value>(work: (db: Executor) => Promise<Value>): Promise<Value> {
    const client = this.#client;
    if (!client || this.#state !== 'on') throw new Error('the listener is not connected');
    try {
      return await work(engineExecutor(client, { prepare: false }));
    } catch (error) {
      if (client === this.#client) this.#end(error as Error);
      throw error;
    }
  }

  async #live(): Promise<void> {
    const { signal } = this.#halt;
    const backoff = new Backoff();
    while (!signal.aborted) {
      const from = performance.now();
      try {
        await this.#session();
      } catch (error) {
        if (signal.aborted) break;
        this.#deps.reportError('listening for notifications', error);
        if (error instanceof BehindPooler) break;
        if (performance.now() - from > TIMEOUT_MS) backoff.reset();
        await wait(backoff.nextMs(), signal);
      }
    }
    this.#state = 'off';
  }

  /** From the connection to its end; rejects with what ended it, unless that was asked for. */
  async #session(): Promise<void> {
    const client = this.#makeClient();
    const over = new AbortController();
    let end: (error: Error | null) => void = () => {};
    const ended = new Promise<'ended'>((resolve, reject) => {
      end = (error) => (error ? reject(error) : resolve('ended'));
    });
    this.#end = end;
    client.on('error', end);
    client.on('end', () => end(new Error('the connection of the listener was closed')));
    client.on('notification', ({ channel, payload }) => this.#notified(channel, payload ?? ''));
    try {
      if ((await Promise.race([this.#open(client), ended])) === 'ended') return;
      this.#client = client;
      this.#state = 'on';
      this.#notifiedAt = performance.now();
      this.#deps.up();
      await Promise.race([ended, this.#pingWhenSilent(client, over.signal)]);
    } finally {
      over.abort();
      this.#end = () => {};
      close(client);
      const was = this.#state;
      this.#client = null;
      this.#state = 'connecting';
      if (was === 'on') this.#deps.down();
    }
  }

  #makeClient(): Client {
    return new pg.Client({
      ...this.#deps.address,
      application_name: 'holdfast listener',
      connectionTimeoutMillis: TIMEOUT_MS,
      query_timeout: TIMEOUT_MS,
      keepAlive: true,
      keepAliveInitialDelayMillis: 10_000,
    }) as Client;
  }

  async #open(client: Client): Promise<'open'> {
    await client.connect();
    const { rows } = await client.query('SELECT pg_backend_pid() AS pid');
    // A number, whatever the program's own parsers make of it.
    if (Number(rows[0].pid) !== client.processID) {
      throw new BehindPooler(
        'a pooler stands before the database, so that this worker cannot be notified and polls only; ' +
          'name a direct connection as listenUrl',
      );
    }
    await client.query(STAY);
    await client.query(this.#deps.channels().map(listenTo).join(';'));
    await this.#deps.prepare(engineExecutor(client, { prepare: false }));
    return 'open';
  }

  #notified(channel: string, payload: string): void {
    this.#notifiedAt = performance.now();
    this.#onNotified();
    if (PING.test(payload)) return;
    try {
      this.#deps.notified(channel, payload);
    } catch (error) {
      // Thrown on, it would go through the socket's handler and end the process.
      this.#deps.reportError('passing on a notification', error);
    }
  }

  /** Resolves when nothing has arrived for so long. */
  async #silence(forMs: number, over: AbortSignal): Promise<void> {
    for (let restMs = forMs; restMs > 0 && !over.aborted; ) {
      await wait(restMs, over);
      restMs = this.#notifiedAt + forMs - performance.now();
    }
  }

  /** Rejects when a ping does not arrive. */
  async #pingWhenSilent(client: Client, over: AbortSignal): Promise<void> {
    const { ping, reportError } = this.#deps;
    const { pingEveryMs = PING_EVERY_MS, pingTimeoutMs = TIMEOUT_MS } = this.#deps;
    for (;;) {
      await this.#silence(pingEveryMs * (0.75 + Math.random() * 0.5), over);
      if (over.aborted) return;
      const arrived = new AbortController();
      this.#onNotified = () => arrived.abort();
      try {
        await ping(`!ping:${++this.#pings}`);
      } catch (error) {
        // The other connection's error says nothing about this one.
        reportError('pinging the listener', error);
        continue;
      }
      await wait(pingTimeoutMs, AbortSignal.any([arrived.signal, over]));
      // It may only lie in the socket because this process was busy: an answer brings it along.
      if (!arrived.signal.aborted && !over.aborted) await client.query('SELECT 1');
      if (!arrived.signal.aborted && !over.aborted) {
        throw new Error('a ping to the listener did not arrive, so it connects anew');
      }
    }
  }
}

const listenTo = (channel: string) => `LISTEN ${quoteName(channel)}`;

/** Closes, and does not wait for an answer: a server that is gone must not keep the process. */
function close(client: Client): void {
  client.end().catch(() => undefined);
  setTimeout(() => client.connection.stream.destroy(), 500).unref();
}
