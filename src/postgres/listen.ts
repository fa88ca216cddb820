/**
 * The listener: a connection of its own that hears notifications, for as long as it is wanted.
 *
 * It comes back by itself after every loss, with a jittered backoff, and never throws out of a timer. What
 * was said while it was away is lost, so its owner is told of every loss and of every new session, and
 * takes its session locks anew. A connection can be open and deaf; so a listener that has heard nothing
 * for a while has itself called through another connection, and makes a new one when it does not hear
 * that. Whatever it hears will do, so of listeners with a channel in common one call serves all. Behind
 * a pooler, where a session cannot be kept, it says so once and stays off.
 */
import type { Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import { quoteName } from './names.js';
import { type Executor, engineExecutor } from './queryable.js';

export interface ListenerDeps {
  readonly connectionString: string;
  /** What to listen to; asked for every new session. */
  readonly channels: () => readonly string[];
  /** On a new session that listens already: take locks. If it fails, the session is given up. */
  readonly prepare: (db: Executor) => Promise<void>;
  /** From now on everything is heard. */
  readonly up: () => void;
  /** The session is over, with its locks, and with whatever was said and not yet heard. */
  readonly down: () => void;
  readonly heard: (channel: string, payload: string) => void;
  /** Sends this word, on another connection, to a channel that is listened to. */
  readonly call: (word: string) => Promise<void>;
  /** After how much silence the hearing is tested, and how soon a call must be heard. */
  readonly callEveryMs?: number;
  readonly hearWithinMs?: number;
  readonly reportError: (what: string, error: unknown) => void;
}

const CALL_EVERY_MS = 20_000;
const HEAR_WITHIN_MS = 5_000;
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 5_000;
/** A session that lasted so long was a good one: the next loss starts with a short pause again. */
const GOOD_MS = 5_000;
const CONNECT_MS = 10_000;
const QUERY_MS = 5_000;
const GOODBYE_MS = 500;
const CALL = /^!ping:\d+$/;

/** A session that is listened on outlives the server's limit for idle ones. */
const STAY = `SELECT set_config('idle_session_timeout', '0', false)`;

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
  /** Ends the session: with an error that is told, or without one. */
  #end: (error: Error | null) => void = () => {};
  #calls = 0;
  #heardAt = 0;
  /** Ends the wait for the call that is under way. */
  #onHeard: () => void = () => {};
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
    let losses = 0;
    while (!signal.aborted) {
      const from = performance.now();
      try {
        await this.#session();
      } catch (error) {
        if (signal.aborted) break;
        this.#deps.reportError('listening for notifications', error);
        if (error instanceof BehindPooler) break;
        losses = performance.now() - from > GOOD_MS ? 0 : losses + 1;
        const ceilingMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(losses, 10));
        await wait(ceilingMs * (0.25 + Math.random() * 0.75), signal);
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
    client.on('notification', ({ channel, payload }) => this.#hear(channel, payload ?? ''));
    try {
      if ((await Promise.race([this.#open(client), ended])) === 'ended') return;
      this.#client = client;
      this.#state = 'on';
      this.#heardAt = performance.now();
      this.#deps.up();
      await Promise.race([ended, this.#testHearing(client, over.signal)]);
    } finally {
      over.abort();
      this.#end = () => {};
      hangUp(client);
      const was = this.#state;
      this.#client = null;
      this.#state = 'connecting';
      if (was === 'on') this.#deps.down();
    }
  }

  #makeClient(): Client {
    return new pg.Client({
      connectionString: this.#deps.connectionString,
      application_name: 'holdfast listener',
      connectionTimeoutMillis: CONNECT_MS,
      query_timeout: QUERY_MS,
      keepAlive: true,
      keepAliveInitialDelayMillis: 10_000,
    }) as Client;
  }

  async #open(client: Client): Promise<'open'> {
    await client.connect();
    const { rows } = await client.query('SELECT pg_backend_pid() AS pid');
    if (rows[0].pid !== client.processID) {
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

  #hear(channel: string, payload: string): void {
    this.#heardAt = performance.now();
    this.#onHeard();
    if (CALL.test(payload)) return;
    try {
      this.#deps.heard(channel, payload);
    } catch (error) {
      // Thrown on, it would go through the socket's handler and end the process.
      this.#deps.reportError('passing on a notification', error);
    }
  }

  /** Resolves when nothing has been heard for so long. */
  async #silence(forMs: number, over: AbortSignal): Promise<void> {
    for (let restMs = forMs; restMs > 0 && !over.aborted; ) {
      await wait(restMs, over);
      restMs = this.#heardAt + forMs - performance.now();
    }
  }

  /** Rejects when the session turns out to be deaf. */
  async #testHearing(client: Client, over: AbortSignal): Promise<void> {
    const { call, reportError, callEveryMs = CALL_EVERY_MS } = this.#deps;
    const hearWithinMs = this.#deps.hearWithinMs ?? HEAR_WITHIN_MS;
    for (;;) {
      await this.#silence(callEveryMs * (0.75 + Math.random() * 0.5), over);
      if (over.aborted) return;
      const heard = new AbortController();
      this.#onHeard = () => heard.abort();
      try {
        await call(`!ping:${++this.#calls}`);
      } catch (error) {
        // The other connection's error says nothing about this one.
        reportError('calling the listener', error);
        continue;
      }
      await wait(hearWithinMs, AbortSignal.any([heard.signal, over]));
      // It may only lie in the socket because this process was busy: an answer brings it along.
      if (!heard.signal.aborted && !over.aborted) await client.query('SELECT 1');
      if (!heard.signal.aborted && !over.aborted) {
        throw new Error('the listener was deaf to its own call, and connects anew');
      }
    }
  }
}

const listenTo = (channel: string) => `LISTEN ${quoteName(channel)}`;

/** Says goodbye, and does not wait for an answer: a server that is gone must not keep the process. */
function hangUp(client: Client): void {
  client.end().catch(() => undefined);
  setTimeout(() => client.connection.stream.destroy(), GOODBYE_MS).unref();
}
