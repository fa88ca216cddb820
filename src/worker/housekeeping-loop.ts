/**
 * The timer of the housekeeping: a round for each queue, with a jitter, for as long as the worker runs.
 * One pair of hands is enough, so in a large fleet each worker asks for its turn less often, and looks
 * with one statement whether there is a turn to be had before it tries to take it.
 *
 * After an outage everybody's last heartbeat is old. So nobody is declared dead before the database has
 * been reachable from here for a whole TTL again: those that live have been heard by then.
 */
import type pg from 'pg';
import { queueSettings } from '../fleet/registry.js';
import { type EngineMode, engineExecutor } from '../postgres/queryable.js';
import type { WorkerEvent } from './events.js';
import { keepHouse } from './housekeeper.js';

/** However large the fleet: if most of it dies at once, the rest must not take long to notice. */
const RAREST = 3;
/** So many workers have each a try in every interval; of more, each tries less often. */
const HANDS = 4;
/** Timers have a jitter of a quarter, so a turn may come early; where many try there is no need for it. */
const EARLY = 0.3;

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
  /** By queue, how long ago its last round had begun when it was last heard of, and when that was. */
  readonly #heard = new Map<string, { readonly agoMs: number | null; readonly at: number }>();
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

  /** A claim has seen when the last round of this queue began. */
  saw(queue: string, agoMs: number | null): void {
    this.#heard.set(queue, { agoMs, at: performance.now() });
  }

  #plan(delayMs: number): void {
    if (this.#stopped) return;
    this.#timer = setTimeout(async () => {
      // An outage counts from the first turn after it, whoever keeps house then.
      this.#reachableForMs();
      for (const queue of await this.#due()) await this.#round(queue);
      const rarer = Math.min(Math.max(this.#ground.members() / HANDS, 1), RAREST);
      this.#plan(this.#ground.intervalMs * rarer * (0.75 + Math.random() * 0.5));
    }, delayMs);
  }

  /** The queues that nobody has seen to for an interval. */
  async #due(): Promise<readonly string[]> {
    const { enginePool, mode, schema, queues, intervalMs, members, trouble } = this.#ground;
    const db = engineExecutor(enginePool, mode);
    const afterMs = intervalMs * (1 - EARLY * Math.min(1, HANDS / members()));
    if (queues.every((queue) => this.#freshMs(queue) < afterMs)) return [];
    try {
      const settings = await queueSettings(db, { schema, queue: queues[0] as string });
      const fresh = new Set(
        settings.flatMap(({ name, housekeptMs }) =>
          housekeptMs !== null && housekeptMs < afterMs ? [name] : [],
        ),
      );
      return queues.filter((queue) => !fresh.has(queue));
    } catch (error) {
      if (!this.#stopped) trouble(`housekeeping of ${queues.join(', ')}`, error);
      return [];
    }
  }

  /** How long ago the last round of a queue began, if that was heard of lately. */
  #freshMs(queue: string): number {
    const { agoMs = null, at = 0 } = this.#heard.get(queue) ?? {};
    const ageMs = performance.now() - at;
    if (agoMs === null || ageMs > this.#ground.intervalMs / 4) return Number.POSITIVE_INFINITY;
    return agoMs + ageMs;
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
      // A worker that stops takes its connections away, and what is left of the round with them.
      if (this.#stopped) return;
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
