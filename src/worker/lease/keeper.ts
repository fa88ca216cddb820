/**
 * The keeper: the main thread's side of the thread that sends heartbeats, renews leases and holds the
 * liveness lock.
 *
 * The thread learns of held jobs before a handler starts, and of those that have left later and in bulk. If
 * it dies it is started again and is sent everything that is held; the leases outlast that by far.
 */
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { LAST_MS, within } from '../../postgres/backoff.js';
import { type BatchedJob, Batches } from './batches.js';
import { passwordOf } from './passwords.js';
import {
  confirmedAgoMs,
  type FromKeeper,
  type KeeperEvents,
  type KeeperSetup,
  NEVER,
  SHARED_BYTES,
  SLOT,
  type ToKeeper,
} from './protocol.js';

export interface KeeperListener extends Omit<KeeperEvents, 'watched' | 'failed' | 'passwordAsked'> {
  error(what: string, error: unknown): void;
  /** For the registry; asked several times a second. */
  load(): { running: number; held: number };
  /** The caller's function for passwords, if there is one. */
  password?(of: object): unknown;
}

const TURN_MS = 100;
const RESTART_MS = 500;

/** Beside this file when compiled; tests run from the sources and use the compiled thread. */
function threadFile(): URL {
  const beside = new URL('./keeper-thread.js', import.meta.url);
  if (existsSync(fileURLToPath(beside))) return beside;
  return new URL('../../../dist/worker/lease/keeper-thread.js', import.meta.url);
}

export class Keeper {
  readonly #setup: KeeperSetup;
  readonly #listener: KeeperListener;
  readonly #shared: BigInt64Array;
  readonly #batches: Batches;
  readonly #timer: NodeJS.Timeout;
  #thread: Worker;
  #startedAt = 0;
  #workerId: string;
  #stopping = false;
  #onWatched: () => void = () => {};
  readonly #watched = new Promise<void>((resolve) => {
    this.#onWatched = resolve;
  });

  constructor(setup: Omit<KeeperSetup, 'shared'>, listener: KeeperListener) {
    const shared = new SharedArrayBuffer(SHARED_BYTES);
    this.#setup = { ...setup, shared };
    this.#shared = new BigInt64Array(shared);
    this.#shared[SLOT.confirmedAt] = BigInt(Math.floor(setup.registeredAt));
    this.#listener = listener;
    this.#workerId = setup.workerId;
    this.#batches = new Batches(setup.renewMs, (message) => this.#send(message));
    this.#thread = this.#start();
    this.#timer = setInterval(() => this.#turn(), TURN_MS);
  }

  /** Resolves when a kill of this process would be noticed by the others, or when it never will be. */
  async watched(withinMs: number): Promise<void> {
    await within(withinMs, this.#watched);
  }

  /**
   * For how long the registry will call this worker alive, whatever happens. Below zero it may have been
   * declared dead while it was frozen or cut off; so it claims, starts and settles nothing until the next
   * heartbeat is confirmed.
   */
  aliveForMs(): number {
    return 0.9 * this.#setup.ttlMs - confirmedAgoMs(this.#shared);
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
    const exited = new Promise<void>((resolve) => thread.once('exit', () => resolve()));
    this.#send({ kind: 'stop' });
    await within(2 * LAST_MS, exited);
    clearInterval(this.#timer);
    await thread.terminate();
  }

  #send(message: ToKeeper): void {
    this.#thread.postMessage(message);
  }

  #turn(): void {
    Atomics.add(this.#shared, SLOT.turns, 1n);
    const { running, held } = this.#listener.load();
    Atomics.store(this.#shared, SLOT.running, BigInt(running));
    Atomics.store(this.#shared, SLOT.held, BigInt(held));
  }

  #start(): Worker {
    this.#startedAt = performance.now();
    const thread = new Worker(threadFile(), {
      workerData: { ...this.#setup, workerId: this.#workerId },
      name: 'holdfast-keeper',
    });
    thread.on('message', (message: FromKeeper) => this.#receive(message));
    // 'exit' follows every 'error' and restarts the thread; this keeps the error from being unhandled.
    thread.on('error', (error) => this.#listener.error('the keeper thread failed', error));
    thread.on('exit', () => {
      if (this.#stopping || thread !== this.#thread) return;
      // The liveness lock went with it. But a thread that cannot start must not be started in a hot loop.
      const lastedMs = performance.now() - this.#startedAt;
      setTimeout(() => this.#restart(), lastedMs > 10 * RESTART_MS ? 0 : RESTART_MS);
    });
    return thread;
  }

  async #findPassword(ask: string, of: object): Promise<void> {
    const answer = await passwordOf(() => this.#listener.password?.(of));
    this.#send({ kind: 'password', ask, answer });
  }

  #restart(): void {
    if (this.#stopping) return;
    this.#thread = this.#start();
    this.#batches.resend();
  }

  #receive({ kind, args }: FromKeeper): void {
    if (kind === 'watched') this.#onWatched();
    else if (kind === 'passwordAsked')
      void this.#findPassword(...(args as Parameters<KeeperEvents['passwordAsked']>));
    else if (kind === 'failed') {
      const [what, message, code] = args as Parameters<KeeperEvents['failed']>;
      this.#listener.error(what, Object.assign(new Error(message), code !== null && { code }));
    } else (this.#listener as Record<typeof kind, (...args: unknown[]) => void>)[kind](...args);
  }
}
