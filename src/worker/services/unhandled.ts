/**
 * Looks for due jobs that no worker of the fleet handles, and says so: the deploy that forgot a handler is
 * seen within a minute, and not when a customer asks.
 *
 * One worker looks for all, the one whose id comes first; it looks at all queues, also at those that nobody
 * serves. It says it once per queue and type, and again after ten minutes if it is still so.
 */
import type { QueueSettings } from '../../fleet/registry.js';
import type { Unhandled } from '../../inspect/fleet/unhandled.js';
import type { Logger } from '../../postgres/log.js';
import { jittered, type Time, type Timer } from '../time.js';

const AGAIN_MS = 600_000;
/** Producers may make up types: a look says this many at most. */
const MAX_TYPES = 10;

type Queue = Pick<QueueSettings, 'name' | 'ordering'>;

export interface UnhandledDeps {
  readonly maintenanceMs: number;
  readonly time: Time;
  readonly log: Logger;
  /** Whether this worker is the one that looks. */
  readonly isFirst: () => boolean;
  readonly queues: () => readonly Queue[];
  readonly find: (queue: Queue, graceMs: number) => Promise<readonly Unhandled[]>;
}

export class UnhandledWatch {
  readonly #deps: UnhandledDeps;
  /** By queue and type, when it was logged. */
  readonly #warnedAt = new Map<string, number>();
  #timer: Timer | null = null;
  #stopped = false;

  constructor(deps: UnhandledDeps) {
    this.#deps = deps;
  }

  start(): void {
    if (this.#stopped) return;
    const { time, maintenanceMs } = this.#deps;
    this.#timer = time.after(jittered(2 * maintenanceMs, time), async () => {
      if (this.#deps.isFirst()) for (const queue of this.#deps.queues()) await this.#look(queue);
      this.start();
    });
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
  }

  async #look(queue: Queue): Promise<void> {
    const { time, find, log, maintenanceMs } = this.#deps;
    // No answer is no news: what keeps the database from it is reported by those who need it.
    const found = await find(queue, maintenanceMs).catch(() => []);
    if (this.#stopped) return;
    for (const [key, at] of this.#warnedAt) {
      if (time.now() - at >= AGAIN_MS) this.#warnedAt.delete(key);
    }
    const news = found.filter(({ type }) => !this.#warnedAt.has(`${queue.name} ${type}`));
    for (const one of news.slice(0, MAX_TYPES)) {
      const { type, version, id, dueForMs } = one;
      this.#warnedAt.set(`${queue.name} ${type}`, time.now());
      log.warn(
        { queue: queue.name, type, version, dueForMs, job: id },
        'due jobs wait for a type or a version that no live worker handles',
      );
    }
  }
}
