/**
 * The keeper: the main thread's side of the thread that renews leases, sends heartbeats, holds the
 * liveness lock and sees to it that a drain ends.
 *
 * What is held is told to the thread before a handler starts; what has left is told later, and mostly as
 * a batch. If the thread dies it is started again and told everything that is held; the leases outlast
 * that by far.
 */
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import type { Held } from '../lease/renew.js';
import { pause } from './backoff.js';
import { Batches, type Holding } from './keeper-batches.js';
import {
  type FromKeeper,
  type KeeperSetup,
  SLOT,
  SLOTS,
  signalClock,
  type ToKeeper,
} from './keeper-protocol.js';
import { HEARING_ARGUMENTS } from './signals.js';

export interface KeeperListener {
  lost(queue: string, jobs: readonly Held[]): void;
  dead(workerId: string): void;
  beat(workerId: string): void;
  /** Other workers that this one has declared dead just now. */
  gone(ids: readonly string[]): void;
  /** The fleet's epoch, when it has changed. */
  epoch(epoch: number): void;
  /** The registry calls this worker draining. */
  drainAsked(): void;
  trouble(what: string, error: unknown): void;
  /** Everything that is held now. */
  held(): Iterable<Holding>;
  /** For the registry; asked several times a second. */
  load(): { running: number; held: number };
}

const BEAT_MS = 100;
const STOP_MS = 300;
const RESTART_MS = 500;

/** Beside this file when compiled; tests run from the sources and use the compiled thread. */
function threadFile(): URL {
  const beside = new URL('./keeper-thread.js', import.meta.url);
  if (existsSync(fileURLToPath(beside))) return beside;
  return new URL('../../dist/worker/keeper-thread.js', import.meta.url);
}

export class Keeper {
  readonly #setup: KeeperSetup;
  readonly #listener: KeeperListener;
  readonly #shared: Int32Array;
  readonly #batches: Batches;
  readonly #timer: NodeJS.Timeout;
  #thread: Worker;
  #startedAt = 0;
  #workerId: string;
  #draining: { graceEndsAt: number; signalled: boolean } | null = null;
  #stopping = false;
  #onWatched: () => void = () => {};
  readonly #watched = new Promise<void>((resolve) => {
    this.#onWatched = resolve;
  });
  #onStopped: () => void = () => {};

  constructor(setup: Omit<KeeperSetup, 'shared'>, listener: KeeperListener) {
    const shared = new SharedArrayBuffer(SLOTS * Int32Array.BYTES_PER_ELEMENT);
    this.#setup = { ...setup, shared };
    this.#shared = new Int32Array(shared);
    this.#listener = listener;
    this.#workerId = setup.workerId;
    this.#batches = new Batches({
      renewMs: setup.renewMs,
      send: (message) => this.#send(message),
      held: () => listener.held(),
    });
    this.#thread = this.#start();
    this.#timer = setInterval(() => this.#beat(), BEAT_MS);
  }

  /** Resolves when a kill of this process would be noticed by the others, or when it never will be. */
  async watched(withinMs: number): Promise<void> {
    const known = new AbortController();
    await Promise.race([this.#watched, pause(withinMs, known.signal)]);
    known.abort();
  }

  hold(queue: string, jobs: readonly Holding[]): void {
    this.#batches.hold(queue, jobs);
    Atomics.add(this.#shared, SLOT.kept, jobs.length);
  }

  drop(job: Holding): void {
    if (this.#batches.drop(job)) Atomics.sub(this.#shared, SLOT.kept, 1);
  }

  /** After a rebirth: what was held under the old id is forgotten. */
  identify(workerId: string): void {
    this.#workerId = workerId;
    this.#send({ kind: 'identity', workerId });
  }

  /** How long ago the thread heard the signal that the main thread may have heard only now. */
  sinceSignalMs(): number {
    const at = Atomics.load(this.#shared, SLOT.signalledAt);
    return at === 0 ? 0 : (signalClock() - at) & 0x7fffffff;
  }

  /** `signalled`: the process is to end; if it does not, the thread ends it after the grace period. */
  drain(graceMs: number, signalled: boolean): void {
    this.#draining = { graceEndsAt: performance.now() + graceMs, signalled };
    this.#send({ kind: 'drain', graceMs, signalled });
  }

  /** `guard`: handlers are left that may keep the process; the thread stays to end it, if signalled. */
  async stop(options: { guard?: boolean } = {}): Promise<void> {
    const { guard = false } = options;
    this.#stopping = true;
    const thread = this.#thread;
    const stopped = new Promise<void>((resolve) => {
      if (guard) this.#onStopped = resolve;
      thread.once('exit', () => resolve());
    });
    this.#send({ kind: 'stop', guard });
    const limit = new AbortController();
    await Promise.race([stopped, pause(STOP_MS, limit.signal)]);
    limit.abort();
    clearInterval(this.#timer);
    if (guard) thread.unref();
    else await thread.terminate();
  }

  #send(message: ToKeeper): void {
    this.#thread.postMessage(message);
  }

  #beat(): void {
    Atomics.add(this.#shared, SLOT.beat, 1);
    const { running, held } = this.#listener.load();
    Atomics.store(this.#shared, SLOT.running, running);
    Atomics.store(this.#shared, SLOT.held, held);
  }

  #start(): Worker {
    this.#startedAt = performance.now();
    const thread = new Worker(threadFile(), {
      workerData: { ...this.#setup, workerId: this.#workerId },
      name: 'holdfast-keeper',
      ...(HEARING_ARGUMENTS.length > 0 && { execArgv: [...HEARING_ARGUMENTS] }),
    });
    thread.on('message', (message: FromKeeper) => this.#hear(message));
    // 'exit' follows every 'error' and restarts the thread; this keeps the error from being unhandled.
    thread.on('error', (error) => this.#listener.trouble('the keeper thread failed', error));
    thread.on('exit', () => {
      if (this.#stopping || thread !== this.#thread) return;
      // The liveness lock went with it. But a thread that cannot start must not be started in a hot loop.
      const lastedMs = performance.now() - this.#startedAt;
      setTimeout(() => this.#restart(), lastedMs > 10 * RESTART_MS ? 0 : RESTART_MS);
    });
    return thread;
  }

  #restart(): void {
    if (this.#stopping) return;
    this.#thread = this.#start();
    this.#batches.tellAnew();
    if (!this.#draining) return;
    const { graceEndsAt, signalled } = this.#draining;
    this.drain(Math.max(0, graceEndsAt - performance.now()), signalled);
  }

  #hear(message: FromKeeper): void {
    const { kind } = message;
    if (kind === 'lost') {
      const { queue, ids, generations } = message;
      const jobs = ids.map((id, index) => ({ id, generation: generations[index] as number }));
      this.#listener.lost(queue, jobs);
    } else if (kind === 'dead') this.#listener.dead(message.workerId);
    else if (kind === 'beat') this.#listener.beat(message.workerId);
    else if (kind === 'gone') this.#listener.gone(message.ids);
    else if (kind === 'epoch') this.#listener.epoch(message.epoch);
    else if (kind === 'drain-asked') this.#listener.drainAsked();
    else if (kind === 'watched') this.#onWatched();
    else if (kind === 'stopped') this.#onStopped();
    else if (kind === 'stalled') {
      const text = `no turn of the event loop for ${message.forMs} ms: leases and heartbeat were let go`;
      this.#listener.trouble('the main thread made no progress', new Error(text));
    } else {
      const error = new Error(message.message);
      this.#listener.trouble(
        message.what,
        message.code ? Object.assign(error, { code: message.code }) : error,
      );
    }
  }
}
