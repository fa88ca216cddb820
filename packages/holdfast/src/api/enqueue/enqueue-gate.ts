/**
 * Enqueues outside of a caller's transaction share a pool with everything else that the program does. So those of one
 * queue have a part of its connections and leave some to others: while the table of a queue is locked, they wait for no
 * longer than an enqueue waits for a lock, and nobody else waits for them.
 *
 * Once an enqueue has found the table locked, one at a time tries whether it still is. The others are refused at once
 * with the same error, which names the lock.
 */
import type pg from 'pg';
import { HoldfastError } from '../../job/errors/holdfast-error.js';
import { STOOD_IN_LINE } from '../../postgres/connect/transient.js';

interface Waiting {
  readonly enter: () => void;
  readonly refuse: (error: unknown) => void;
}

interface Gate {
  active: number;
  readonly line: Waiting[];
  /** The last one that was answered found the table locked. */
  locked: HoldfastError | null;
}

/** One connection in five is left to others; of a small pool, one. */
const partOf = (max: number) => Math.max(1, Math.min(max - 1, Math.ceil((max * 4) / 5)));

export class EnqueueGate {
  readonly #gates = new Map<string, Gate>();
  readonly #pool: () => pg.Pool;

  constructor(pool: () => pg.Pool) {
    this.#pool = pool;
  }

  /** `explain` makes LOCKED of a lock on the table; any other error it returns as it is. */
  async run<Value>(
    queue: string,
    work: () => Promise<Value>,
    explain: (error: unknown) => Promise<unknown>,
  ): Promise<Value> {
    const gate = this.#gates.get(queue) ?? { active: 0, line: [], locked: null };
    this.#gates.set(queue, gate);
    await this.#enter(gate);
    try {
      const value = await work();
      gate.locked = null;
      return value;
    } catch (error) {
      const why = await explain(error);
      if (why instanceof HoldfastError && why.code === 'LOCKED') {
        gate.locked = why;
        for (const { refuse } of gate.line.splice(0)) refuse(again(why));
      }
      throw why;
    } finally {
      gate.active--;
      gate.line.shift()?.enter();
      if (gate.active === 0 && gate.line.length === 0 && !gate.locked) this.#gates.delete(queue);
    }
  }

  #enter(gate: Gate): Promise<void> | void {
    // What only behaves like a pool, such as that of the test kit, does not say how many connections it has.
    const { max = Number.POSITIVE_INFINITY, connectionTimeoutMillis = 0 } =
      (this.#pool().options as Partial<pg.PoolOptions> | undefined) ?? {};
    const { locked } = gate;
    if (locked && gate.active > 0) throw again(locked);
    if (gate.active < partOf(max)) {
      gate.active++;
      return;
    }
    return new Promise((resolve, reject) => {
      const leave = () => {
        if (timer) clearTimeout(timer);
        const at = gate.line.indexOf(waiting);
        if (at >= 0) gate.line.splice(at, 1);
      };
      const waiting: Waiting = {
        enter: () => {
          leave();
          gate.active++;
          resolve();
        },
        refuse: (error) => {
          leave();
          reject(error);
        },
      };
      // As the pool does with those that stand in its line.
      const late = () => waiting.refuse(new Error(STOOD_IN_LINE));
      const timer = connectionTimeoutMillis > 0 ? setTimeout(late, connectionTimeoutMillis) : null;
      gate.line.push(waiting);
    });
  }
}

/** For another call, with a stack of its own. */
const again = (error: HoldfastError) =>
  new HoldfastError(error.code, error.message, { cause: error.cause });
