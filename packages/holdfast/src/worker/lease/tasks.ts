/**
 * Tasks that share one connection: the first of the list that is due runs next. None is due again at once, also when it
 * has failed. A broken connection is made again at once, because the liveness lock went with it.
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

interface TasksDeps {
  readonly connection: Pick<Connection, 'db' | 'open' | 'failed' | 'onLost'>;
  /** The more urgent ones first. */
  readonly tasks: readonly Task[];
  readonly paused: () => boolean;
  readonly error: (what: string, error: unknown) => void;
}

export function startTasks({ connection, tasks, paused, error: report }: TasksDeps) {
  const slots = tasks.map((task) => ({ task, backoff: new Backoff(), dueAt: 0 }));
  const backoff = new Backoff();
  let connectAt = 0;
  let stopped = false;
  const sleep = new Wait();
  connection.onLost = () => sleep.end();

  /** Everything is due now, but for what has just failed. */
  function runNow(): void {
    for (const slot of slots) if (!slot.backoff.failing) slot.dueAt = 0;
    sleep.end();
  }

  function next() {
    const now = monotonicMs();
    const due = slots.find(({ dueAt }) => dueAt <= now);
    return due ?? slots.reduce((a, b) => (b.dueAt < a.dueAt ? b : a));
  }

  async function connect(): Promise<void> {
    const now = monotonicMs();
    if (now < connectAt) return void (await sleep.atMost(connectAt - now));
    const failedBefore = backoff.failing;
    // Others check twice before they declare anybody dead: a database that is back must be met by then.
    connectAt = now + Math.min(backoff.nextMs(), CHECK_MS);
    try {
      await connection.open();
      runNow();
    } catch (error) {
      // Once per outage: the other loops report it too.
      if (!stopped && !failedBefore) report('connecting the keeper', error);
    }
  }

  async function runTask(slot: ReturnType<typeof next>, db: Executor): Promise<void> {
    try {
      const inMs = await slot.task.run(db);
      slot.dueAt = monotonicMs() + inMs;
      slot.backoff.reset();
      backoff.reset();
    } catch (error) {
      slot.dueAt = monotonicMs() + slot.backoff.nextMs();
      connection.failed(error);
      if (!stopped) report(slot.task.what, error);
    }
  }

  async function run(): Promise<void> {
    while (!stopped) {
      const { db } = connection;
      const slot = next();
      const waitMs = slot.dueAt - monotonicMs();
      if (paused()) await sleep.atMost(TICK_MS);
      else if (!db) await connect();
      else if (waitMs > 0) await sleep.atMost(waitMs);
      else await runTask(slot, db);
    }
  }

  void run();
  return {
    runNow,
    stop(): void {
      stopped = true;
      sleep.end();
    },
  };
}
