/**
 * The keeper: the main thread's side of the thread that renews leases and sends heartbeats.
 *
 * Claims and settles are told to the thread in batches. If the thread dies it is started again and told
 * everything that is held; the leases outlast that by far.
 */
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import type { FromKeeper, KeeperSetup, ToKeeper } from './keeper-protocol.js';

export interface KeeperListener {
  lost(queue: string, jobs: readonly { id: string; generation: number }[]): void;
  dead(workerId: string): void;
  deadWorkers(ids: readonly string[]): void;
  trouble(what: string, error: unknown): void;
  /** Everything that is held now, to tell a new thread. */
  held(): Iterable<{ queue: string; id: string; generation: number }>;
}

const BEAT_MS = 100;
const STOP_MS = 2_000;
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
  readonly #beat: Int32Array;
  readonly #timer: NodeJS.Timeout;
  #thread: Worker;
  #workerId: string;
  #stopping = false;
  /** Ids settled in this turn of the loop, told together. */
  #dropped = new Map<string, { ids: string[]; generations: number[] }>();
  #dropPlanned = false;

  constructor(setup: Omit<KeeperSetup, 'beat'>, listener: KeeperListener) {
    const beat = new SharedArrayBuffer(4);
    this.#setup = { ...setup, beat };
    this.#beat = new Int32Array(beat);
    this.#listener = listener;
    this.#workerId = setup.workerId;
    this.#thread = this.#start();
    this.#timer = setInterval(() => Atomics.add(this.#beat, 0, 1), BEAT_MS);
  }

  hold(queue: string, ids: readonly string[], generations: readonly number[]): void {
    this.#send({ kind: 'hold', queue, ids, generations });
  }

  drop(queue: string, id: string, generation: number): void {
    let dropped = this.#dropped.get(queue);
    if (!dropped) {
      dropped = { ids: [], generations: [] };
      this.#dropped.set(queue, dropped);
    }
    dropped.ids.push(id);
    dropped.generations.push(generation);
    if (this.#dropPlanned) return;
    this.#dropPlanned = true;
    setImmediate(() => {
      this.#dropPlanned = false;
      const all = this.#dropped;
      this.#dropped = new Map();
      for (const [name, jobs] of all) this.#send({ kind: 'drop', queue: name, ...jobs });
    });
  }

  /** After a rebirth: what was held under the old id is forgotten. */
  identify(workerId: string): void {
    this.#workerId = workerId;
    this.#send({ kind: 'identity', workerId });
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    clearInterval(this.#timer);
    const thread = this.#thread;
    const exited = new Promise<void>((resolve) => thread.once('exit', () => resolve()));
    this.#send({ kind: 'stop' });
    const timer = setTimeout(() => void thread.terminate(), STOP_MS);
    await exited;
    clearTimeout(timer);
  }

  #send(message: ToKeeper): void {
    this.#thread.postMessage(message);
  }

  #start(): Worker {
    const thread = new Worker(threadFile(), {
      workerData: { ...this.#setup, workerId: this.#workerId ?? this.#setup.workerId },
      name: 'holdfast-keeper',
    });
    thread.on('message', (message: FromKeeper) => this.#hear(message));
    // 'exit' follows every 'error' and restarts the thread; this keeps the error from being unhandled.
    thread.on('error', (error) => this.#listener.trouble('the keeper thread failed', error));
    thread.on('exit', () => {
      // Not at once: a thread that cannot start would be started in a hot loop.
      if (!this.#stopping && thread === this.#thread) setTimeout(() => this.#restart(), RESTART_MS);
    });
    return thread;
  }

  #restart(): void {
    if (this.#stopping) return;
    this.#thread = this.#start();
    for (const { queue, id, generation } of this.#listener.held()) {
      this.hold(queue, [id], [generation]);
    }
  }

  #hear(message: FromKeeper): void {
    if (message.kind === 'lost') {
      const { queue, ids, generations } = message;
      const jobs = ids.map((id, index) => ({ id, generation: generations[index] as number }));
      this.#listener.lost(queue, jobs);
    } else if (message.kind === 'dead') this.#listener.dead(message.workerId);
    else if (message.kind === 'dead-workers') this.#listener.deadWorkers(message.ids);
    else if (message.kind === 'stalled') {
      this.#listener.trouble(
        'the main thread made no progress',
        new Error(
          `no turn of the event loop for ${message.forMs} ms: leases and heartbeat were let go`,
        ),
      );
    } else if (message.kind === 'trouble') {
      const error = new Error(message.message);
      this.#listener.trouble(
        message.what,
        message.code ? Object.assign(error, { code: message.code }) : error,
      );
    }
  }
}
