/**
 * Recovery: what a dead worker held goes back to the queues. Whoever declares it dead recovers at once, and so does the
 * first worker of each queue. Jobs that vanished with most of the fleet are suspects for a moment only: the worker that
 * recovered them clears them, or a round of maintenance does.
 */
import { hintQueue } from '../../fleet/wake.js';
import { clearSuspects, type Pages, QUIET_MS, recover } from '../../maintenance/recover.js';
import { hookedTypes } from '../../operate/dead-letter-hooks.js';
import { isHeldUp } from '../../postgres/connect/transient.js';
import type { Names } from '../../postgres/names.js';
import { MAX_ROWS } from '../../postgres/statement.js';
import type { SharedDeps } from '../deps.js';
import { reportUntold } from '../settle/settler.js';
import type { Timer } from '../time.js';
import { inChunks } from './service-loop.js';

type Shared = 'schema' | 'engine' | 'workerId' | 'time' | 'emit' | 'log' | 'reportError';

export type Recovery = ReturnType<typeof newRecovery>;

export function newRecovery(deps: Pick<SharedDeps, Shared>) {
  const { schema, engine, workerId, time, emit, log, reportError } = deps;
  /** By queue, when suspects may be cleared. */
  const timers = new Map<string, Timer>();
  let stopped = false;

  /** Suspects that nothing speaks against run like others again. */
  const clearAll = (names: Names): Promise<number> =>
    inChunks(MAX_ROWS, async (limit) => {
      const cleared = await clearSuspects(engine, names, limit);
      await hintQueue(engine, names, cleared).catch(() => undefined);
      return cleared.length;
    });

  function clearLater(names: Names): void {
    if (stopped) return;
    timers.get(names.queue)?.cancel();
    // A round of maintenance tries again.
    const clear = () => void clearAll(names).catch(() => undefined);
    timers.set(names.queue, time.after(QUIET_MS + 50, clear));
  }

  /** Returns what dead workers held, and what nobody renewed. Claims that were made by hand are searched on these pages. */
  async function recoverAll(names: Names, pages?: Pages): Promise<number> {
    try {
      return await recoverSome(names, pages, []);
    } catch (error) {
      if (isHeldUp(error)) await recoverOthers(names, pages);
      throw error;
    }
  }

  /** Perhaps a dead letter waits for a table into which it is to write. Nobody else waits for that. */
  async function recoverOthers(names: Names, pages: Pages | undefined): Promise<void> {
    try {
      await recoverSome(names, pages, await hookedTypes(engine, names));
    } catch (error) {
      // Or it waits for the table of hooks, or for its parent's run. Jobs that go back need neither.
      if (isHeldUp(error)) await recoverSome(names, pages, ['']);
    }
  }

  const recoverSome = (names: Names, pages: Pages | undefined, leave: readonly string[]) =>
    inChunks(MAX_ROWS, async (limit) => {
      const how = { limit, recoverer: workerId(), leave, ...(pages && { pages }) };
      const back = await recover(engine, names, how);
      // Cursors have passed these. Without the hint, polls find them.
      await hintQueue(engine, names, back).catch(() => undefined);
      const facts = { queue: names.queue, err: 'its workers vanished while they ran it' };
      for (const { id: job, status } of back)
        if (status === 'dead_letter') log.error({ ...facts, job }, 'a job became a dead letter');
      reportUntold(reportError, back);
      if (back.some(({ crashes }) => crashes > 1)) clearLater(names);
      return back.length;
    });

  return {
    clearAll,
    recoverAll,
    async recover(queues: readonly string[]): Promise<void> {
      for (const queue of queues) {
        try {
          const recovered = await recoverAll({ schema, queue });
          if (recovered > 0) emit({ kind: 'maintained', queue, recovered, pruned: 0 });
        } catch (error) {
          if (!stopped) reportError(`recovery of ${queue}`, error);
        }
      }
    },
    stop(): void {
      stopped = true;
      for (const timer of timers.values()) timer.cancel();
    },
  };
}
