/**
 * The timer of the services: a round for each queue, with a jitter, for as long as the worker runs. One worker
 * at a time is enough, so in a large fleet each asks for its turn less often, and looks with one statement
 * whether there is a turn to be had before it tries to take it.
 *
 * After an outage everybody's last heartbeat is old. So nobody is declared dead before the database has
 * been reachable from here for a whole TTL again: those that live have been heard by then.
 */
import type pg from 'pg';
import { queueSettings } from '../../fleet/registry.js';
import { takeTurn } from '../../maintenance/turn.js';
import { withTransaction } from '../../postgres/pool.js';
import { BEGIN_POOLED } from '../../postgres/pooled.js';
import {
  type EngineMode,
  type Executor,
  engineExecutor,
  plainExecutor,
} from '../../postgres/queryable.js';
import type { WorkerEvent } from '../events.js';
import { jittered, type Time, type Timer } from '../time.js';
import type { Service } from './service.js';

/** The archive is found through block ranges, which only bitmaps can read. And nobody freezes with a lock. */
const WITH_BITMAPS =
  "; SET LOCAL enable_bitmapscan = on; SET LOCAL plan_cache_mode = auto; SET LOCAL idle_in_transaction_session_timeout = '5s'";
/** However large the fleet: if most of it dies at once, the rest must not take long to notice. */
const RAREST = 3;
/** So many workers have each a try in every interval; of more, each tries less often. */
const HANDS = 4;
/** Timers have a jitter of a quarter, so a turn may come early; where many try there is no need for it. */
const EARLY = 0.3;

export interface ServiceLoopDeps {
  readonly enginePool: pg.Pool;
  readonly mode: EngineMode;
  readonly schema: string;
  readonly queues: readonly string[];
  readonly services: readonly Service[];
  /** How often a turn of a queue comes. */
  readonly intervalMs: number;
  /** How many workers there are to do it. */
  readonly members: () => number;
  readonly ttlMs: number;
  readonly workerId: () => string;
  readonly time: Time;
  readonly emit: (event: WorkerEvent) => void;
  readonly reportError: (what: string, error: unknown) => void;
}

export class ServiceLoop {
  readonly #deps: ServiceLoopDeps;
  /** By queue, how long ago its last round had begun when it was last heard of, and when that was. */
  readonly #heard = new Map<string, { readonly agoMs: number | null; readonly at: number }>();
  /** By queue and service, when it ran here. */
  readonly #ranAt = new Map<string, number>();
  #timer: Timer | null = null;
  #stopped = false;
  #outage = false;
  #reachableSince = Number.NEGATIVE_INFINITY;

  constructor(deps: ServiceLoopDeps) {
    this.#deps = deps;
  }

  start(): void {
    this.#plan(0);
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
  }

  /** The database was found to be away. */
  sawOutage(): void {
    this.#outage = true;
  }

  /** A claim has seen when the last round of this queue began. */
  saw(queue: string, agoMs: number | null): void {
    this.#heard.set(queue, { agoMs, at: this.#deps.time.now() });
  }

  #plan(delayMs: number): void {
    if (this.#stopped) return;
    this.#timer = this.#deps.time.after(delayMs, async () => {
      // An outage counts from the first turn after it, whoever has the turn then.
      this.#reachableForMs();
      for (const queue of await this.#due()) await this.#round(queue);
      const rarer = Math.min(Math.max(this.#deps.members() / HANDS, 1), RAREST);
      this.#plan(jittered(this.#deps.intervalMs * rarer, this.#deps.time));
    });
  }

  /** The queues that nobody has seen to for an interval. */
  async #due(): Promise<readonly string[]> {
    const { enginePool, mode, schema, queues, intervalMs, members, reportError } = this.#deps;
    const db = engineExecutor(enginePool, mode);
    const afterMs = intervalMs * (1 - EARLY * Math.min(1, HANDS / members()));
    if (queues.every((queue) => this.#freshMs(queue) < afterMs)) return [];
    try {
      const settings = await queueSettings(db, { schema, queue: queues[0] as string });
      const fresh = new Set(
        settings.flatMap(({ name, maintainedMs }) =>
          maintainedMs !== null && maintainedMs < afterMs ? [name] : [],
        ),
      );
      return queues.filter((queue) => !fresh.has(queue));
    } catch (error) {
      if (!this.#stopped) reportError(`maintenance of ${queues.join(', ')}`, error);
      return [];
    }
  }

  /** How long ago the last round of a queue began, if that was heard of lately. */
  #freshMs(queue: string): number {
    const { agoMs = null, at = 0 } = this.#heard.get(queue) ?? {};
    const ageMs = this.#deps.time.now() - at;
    if (agoMs === null || ageMs > this.#deps.intervalMs / 4) return Number.POSITIVE_INFINITY;
    return agoMs + ageMs;
  }

  async #round(queue: string): Promise<void> {
    const { schema, intervalMs, services, enginePool, mode, ttlMs } = this.#deps;
    const begin = (mode.pooled ? BEGIN_POOLED : 'BEGIN') + WITH_BITMAPS;
    const maySweep = this.#reachableForMs() > this.#deps.ttlMs;
    const names = { schema, queue };
    const engine = engineExecutor(this.#deps.enginePool, mode);
    try {
      if (!(await takeTurn(engine, names, intervalMs))) return;
      const withBitmaps = <Value>(work: (db: Executor) => Promise<Value>) =>
        withTransaction(enginePool, (client) => work(plainExecutor(client, mode)), begin);
      const workerId = this.#deps.workerId();
      const round = { names, workerId, ttlMs, maySweep, engine, withBitmaps };
      const done = new Map<string, number>();
      for (const service of services.filter((one) => this.#isDue(queue, one))) {
        try {
          done.set(service.name, await service.run(round));
        } catch (error) {
          // One that fails does not keep the rest; it is tried again at the next round.
          if (!this.#stopped) this.#deps.reportError(`${service.name} of ${queue}`, error);
        }
      }
      const recovered = done.get('recover') ?? 0;
      const pruned = [...done].reduce((sum, [name, n]) => sum + (/^prune/.test(name) ? n : 0), 0);
      this.#deps.emit({ kind: 'maintained', queue, recovered, pruned });
    } catch (error) {
      // A worker that stops takes its connections away, and what is left of the round with them.
      if (!this.#stopped) this.#deps.reportError(`maintenance of ${queue}`, error);
    }
  }

  #isDue(queue: string, { name, everyMs }: Service): boolean {
    const key = `${queue}:${name}`;
    const now = this.#deps.time.now();
    if (now - (this.#ranAt.get(key) ?? Number.NEGATIVE_INFINITY) < 0.7 * everyMs) return false;
    this.#ranAt.set(key, now);
    return true;
  }

  #reachableForMs(): number {
    if (this.#outage) this.#reachableSince = this.#deps.time.now();
    this.#outage = false;
    return this.#deps.time.now() - this.#reachableSince;
  }
}
