/**
 * Statements on the tables of several queues share a few connections. While somebody has locked the table of one queue,
 * each of its statements would keep a connection until its lock time-out. So a queue has at most half of the connections,
 * and once a statement has found its table locked, one at a time tries whether it still is. The rest stand in line here.
 */
import type { Executor } from '../queryable.js';
import type { Statement } from '../statement.js';
import { isTableLocked } from './transient.js';

interface Line {
  active: number;
  locked: boolean;
  readonly waiting: (() => void)[];
}

export type LockGate = ReturnType<typeof newLockGate>;

/** Of so many connections, for so many queues. A queue that is alone has all of them. */
export function newLockGate(connections: number, queues: number) {
  const most = queues === 1 ? connections : Math.max(1, Math.floor(connections / 2));
  const lines = new Map<string, Line>();

  const hasRoom = ({ active, locked }: Line) => active < (locked ? 1 : most);

  async function run<Value>(queue: string, work: () => Promise<Value>): Promise<Value> {
    const line = lines.get(queue) ?? { active: 0, locked: false, waiting: [] };
    lines.set(queue, line);
    if (hasRoom(line)) line.active++;
    else await new Promise<void>((resolve) => line.waiting.push(resolve));
    try {
      const value = await work();
      line.locked = false;
      return value;
    } catch (error) {
      if (isTableLocked(error)) line.locked = true;
      throw error;
    } finally {
      line.active--;
      // Who is called counts from now on, although it begins a little later.
      for (; line.waiting.length > 0 && hasRoom(line); line.active++) line.waiting.shift()?.();
    }
  }

  return {
    run,
    executor: (db: Executor): Executor => ({
      run: (statement, names, params) =>
        readsQueue(statement)
          ? run(names.queue, () => db.run(statement, names, params))
          : db.run(statement, names, params),
    }),
  };
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
