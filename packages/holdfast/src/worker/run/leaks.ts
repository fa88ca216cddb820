/**
 * Handlers that run on although their job has left this worker. After a grace, counted from the abort of its signal, such
 * a handler gives up its place and counts as leaked until it ends. One for all queues of a worker.
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
  readonly drainAsked: (leaked: number) => void;
}

export type Leaks = ReturnType<typeof newLeaks>;

export function newLeaks({ time, settings, log, emit, drainAsked }: LeaksDeps) {
  const watched = new Map<Leakable, Timer>();
  const leaked = new Set<Leakable>();
  let stopped = false;

  function counts(): TroubleReport['leaked'] {
    const by: Record<string, Record<string, number>> = {};
    for (const { of } of leaked) {
      const types = by[of.queue] ?? {};
      by[of.queue] = { ...types, [of.type]: (types[of.type] ?? 0) + 1 };
    }
    return by;
  }

  /** Returns what the log says of it, and how many of its type run on. */
  function report(kind: 'leaked' | 'leak-ended', { of: { queue, type, id } }: Leakable): object {
    const running = counts()[queue]?.[type] ?? 0;
    emit({ kind, queue, type, ...(id !== undefined && { id }), running });
    return { queue, type, ...(id !== undefined && { job: id }), leaked: running };
  }

  /** It runs on, and its job has left for good. */
  function add(handler: Leakable): void {
    leaked.add(handler);
    log.warn(
      { ...report('leaked', handler) },
      'a handler runs on although its job has left this worker; its place is free again, what it holds is not',
    );
    const { maxLeaked } = settings;
    if (maxLeaked !== null && leaked.size >= maxLeaked) drainAsked(leaked.size);
  }

  return {
    counts,
    add,
    get total() {
      return leaked.size;
    },
    /** Its signal was aborted. `counted`: false for one job of a batch, whose handler has others. */
    watch(handler: Leakable, counted: boolean): void {
      if (watched.has(handler) || leaked.has(handler)) return;
      const over = () => {
        watched.delete(handler);
        handler.abandon();
        if (counted) add(handler);
      };
      if (stopped) over();
      else watched.set(handler, time.after(settings.leakGraceMs, over, true));
    },
    ended(handler: Leakable): void {
      watched.get(handler)?.cancel();
      watched.delete(handler);
      if (leaked.delete(handler))
        log.info({ ...report('leak-ended', handler) }, 'a leaked handler ended');
    },
    /** The worker has stopped: who still runs has leaked. */
    stop(): void {
      stopped = true;
      for (const [handler, timer] of [...watched]) {
        timer.cancel();
        watched.delete(handler);
        handler.abandon();
        add(handler);
      }
    },
  };
}
