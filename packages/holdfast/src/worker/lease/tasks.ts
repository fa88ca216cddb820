/**
 * Tasks that share one connection: the first of the list that is due runs next. A task is not due again at once, also when
 * it has failed, so none can keep the others waiting for longer than one statement may take. A broken connection is made
 * again without waiting for a task, because the liveness lock went with it.
 */
import { Backoff } from '../../postgres/connect/backoff.js';
import type { Executor } from '../../postgres/queryable.js';
import { CHECK_MS, Wait } from '../time.js';
import type { Connection } from './connection.js';
import { monotonicMs, TICK_MS } from './protocol.js';

export interface Task {
  readonly what: string;
  /** Returns in how many milliseconds it is due again. */
  readonly run: (db: Executor) => Promise<number>;
}

export interface TasksDeps {
  readonly connection: Pick<Connection, 'db' | 'open' | 'failed' | 'onLost'>;
  /** The more urgent ones first. */
  readonly tasks: readonly Task[];
  /** Nothing runs meanwhile. */
  readonly paused: () => boolean;
  readonly error: (what: string, error: unknown) => void;
}

interface Slot {
  readonly task: Task;
  readonly backoff: Backoff;
  dueAt: number;
}

export class Tasks {
  readonly #deps: TasksDeps;
  readonly #slots: readonly Slot[];
  readonly #backoff = new Backoff();
  #connectAt = 0;
  #stopped = false;
  readonly #sleep = new Wait();

  constructor(deps: TasksDeps) {
    this.#deps = deps;
    this.#slots = deps.tasks.map((task) => ({ task, backoff: new Backoff(), dueAt: 0 }));
    deps.connection.onLost = () => this.#sleep.end();
    void this.#run();
  }

  /** Everything is due now, but for what has just failed. */
  runNow(): void {
    for (const slot of this.#slots) if (!slot.backoff.failing) slot.dueAt = 0;
    this.#sleep.end();
  }

  stop(): void {
    this.#stopped = true;
    this.#sleep.end();
  }

  async #run(): Promise<void> {
    const { connection, paused } = this.#deps;
    while (!this.#stopped) {
      const { db } = connection;
      const slot = this.#next();
      const waitMs = slot.dueAt - monotonicMs();
      if (paused()) await this.#sleep.atMost(TICK_MS);
      else if (!db) await this.#connect();
      else if (waitMs > 0) await this.#sleep.atMost(waitMs);
      else await this.#runTask(slot, db);
    }
  }

  #next(): Slot {
    const now = monotonicMs();
    const due = this.#slots.find(({ dueAt }) => dueAt <= now);
    return due ?? this.#slots.reduce((a, b) => (b.dueAt < a.dueAt ? b : a));
  }

  async #connect(): Promise<void> {
    const now = monotonicMs();
    if (now < this.#connectAt) {
      await this.#sleep.atMost(this.#connectAt - now);
      return;
    }
    const failedBefore = this.#backoff.failing;
    // Others check twice before they declare anybody dead: a database that is back must be met by then.
    this.#connectAt = now + Math.min(this.#backoff.nextMs(), CHECK_MS);
    try {
      await this.#deps.connection.open();
      this.runNow();
    } catch (error) {
      // Once per outage: the other loops report it too.
      if (!this.#stopped && !failedBefore) this.#deps.error('connecting the keeper', error);
    }
  }

  async #runTask(slot: Slot, db: Executor): Promise<void> {
    try {
      const inMs = await slot.task.run(db);
      slot.dueAt = monotonicMs() + inMs;
      slot.backoff.reset();
      this.#backoff.reset();
    } catch (error) {
      slot.dueAt = monotonicMs() + slot.backoff.nextMs();
      this.#deps.connection.failed(error);
      if (!this.#stopped) this.#deps.error(slot.task.what, error);
    }
  }
}
