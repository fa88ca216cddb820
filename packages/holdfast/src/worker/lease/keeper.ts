/**
 * The keeper: the main thread's side of the thread that sends heartbeats, renews leases and holds the liveness lock.
 *
 * Without such a thread a worker would lose every job that outlasts its lease. So `start` rejects where it cannot run, and
 * nothing is claimed while it does not. It learns of held jobs before a handler starts, and of those that have left later
 * and in bulk. If it dies it is started again and is sent everything that is held; the leases outlast that by far.
 *
 * Its program is a text in this package (keeper-source.js, made by the build): whoever bundles a worker into one file
 * bundles the thread with it.
 */
import { Worker } from 'node:worker_threads';
import { HoldfastError } from '../../job/errors/errors.js';
import { Backoff, LAST_MS, within } from '../../postgres/connect/backoff.js';
import { CHECK_MS } from '../time.js';
import { type BatchedJob, Batches } from './batches.js';
import { KEEPER_SOURCE } from './keeper-source.js';
import { passwordOf } from './passwords.js';
import {
  confirmedAgoMs,
  type FromKeeper,
  type KeeperEvents,
  type KeeperSetup,
  type Load,
  NEVER,
  SLOT,
  TICK_MS,
  type ToKeeper,
} from './protocol.js';

export interface KeeperListener extends Omit<KeeperEvents, 'watched' | 'failed' | 'passwordAsked'> {
  error(what: string, error: unknown): void;
  /** For the registry; asked several times a second. */
  load(): Load;
  /** The caller's function for passwords, if there is one. */
  password?(of: object): unknown;
}

/** For the first start; a thread that loads takes a tenth of a second. */
const START_MS = 30 * CHECK_MS;

