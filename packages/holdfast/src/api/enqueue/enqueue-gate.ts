/**
 * Enqueues outside of a caller's transaction share a pool with the rest of the program, so those of one queue get a part of
 * its connections: while the table of a queue is locked, nobody else waits for them.
 *
 * Once an enqueue has found the table locked, one at a time tries whether it still is. The others are refused at once
 * with the same error, which names the lock.
 */
import type pg from 'pg';
import {
  endStatement,
  type LockSession,
  readLocks,
  sessionWords,
  TO_END,
  writersBlockers,
} from '../../inspect/reading/locks.js';
import { reading } from '../../inspect/reading/reading.js';
import { span } from '../../inspect/reading/words.js';
import { HoldfastError } from '../../job/errors/holdfast-error.js';
import { LOCK_WAIT_MS } from '../../postgres/connect/bounded.js';
import { isTableLocked, STOOD_IN_LINE } from '../../postgres/connect/transient.js';
import type { Names } from '../../postgres/names.js';

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

const ASK_MS = 2_000;

/**
 * Of an enqueue that gave up because its table was locked: who holds the lock, and what to do. Any other error is returned
 * as it is. Asked on a connection of its own: those of the pool may all wait.
 */
export async function asLocked(
  error: unknown,
  { schema, queue }: Names,
  observer: () => pg.Pool,
): Promise<unknown> {
  if ((error as { code?: unknown } | null)?.code !== '55P03') return error;
  const ask = async () =>
    reading(observer(), (db) => readLocks(db, schema), { schema, limitMs: ASK_MS });
  const sessions = await ask().catch((): LockSession[] => []);
  const culprit = writersBlockers(sessions).find(
    ({ holds }) => holds === queue || holds?.startsWith(`${queue}_`),
  );
  // One row, such as that of an idempotency key which another transaction has taken: the table is not locked.
  if (!culprit && !isTableLocked(error)) return error;
  const who = culprit
    ? `${sessionWords(culprit)} holds ${culprit.holdsMode ?? 'a lock'} on ${culprit.holds}${running(culprit)}.`
    : 'Who holds the lock is not known: it is free again, or this user may not see it; ask `holdfast doctor`.';
  return new HoldfastError(
    'LOCKED',
    `The table ${schema}.${queue} is locked, so nothing was enqueued into the queue "${queue}" within ${span(LOCK_WAIT_MS)}. ` +
      `${who} Enqueue again when it is free.${culprit ? `${TO_END}${endStatement(culprit)}` : ''}`,
    { cause: error },
  );
}

const running = ({ openMs }: LockSession) =>
  openMs === null ? '' : `, in a transaction that began ${span(openMs)} ago`;
