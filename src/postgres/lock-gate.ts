/**
 * Statements on the tables of several queues share a few connections. While somebody has locked the table of one queue,
 * each of its statements would keep a connection until its lock time-out, and the other queues would wait for those. So
 * once a statement has found the table locked, one at a time tries whether it still is, and the rest stand in line
 * here. While no table is locked it costs nothing.
 */
import type { Executor } from './queryable.js';
import { isTableLocked } from './refused.js';
import type { Statement } from './statement.js';

export class LockGate {
  /** By queue whose table is locked: when the last in its line has been answered. */
  readonly #lines = new Map<string, Promise<unknown>>();

  run<Value>(queue: string, work: () => Promise<Value>): Promise<Value> {
    const last = this.#lines.get(queue);
    if (!last) return this.#watch(queue, work);
    const next = last.then(() => this.#watch(queue, work));
    this.#lines.set(
      queue,
      next.catch(() => undefined),
    );
    return next;
  }

  executor(db: Executor): Executor {
    return {
      run: (statement, names, params) =>
        readsQueue(statement)
          ? this.run(names.queue, () => db.run(statement, names, params))
          : db.run(statement, names, params),
    };
  }

  async #watch<Value>(queue: string, work: () => Promise<Value>): Promise<Value> {
    try {
      const value = await work();
      // Who stands in line still comes one after the other, and soon.
      this.#lines.delete(queue);
      return value;
    } catch (error) {
      if (isTableLocked(error) && !this.#lines.has(queue))
        this.#lines.set(queue, Promise.resolve());
      throw error;
    }
  }
}

const known = new WeakMap<object, boolean>();

/** Statements on the registry and the like are asked in the name of some queue, and touch none. */
function readsQueue(statement: Statement): boolean {
  let reads = known.get(statement);
  if (reads === undefined) {
    reads = statement.text.includes('holdfast.inbox');
    known.set(statement, reads);
  }
  return reads;
}
