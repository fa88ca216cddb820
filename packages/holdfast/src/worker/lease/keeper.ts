/**
 * The keeper: the main thread's side of the thread that sends heartbeats, renews leases and holds the liveness lock.
 * `start` rejects where it cannot run, and nothing is claimed while it does not. If it dies it is started again and is sent
 * everything that is held. Its program is a text in this package (keeper-source.js, made by the build), for bundlers.
 */
import { Worker } from 'node:worker_threads';
import { HoldfastError } from '../../job/errors/errors.js';
import { Backoff, LAST_MS, within } from '../../postgres/connect/backoff.js';
import { CHECK_MS } from '../time.js';
import { newBatches } from './batches.js';
import { KEEPER_SOURCE } from './keeper-source.js';
import {
  confirmedAgoMs,
  type FromKeeper,
  type KeeperEvents,
  type KeeperSetup,
  type Load,
  NEVER,
  type PasswordAnswer,
  SLOT,
  TICK_MS,
  type ToKeeper,
} from './protocol.js';

export interface KeeperListener extends Omit<KeeperEvents, 'watched' | 'failed' | 'passwordAsked'> {
  error(what: string, error: unknown): void;
  /** For the registry; asked several times a second. */
  load(): Load;
  password?(of: object): unknown;
}

/** For the first start; a thread that loads takes a tenth of a second. */
const START_MS = 30 * CHECK_MS;

export type Keeper = ReturnType<typeof newKeeper>;

export function newKeeper(setup: Omit<KeeperSetup, 'shared' | 'load'>, listener: KeeperListener) {
  const shared = new BigInt64Array(
    new SharedArrayBuffer(Object.keys(SLOT).length * BigInt64Array.BYTES_PER_ELEMENT),
  );
  shared[SLOT.confirmedAt] = BigInt(Math.floor(setup.registeredAt));
  const send = (message: ToKeeper): void => thread?.postMessage(message);
  const batches = newBatches(setup, send);
  const backoff = new Backoff();
  let { workerId } = setup;
  let timer: NodeJS.Timeout | null = null;
  let thread: Worker | null = null;
  let living = false;
  let load = '';
  let stopping = false;
  /** Of the first start, until it is decided. */
  let first: { resolve: () => void; reject: (error: unknown) => void } | null = null;
  let onWatched: () => void = () => {};
  const watched = new Promise<void>((resolve) => {
    onWatched = resolve;
  });
  const failed = (error: unknown) => listener.error('the keeper thread failed', error);

  function tick(): void {
    Atomics.add(shared, SLOT.ticks, 1n);
    const now = JSON.stringify(listener.load());
    if (now !== load) send({ kind: 'load', load: now });
    load = now;
  }

  function run(): void {
    load = JSON.stringify(listener.load());
    const workerData = { ...setup, shared: shared.buffer, workerId, load };
    const one = new Worker(KEEPER_SOURCE, { eval: true, workerData, name: 'holdfast-keeper' });
    thread = one;
    one.on('message', receive);
    // 'exit' follows every 'error' and restarts the thread; this keeps the error from being unhandled.
    one.on('error', (error) => (first ? first.reject(error) : failed(error)));
    one.on('exit', (code) => {
      if (stopping || one !== thread) return;
      living = false;
      if (first) first.reject(new Error(`it ended with code ${code}`));
      else runAgain();
    });
  }

  /** Soon, as the liveness lock went with it; but one that never gets to a heartbeat comes later and later. */
  function runAgain(): void {
    const start = () => {
      if (stopping) return;
      try {
        run();
        batches.sendAll();
      } catch (error) {
        failed(error);
        runAgain();
      }
    };
    setTimeout(start, backoff.nextMs());
  }

  function receive({ kind, args }: FromKeeper): void {
    if (kind === 'watched') onWatched();
    else if (kind === 'passwordAsked') {
      const [ask, of] = args as Parameters<KeeperEvents['passwordAsked']>;
      const answered = passwordOf(() => listener.password?.(of));
      void answered.then((answer) => send({ kind: 'password', ask, answer }));
    } else if (kind === 'failed') {
      const [what, message, code] = args as Parameters<KeeperEvents['failed']>;
      listener.error(what, Object.assign(new Error(message), code !== null && { code }));
    } else {
      if (kind === 'ready') {
        living = true;
        first?.resolve();
      }
      if (kind === 'beat') backoff.reset();
      (listener as Record<typeof kind, (...args: unknown[]) => void>)[kind](...args);
    }
  }

  async function stop(): Promise<void> {
    stopping = true;
    const one = thread;
    if (one && living) {
      const exited = new Promise<void>((resolve) => one.once('exit', () => resolve()));
      send({ kind: 'stop' });
      await within(2 * LAST_MS, exited);
    }
    if (timer) clearInterval(timer);
    await one?.terminate();
  }

  return {
    stop,
    hold: batches.hold,
    drop: batches.drop,
    /** While the thread does not run, leases are not renewed and nothing may be claimed. */
    get living() {
      return living;
    },
    /** Resolves when the thread runs; rejects when it cannot. Then nothing may be claimed. */
    async start(): Promise<void> {
      const decided = new Promise<void>((resolve, reject) => {
        first = { resolve, reject };
      });
      const late = () => first?.reject(new Error(`it did not answer within ${START_MS / 1000} s`));
      const lateTimer = setTimeout(late, START_MS);
      timer = setInterval(tick, TICK_MS);
      try {
        run();
        await decided;
      } catch (error) {
        await stop();
        throw cannotRun(error);
      } finally {
        clearTimeout(lateTimer);
        first = null;
      }
    },
    /** Resolves when a kill of this process would be noticed by the others, or when it never will be. */
    watched: (withinMs = 3 * CHECK_MS) => within(withinMs, watched),
    /** For how long the registry calls this worker alive. Below zero it may be dead: it claims, starts and settles nothing. */
    aliveForMs: () => 0.9 * setup.ttlMs - confirmedAgoMs(shared),
    /** How long ago the last heartbeat was sent that the database has confirmed. */
    confirmedAgoMs: () => confirmedAgoMs(shared),
    /** Under a new id nothing is held, and no heartbeat is confirmed yet. */
    identify(id: string): void {
      workerId = id;
      batches.clear();
      Atomics.store(shared, SLOT.confirmedAt, NEVER);
      send({ kind: 'identity', workerId });
    },
  };
}

/** What the caller's function says, or why it says nothing. */
async function passwordOf(find: () => unknown): Promise<PasswordAnswer> {
  try {
    const password = await find();
    if (password === undefined || typeof password === 'string') return { password };
    return { refused: 'the function for the password did not return a text' };
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return { refused: `the function for the password failed: ${message}` };
  }
}

function cannotRun(cause: unknown): HoldfastError {
  const { message } = cause as Error;
  return new HoldfastError(
    'KEEPER_FAILED',
    `The thread that renews leases and sends heartbeats cannot run here: ${message}. The worker was not ` +
      'started, because without it jobs would run twice; nothing was claimed. It needs node:worker_threads: ' +
      "with Node's permission model pass --allow-worker, and leave the process memory and threads to start one.",
    { cause },
  );
}
