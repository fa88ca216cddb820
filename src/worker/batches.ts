/**
 * Batches: settles of one kind become statements, many at a time.
 *
 * While one statement is in flight the next batch gathers, so a lone job settles at once and a flood shares
 * its commits. Each job learns by itself whether it moved. When the connection breaks, the answer is unknown
 * and the statement is sent again: the fence makes that safe, and what had been written before can be looked
 * for. A statement that Postgres refuses for another reason, or that waits in vain for the lock of a row, is
 * halved until the one job that is to blame is alone: it cannot hold back the others.
 */
import { isLockedOut, isTransient } from '../postgres/pool.js';
import type { Settled } from '../settle/complete.js';
import { Backoff, pause } from './backoff.js';
import type { StatementName } from './events.js';

const MAX_BATCH = 1_000;
/** So many do not wait for more. */
const ENOUGH = 32;

/** Where the job went, or null when it was not this worker's to move. */
export type Moved = 'completed' | 'pending' | 'dead_letter' | 'cancelled' | null;
export type Done = (moved: Moved) => void;
/** By id where each job went; or all of them to the same place, which needs no list. */
export type Went = Map<string, Moved> | { readonly allTo: Moved };
type Answer = Went | 'locked' | 'refused';
export type Run<T> = (workerId: string, items: readonly T[]) => Promise<Went>;

interface Waiting<T> {
  readonly workerId: string;
  readonly item: T;
  readonly done: Done;
}

interface BatchOptions<T> {
  /** Finds what was done by a statement whose answer got lost. */
  readonly afterLoss?: Run<T>;
  /** At least so long from one statement to the next, unless there is enough for one. */
  readonly gatherMs?: number;
}

/** What all kinds of settles have in common. */
export interface BatchGround {
  readonly trouble: (what: string, error: unknown) => void;
  /** The database has answered a settle after so long. */
  readonly took: (statement: StatementName, ms: number) => void;
  /** Aborted when the worker gives up waiting for the database at the very end. */
  readonly abandoned: AbortSignal;
}

export class Batches<T extends Settled> {
  readonly #statement: StatementName;
  readonly #run: Run<T>;
  readonly #afterLoss: Run<T> | null;
  readonly #ground: BatchGround;
  #gatherMs: number;
  #waiting: Waiting<T>[] = [];
  #busy = false;
  #sentAt = Number.NEGATIVE_INFINITY;
  /** Ends the wait for more. */
  #sendNow = () => {};

  constructor(
    ground: BatchGround,
    statement: StatementName,
    run: Run<T>,
    { afterLoss, gatherMs = 0 }: BatchOptions<T> = {},
  ) {
    this.#ground = ground;
    this.#statement = statement;
    this.#run = run;
    this.#afterLoss = afterLoss ?? null;
    this.#gatherMs = gatherMs;
  }

  add(workerId: string, item: T, done: Done): void {
    this.#waiting.push({ workerId, item, done });
    if (!this.#busy) {
      this.#busy = true;
      // Everything that ends in this turn of the loop shares the first statement.
      setImmediate(() => void this.#drain());
    } else if (this.#waiting.length >= ENOUGH) this.#sendNow();
  }

  /** What waits for others is sent now. */
  flush(): void {
    this.#sendNow();
  }

  /** From now on nothing waits for others. */
  hurry(): void {
    this.#gatherMs = 0;
    this.#sendNow();
  }

  #gathered(): Promise<void> | null {
    const earlyMs = this.#sentAt + this.#gatherMs - performance.now();
    if (earlyMs <= 0 || this.#waiting.length >= ENOUGH) return null;
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, earlyMs);
      this.#sendNow = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  async #drain(): Promise<void> {
    try {
      while (this.#waiting.length > 0) {
        await this.#gathered();
        this.#sentAt = performance.now();
        const owner = this.#waiting[0]?.workerId;
        let count = 0;
        while (count < MAX_BATCH && this.#waiting[count]?.workerId === owner) count++;
        const batch = this.#waiting.splice(0, count);
        // What ran before it was lost, as an earlier batch has found: nothing behind that may count.
        const whole = batch.filter(({ item, done }) => {
          const broken = item.broken?.() === true;
          if (broken) done(null);
          return !broken;
        });
        // Locks are taken in the order of the ids, so that two batches cannot deadlock.
        whole.sort((a, b) => (a.item.id < b.item.id ? -1 : 1));
        if (whole.length > 0) await this.#send(whole);
      }
    } finally {
      this.#busy = false;
    }
  }

  /** `again`: some of it was asked for before, and may have been done then. */
  async #send(batch: readonly Waiting<T>[], again = false): Promise<void> {
    const answer = await this.#ask(batch, again);
    if (typeof answer === 'object') {
      for (const { item, done } of batch) done(wentTo(answer, item.id));
    } else if (batch.length === 1) {
      // Somebody holds the lock of this one row. It waits by itself, and the others go on.
      if (answer === 'locked') void this.#sendAlone(batch[0] as Waiting<T>);
      else batch[0]?.done(null);
    } else {
      const half = Math.ceil(batch.length / 2);
      await this.#send(batch.slice(0, half), true);
      await this.#send(batch.slice(half), true);
    }
  }

  async #sendAlone(one: Waiting<T>): Promise<void> {
    const backoff = new Backoff();
    let answer: Answer = 'locked';
    while (answer === 'locked' && !this.#ground.abandoned.aborted) {
      await pause(backoff.nextMs(), this.#ground.abandoned);
      answer = await this.#ask([one], true);
    }
    one.done(typeof answer === 'object' ? wentTo(answer, one.item.id) : null);
  }

  /** Asks until the database has answered; an answer that got lost is looked for. */
  async #ask(batch: readonly Waiting<T>[], again: boolean): Promise<Answer> {
    const workerId = batch[0]?.workerId as string;
    const items = batch.map(({ item }) => item);
    const backoff = new Backoff();
    for (let answerLost = again; ; answerLost = true) {
      try {
        const from = performance.now();
        const went = await this.#run(workerId, items);
        this.#ground.took(this.#statement, performance.now() - from);
        if (!answerLost || !this.#afterLoss) return went;
        const missing = items.filter(({ id }) => wentTo(went, id) === null);
        if (missing.length === 0) return went;
        const before = await this.#afterLoss(workerId, missing);
        return new Map(items.map(({ id }) => [id, wentTo(went, id) ?? wentTo(before, id)]));
      } catch (error) {
        this.#ground.trouble(`settling ${items.length} jobs`, error);
        if (isLockedOut(error)) return 'locked';
        if (!isTransient(error) || this.#ground.abandoned.aborted) return 'refused';
        await pause(backoff.nextMs(), this.#ground.abandoned);
      }
    }
  }
}

function wentTo(answer: Went, id: string): Moved {
  return answer instanceof Map ? (answer.get(id) ?? null) : answer.allTo;
}
