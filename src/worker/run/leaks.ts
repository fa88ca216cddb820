/**
 * Handlers that run on although their job has left this worker: it was cancelled, its time was over, its lease was lost, or
 * the worker stops. After a grace, counted from the abort of its signal, such a handler gives its place to another and
 * counts as leaked until it ends. Nothing can stop it from outside. One for all queues of a worker.
 */
import type { SharedDeps } from '../deps.js';
import type { TroubleReport } from '../lease/protocol.js';
import type { Timer } from '../time.js';

export interface Leakable {
  /** A batch has several jobs, and no id. */
  readonly of: { readonly queue: string; readonly type: string; readonly id?: string };
  /** Its place is given back: whoever waits for it waits no more. */
  abandon(): void;
}

interface LeaksDeps extends Pick<SharedDeps, 'time' | 'settings' | 'log' | 'emit'> {
  /** There are as many as `maxLeaked`. */
  readonly drainAsked: (leaked: number) => void;
}

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

  get counts(): TroubleReport['leaked'] {
    const counts: Record<string, Record<string, number>> = {};
    for (const { queue, type } of Array.from(this.#leaked, (handler) => handler.of)) {
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
    else {
      const { time, settings } = this.#deps;
      this.#watched.set(handler, time.after(settings.leakGraceMs, over, true));
    }
  }

  /** It runs on, and its job has left for good. */
  add(handler: Leakable): void {
    this.#leaked.add(handler);
    this.#deps.log.warn(
      this.#report('leaked', handler),
      'a handler runs on although its job has left this worker; its place is free again, what it holds is not',
    );
    const { maxLeaked } = this.#deps.settings;
    if (maxLeaked !== null && this.total >= maxLeaked) this.#deps.drainAsked(this.total);
  }

  ended(handler: Leakable): void {
    this.#watched.get(handler)?.cancel();
    this.#watched.delete(handler);
    if (!this.#leaked.delete(handler)) return;
    this.#deps.log.info(this.#report('leak-ended', handler), 'a leaked handler ended');
  }

  /** Returns what the log says of it, and how many of its type run on. */
  #report(kind: 'leaked' | 'leak-ended', { of: { queue, type, id } }: Leakable): object {
    const running = this.counts[queue]?.[type] ?? 0;
    this.#deps.emit({ kind, queue, type, ...(id !== undefined && { id }), running });
    return { queue, type, ...(id !== undefined && { job: id }), leaked: running };
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
