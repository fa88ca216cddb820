/**
 * The timer of the housekeeping: a round for each queue, with a jitter, for as long as the worker runs.
 * One pair of hands is enough, so in a large fleet each worker asks for its turn less often.
 *
 * After an outage everybody's last heartbeat is old. So nobody is declared dead before the database has
 * been reachable from here for a whole TTL again: those that live have been heard by then.
 */
import type pg from 'pg';
import type { EngineMode } from '../postgres/queryable.js';
import type { WorkerEvent } from './events.js';
import { keepHouse } from './housekeeper.js';

/** However large the fleet: if most of it dies at once, the rest must not take long to notice. */
const RAREST = 3;

export interface HousekeepingLoopGround {
  readonly enginePool: pg.Pool;
  readonly plainPool: pg.Pool;
  readonly mode: EngineMode;
  readonly schema: string;
  readonly queues: readonly string[];
  readonly intervalMs: number;
  /** How many workers there are to do it. */
  readonly members: () => number;
  readonly ttlMs: number;
  readonly workerId: () => string;
  /** Workers that were declared dead by a round. */
  readonly found: (dead: readonly string[]) => void;
  readonly emit: (event: WorkerEvent) => void;
  readonly trouble: (what: string, error: unknown) => void;
}

export class HousekeepingLoop {
  readonly #ground: HousekeepingLoopGround;
  #timer: NodeJS.Timeout | null = null;
  #stopped = false;
  #outage = false;
  #reachableSince = Number.NEGATIVE_INFINITY;

  constructor(ground: HousekeepingLoopGround) {
    this.#ground = ground;
  }

  start(): void {
    this.#plan(0);
  }

  stop(): void {
    this.#stopped = true;
    if (this.#timer) clearTimeout(this.#timer);
  }

  /** The database was found to be away. */
  sawOutage(): void {
    this.#outage = true;
  }

  #plan(delayMs: number): void {
    if (this.#stopped) return;
    this.#timer = setTimeout(async () => {
      for (const queue of this.#ground.queues) await this.#round(queue);
      const rarer = Math.min(Math.max(this.#ground.members() / 4, 1), RAREST);
      this.#plan(this.#ground.intervalMs * rarer * (0.75 + Math.random() * 0.5));
    }, delayMs);
  }

  async #round(queue: string): Promise<void> {
    const { schema, intervalMs, ttlMs, enginePool, plainPool, mode } = this.#ground;
    const workerId = this.#ground.workerId();
    const sweep = this.#reachableForMs() > ttlMs;
    try {
      const report = await keepHouse(
        { enginePool, plainPool, mode, ttlMs, intervalMs, workerId, sweep },
        { schema, queue },
      );
      if (!report) return;
      const { recovered, pruned, dead, failures } = report;
      this.#ground.emit({ kind: 'housekept', queue, recovered, pruned });
      if (dead.length > 0) this.#ground.found(dead);
      for (const error of failures) this.#ground.trouble(`housekeeping of ${queue}`, error);
    } catch (error) {
      if (!this.#stopped) this.#ground.trouble(`housekeeping of ${queue}`, error);
    }
  }

  #reachableForMs(): number {
    if (this.#outage) this.#reachableSince = performance.now();
    this.#outage = false;
    return performance.now() - this.#reachableSince;
  }
}
