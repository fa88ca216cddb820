/**
 * Recovery: when a worker has died, what it held goes back to the queues.
 *
 * Whoever declares a worker dead recovers at once, and so does the first worker of each queue, which hears of it: two of
 * the fleet, however large it is. If they die meanwhile, their own deaths bring the next recovery, which returns the jobs
 * of all dead workers. The rounds of maintenance come after that.
 *
 * Jobs that vanished with most of the fleet are suspects for a moment only. The worker that recovered them clears them
 * when that is over, or a round of maintenance does.
 */
import { QUIET_MS } from '../../maintenance/recover.js';
import type { SharedDeps } from '../deps.js';
import type { Timer } from '../time.js';
import { clearAll, type RecoveryNews, recoverAll } from './maintenance.js';

type Shared = 'schema' | 'engine' | 'workerId' | 'time' | 'emit' | 'log' | 'reportError';

export class Recovery implements RecoveryNews {
  readonly #deps: Pick<SharedDeps, Shared>;
  /** By queue, when suspects may be cleared. */
  readonly #timers = new Map<string, Timer>();
  #stopped = false;

  constructor(deps: Pick<SharedDeps, Shared>) {
    this.#deps = deps;
  }

  /** Returns what dead workers held to these queues. */
  async recover(queues: readonly string[]): Promise<void> {
    const { schema, engine, reportError, workerId, emit } = this.#deps;
    for (const queue of queues) {
      try {
        const recovered = await recoverAll(engine, { schema, queue }, workerId(), this);
        if (recovered > 0) emit({ kind: 'maintained', queue, recovered, pruned: 0 });
      } catch (error) {
        if (!this.#stopped) reportError(`recovery of ${queue}`, error);
      }
    }
  }

  exhausted(queue: string, job: string): void {
    const err = 'its workers vanished while they ran it';
    this.#deps.log.error({ queue, job, err }, 'a job became a dead letter');
  }

  suspects(queue: string): void {
    if (this.#stopped) return;
    this.#timers.get(queue)?.cancel();
    const { schema, engine, time } = this.#deps;
    // A round of maintenance tries again.
    const clear = () => void clearAll(engine, { schema, queue }).catch(() => undefined);
    this.#timers.set(queue, time.after(QUIET_MS + 50, clear));
  }

  stop(): void {
    this.#stopped = true;
    for (const timer of this.#timers.values()) timer.cancel();
  }
}
