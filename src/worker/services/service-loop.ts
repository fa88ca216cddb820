/**
 * The timer of the services: a round for each queue, with a jitter, for as long as the worker runs. One worker of
 * the fleet does a round, so each first asks for its turn; a worker that claims knows from its claims when the last
 * round began, and does not ask too early.
 *
 * After an outage everybody's last heartbeat is old. So nobody is declared dead before the database has
 * been reachable from here for a whole TTL again: those that live have sent a heartbeat by then.
 */
import type pg from 'pg';
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
/** Timers have a jitter of a quarter, so a round may come this early: see maintenance/turn.ts. */
const EARLY = 0.7;

export interface ServiceLoopDeps {
  readonly enginePool: pg.Pool;
  readonly mode: EngineMode;
  readonly schema: string;
  readonly queues: readonly string[];
  readonly services: readonly Service[];
  /** How often a turn of a queue comes. */
  readonly intervalMs: number;
  readonly ttlMs: number;
  readonly workerId: () => string;
  readonly time: Time;
  readonly emit: (event: WorkerEvent) => void;
  readonly reportError: (what: string, error: unknown) => void;
}

export class ServiceLoop {
  readonly #deps: ServiceLoopDeps;
  /** By queue, when its last round began, as far as claims have said. */
  readonly #beganAt = new Map<string, number>();
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
    // It may have been started at the end of an outage, before the others are back.
    this.#outage = true;
    this.#plan(0);
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
  }

  /** The database was found to be away. */
  recordOutage(): void {
    this.#outage = true;
  }

  /** A claim has seen when the last round of this queue began. */
  recordRound(queue: string, agoMs: number | null): void {
    if (agoMs !== null) this.#beganAt.set(queue, this.#deps.time.now() - agoMs);
  }

  #plan(delayMs: number): void {
    if (this.#stopped) return;
    this.#timer = this.#deps.time.after(delayMs, async () => {
      // An outage counts from the first turn after it, whoever has the turn then.
      this.#reachableForMs();
      const { queues, intervalMs, time } = this.#deps;
      const isDue = (queue: string) => time.now() - this.#began(queue) >= EARLY * intervalMs;
      for (const queue of queues.filter(isDue)) await this.#round(queue);
      this.#plan(jittered(intervalMs, time));
    });
  }

  #began(queue: string): number {
    return this.#beganAt.get(queue) ?? Number.NEGATIVE_INFINITY;
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
          const count = await service.run(round);
          done.set(service.name, count);
          if (count >= (service.atMost ?? Number.POSITIVE_INFINITY)) this.#goOn(queue, service);
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
    if (now - (this.#ranAt.get(key) ?? Number.NEGATIVE_INFINITY) < EARLY * everyMs) return false;
    this.#ranAt.set(key, now);
    return true;
  }

  #goOn(queue: string, { name }: Service): void {
    this.#ranAt.delete(`${queue}:${name}`);
  }

  #reachableForMs(): number {
    if (this.#outage) this.#reachableSince = this.#deps.time.now();
    this.#outage = false;
    return this.#deps.time.now() - this.#reachableSince;
  }
}
