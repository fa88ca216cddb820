/**
 * Handlers that run on although their job has left this worker: it was cancelled, its time was over, its lease was
 * lost, or the worker stops. After a grace, counted from the abort of its signal, such a handler gives its place to
 * another and counts as leaked until it ends. Nothing can stop it from outside, and nothing that it settles counts.
 *
 * One for all queues of a worker. While there is nothing to watch it costs nothing.
 */
import type { Logger } from '../../postgres/log.js';
import type { WorkerEvent } from '../events.js';
import type { Time, Timer } from '../time.js';

/** A handler whose job has left. */
export interface Leakable {
  readonly queue: string;
  readonly type: string;
  /** Its job; null for a batch. */
  readonly id: string | null;
  /** Its place is given back: whoever waits for it waits no more. */
  abandon(): void;
}

export interface LeaksDeps {
  readonly time: Time;
  readonly graceMs: number;
  /** With so many the worker drains; null: with any number it goes on. */
  readonly max: number | null;
  readonly log: Logger;
  readonly emit: (event: WorkerEvent) => void;
  /** The number has changed. */
  readonly changed: () => void;
  readonly drain: () => void;
}

/** By queue and type, how many. */
export type LeakedCounts = Readonly<Record<string, Readonly<Record<string, number>>>>;

export class Leaks {
  readonly #deps: LeaksDeps;
  readonly #watched = new Map<Leakable, Timer>();
  readonly #leaked = new Set<Leakable>();
  #stopped = false;

  constructor(deps: LeaksDeps) {
    this.#deps = deps;
  }

  get total(): number {
    return this.#leaked.size;
  }

  get counts(): LeakedCounts {
    const counts: Record<string, Record<string, number>> = {};
    for (const { queue, type } of this.#leaked) {
      counts[queue] ??= {};
      const types = counts[queue] as Record<string, number>;
      types[type] = (types[type] ?? 0) + 1;
    }
    return counts;
  }

  /** Its signal was aborted. `counts`: false for one job of a batch, whose handler has others. */
  watch(handler: Leakable, counts: boolean): void {
    if (this.#watched.has(handler) || this.#leaked.has(handler)) return;
    const over = () => {
      this.#watched.delete(handler);
      handler.abandon();
      if (counts) this.add(handler);
    };
    if (this.#stopped) over();
    else this.#watched.set(handler, this.#deps.time.after(this.#deps.graceMs, over, true));
  }

  /** It runs on, and its job has left for good. */
  add(handler: Leakable): void {
    this.#leaked.add(handler);
    const { facts, running } = this.#factsOf(handler);
    this.#deps.log.warn(
      { ...facts, leaked: running },
      'a handler runs on although its job has left this worker; its place is free again, what it holds is not',
    );
    this.#deps.emit({ kind: 'leaked', ...eventFacts(handler), running });
    this.#deps.changed();
    const { max } = this.#deps;
    if (max !== null && this.#leaked.size >= max) this.#deps.drain();
  }

  /** It has ended. */
  ended(handler: Leakable): void {
    this.#watched.get(handler)?.cancel();
    this.#watched.delete(handler);
    if (!this.#leaked.delete(handler)) return;
    const { facts, running } = this.#factsOf(handler);
    this.#deps.log.info({ ...facts, leaked: running }, 'a leaked handler ended');
    this.#deps.emit({ kind: 'leak-ended', ...eventFacts(handler), running });
    this.#deps.changed();
  }

  /** What the log says of it, and how many of its type run on. */
  #factsOf({ queue, type, id }: Leakable) {
    const running = this.counts[queue]?.[type] ?? 0;
    return { facts: { queue, type, ...(id !== null && { job: id }) }, running };
  }

  /** The worker has stopped: who still runs has leaked. */
  stop(): void {
    this.#stopped = true;
    for (const [handler, timer] of [...this.#watched]) {
      timer.cancel();
      this.#watched.delete(handler);
      handler.abandon();
      this.add(handler);
    }
  }
}

const eventFacts = ({ queue, type, id }: Leakable) => ({ queue, type, ...(id !== null && { id }) });
