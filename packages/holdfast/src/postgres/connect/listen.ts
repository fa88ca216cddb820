/**
 * The listener: a connection of its own that receives notifications, for as long as it is wanted. It reconnects after
 * every loss and never throws out of a timer. Its owner learns of every loss and of every new session, and takes its
 * session locks anew. After a while of silence the listener sends itself a ping through another connection, and reconnects
 * if nothing arrives. Behind a pooler, where a session cannot be kept, it reports that once and stays off.
 */
import type { Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import { quoteName } from '../names.js';
import { type Executor, engineExecutor } from '../queryable.js';
import type { Address } from './address.js';
import { Backoff } from './backoff.js';
import { withUser } from './user.js';

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

export function newListener(deps: ListenerDeps) {
  const { reportError, pingEveryMs = PING_EVERY_MS, pingTimeoutMs = TIMEOUT_MS } = deps;
  const halt = new AbortController();
  const { signal } = halt;
  let state: 'off' | 'connecting' | 'on' = 'off';
  /** Of the session that is on. */
  let current: Client | null = null;
  /** Ends the session: with an error that is reported, or without one. */
  let end: (error: Error | null) => void = () => {};
  let pings = 0;
  let notifiedAt = 0;
  /** Ends the wait for the ping that is under way. */
  let onNotified: () => void = () => {};
  let over: Promise<void> = Promise.resolve();

  async function live(): Promise<void> {
    const backoff = new Backoff();
    while (!signal.aborted) {
      const from = performance.now();
      try {
        await session();
      } catch (error) {
        if (signal.aborted) break;
        reportError('listening for notifications', error);
        if (error instanceof BehindPooler) break;
        if (performance.now() - from > TIMEOUT_MS) backoff.reset();
        await wait(backoff.nextMs(), signal);
      }
    }
    state = 'off';
  }

  /** From the connection to its end; rejects with what ended it, unless that was asked for. */
  async function session(): Promise<void> {
    const client = clientOf(deps.address);
    const gone = new AbortController();
    let endThis: (error: Error | null) => void = () => {};
    const ended = new Promise<'ended'>((resolve, reject) => {
      endThis = (error) => (error ? reject(error) : resolve('ended'));
    });
    end = endThis;
    client.on('error', endThis);
    client.on('end', () => endThis(new Error('the connection of the listener was closed')));
    client.on('notification', ({ channel, payload }) => notified(channel, payload ?? ''));
    try {
      if ((await Promise.race([open(client), ended])) === 'ended') return;
      current = client;
      state = 'on';
      notifiedAt = performance.now();
      deps.up();
      await Promise.race([ended, pingWhenSilent(client, gone.signal)]);
    } finally {
      gone.abort();
      end = () => {};
      close(client);
      const was = state;
      current = null;
      state = 'connecting';
      if (was === 'on') deps.down();
    }
  }

  async function open(client: Client): Promise<'open'> {
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
    const channels = deps.channels().map((channel) => `LISTEN ${quoteName(channel)}`);
    await client.query(channels.join(';'));
    await deps.prepare(engineExecutor(client, { prepare: false }));
    return 'open';
  }

  function notified(channel: string, payload: string): void {
    notifiedAt = performance.now();
    onNotified();
    if (PING.test(payload)) return;
    try {
      deps.notified(channel, payload);
    } catch (error) {
      // Thrown on, it would go through the socket's handler and end the process.
      reportError('passing on a notification', error);
    }
  }

  /** Rejects when a ping does not arrive. */
  async function pingWhenSilent(client: Client, gone: AbortSignal): Promise<void> {
    for (;;) {
      const silentMs = pingEveryMs * (0.75 + Math.random() * 0.5);
      for (let restMs = silentMs; restMs > 0 && !gone.aborted; ) {
        await wait(restMs, gone);
        restMs = notifiedAt + silentMs - performance.now();
      }
      if (gone.aborted) return;
      const arrived = new AbortController();
      onNotified = () => arrived.abort();
      try {
        await deps.ping(`!ping:${++pings}`);
      } catch (error) {
        // The other connection's error says nothing about this one.
        reportError('pinging the listener', error);
        continue;
      }
      await wait(pingTimeoutMs, AbortSignal.any([arrived.signal, gone]));
      // It may only lie in the socket because this process was busy: an answer brings it along.
      if (!arrived.signal.aborted && !gone.aborted) await client.query('SELECT 1');
      if (!arrived.signal.aborted && !gone.aborted) {
        throw new Error('a ping to the listener did not arrive, so it connects anew');
      }
    }
  }

  return {
    get state() {
      return state;
    },
    start(): void {
      state = 'connecting';
      over = live();
    },
    /** A new session, because the channels or the locks are others now. */
    restart: () => end(null),
    async stop(): Promise<void> {
      halt.abort();
      end(null);
      await over;
    },
    /** Statements on the session. One that fails may have left a lock behind: the session is given up. */
    async run<Value>(work: (db: Executor) => Promise<Value>): Promise<Value> {
      const client = current;
      if (!client || state !== 'on') throw new Error('the listener is not connected');
      try {
        return await work(engineExecutor(client, { prepare: false }));
      } catch (error) {
        if (client === current) end(error as Error);
        throw error;
      }
    },
  };
}

const clientOf = (address: Address) =>
  new pg.Client({
    ...withUser(address),
    application_name: 'holdfast listener',
    connectionTimeoutMillis: TIMEOUT_MS,
    query_timeout: TIMEOUT_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
  }) as Client;

/** Closes, and does not wait for an answer: a server that is gone must not keep the process. */
function close(client: Client): void {
  client.end().catch(() => undefined);
  setTimeout(() => client.connection.stream.destroy(), 500).unref();
}