export class Keeper {
  readonly #setup: Omit<KeeperSetup, 'load'>;
  readonly #listener: KeeperListener;
  readonly #shared: BigInt64Array<SharedArrayBuffer>;
  readonly #batches: Batches;
  readonly #backoff = new Backoff();
  #timer: NodeJS.Timeout | null = null;
  #thread: Worker | null = null;
  #workerId: string;
  /** While the thread does not run, leases are not renewed and nothing may be claimed. */
  living = false;
  #load = '';
  #stopping = false;
  /** Of the first start, until it is decided. */
  #first: { resolve: () => void; reject: (error: unknown) => void } | null = null;
  #onWatched: () => void = () => {};
  readonly #watched = new Promise<void>((resolve) => {
    this.#onWatched = resolve;
  });

  constructor(setup: Omit<KeeperSetup, 'shared' | 'load'>, listener: KeeperListener) {
    this.#shared = new BigInt64Array(
      new SharedArrayBuffer(Object.keys(SLOT).length * BigInt64Array.BYTES_PER_ELEMENT),
    );
    this.#setup = { ...setup, shared: this.#shared.buffer };
    this.#shared[SLOT.confirmedAt] = BigInt(Math.floor(setup.registeredAt));
    this.#listener = listener;
    this.#workerId = setup.workerId;
    this.#batches = new Batches(setup, (message) => this.#send(message));
  }

  /** Resolves when the thread runs; rejects when it cannot. Then nothing may be claimed. */
  async start(): Promise<void> {
    const decided = new Promise<void>((resolve, reject) => {
      this.#first = { resolve, reject };
    });
    const late = setTimeout(() => {
      this.#first?.reject(new Error(`it did not answer within ${START_MS / 1000} s`));
    }, START_MS);
    this.#timer = setInterval(() => this.#tick(), TICK_MS);
    try {
      this.#run();
      await decided;
    } catch (error) {
      await this.stop();
      throw cannotRun(error);
    } finally {
      clearTimeout(late);
      this.#first = null;
    }
  }

  /** Resolves when a kill of this process would be noticed by the others, or when it never will be. */
  async watched(withinMs = 3 * CHECK_MS): Promise<void> {
    await within(withinMs, this.#watched);
  }

  /**
   * For how long the registry will call this worker alive, whatever happens. Below zero it may have been
   * declared dead while it was frozen or cut off; so it claims, starts and settles nothing until the next
   * heartbeat is confirmed.
   */
  aliveForMs(): number {
    return 0.9 * this.#setup.ttlMs - this.confirmedAgoMs();
  }

  /** How long ago the last heartbeat was sent that the database has confirmed. */
  confirmedAgoMs(): number {
    return confirmedAgoMs(this.#shared);
  }

  hold(queue: string, jobs: readonly BatchedJob[]): void {
    this.#batches.hold(queue, jobs);
  }

  drop(job: BatchedJob): void {
    this.#batches.drop(job);
  }

  /** Under a new id nothing is held, and no heartbeat is confirmed yet. */
  identify(workerId: string): void {
    this.#workerId = workerId;
    this.#batches.clear();
    Atomics.store(this.#shared, SLOT.confirmedAt, NEVER);
    this.#send({ kind: 'identity', workerId });
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    const thread = this.#thread;
    if (thread && this.living) {
      const exited = new Promise<void>((resolve) => thread.once('exit', () => resolve()));
      this.#send({ kind: 'stop' });
      await within(2 * LAST_MS, exited);
    }
    if (this.#timer) clearInterval(this.#timer);
    await thread?.terminate();
  }

  #send(message: ToKeeper): void {
    this.#thread?.postMessage(message);
  }

  #tick(): void {
    Atomics.add(this.#shared, SLOT.ticks, 1n);
    const load = JSON.stringify(this.#listener.load());
    if (load !== this.#load) this.#send({ kind: 'load', load });
    this.#load = load;
  }

  /** Throws where threads are not allowed. */
  #run(): void {
    this.#load = JSON.stringify(this.#listener.load());
    const workerData = { ...this.#setup, workerId: this.#workerId, load: this.#load };
    const thread = new Worker(KEEPER_SOURCE, { eval: true, workerData, name: 'holdfast-keeper' });
    this.#thread = thread;
    thread.on('message', (message: FromKeeper) => this.#receive(message));
    // 'exit' follows every 'error' and restarts the thread; this keeps the error from being unhandled.
    thread.on('error', (error) => {
      if (this.#first) this.#first.reject(error);
      else this.#failed(error);
    });
    thread.on('exit', (code) => {
      if (this.#stopping || thread !== this.#thread) return;
      this.living = false;
      if (this.#first) this.#first.reject(new Error(`it ended with code ${code}`));
      else this.#runAgain();
    });
  }

  /** Soon, as the liveness lock went with it; but one that never gets to a heartbeat comes later and later. */
  #runAgain(): void {
    const start = () => {
      if (this.#stopping) return;
      try {
        this.#run();
        this.#batches.sendAll();
      } catch (error) {
        this.#failed(error);
        this.#runAgain();
      }
    };
    setTimeout(start, this.#backoff.nextMs());
  }

  #failed(error: unknown): void {
    this.#listener.error('the keeper thread failed', error);
  }

  #receive({ kind, args }: FromKeeper): void {
    if (kind === 'watched') this.#onWatched();
    else if (kind === 'passwordAsked') {
      const [ask, of] = args as Parameters<KeeperEvents['passwordAsked']>;
      const answered = passwordOf(() => this.#listener.password?.(of));
      void answered.then((answer) => this.#send({ kind: 'password', ask, answer }));
    } else if (kind === 'failed') {
      const [what, message, code] = args as Parameters<KeeperEvents['failed']>;
      this.#listener.error(what, Object.assign(new Error(message), code !== null && { code }));
    } else {
      if (kind === 'ready') {
        this.living = true;
        this.#first?.resolve();
      }
      if (kind === 'beat') this.#backoff.reset();
      (this.#listener as Record<typeof kind, (...args: unknown[]) => void>)[kind](...args);
    }
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
