/**
 * The settler: outcomes of handlers become statements, many at a time.
 *
 * While one statement of a kind is in flight the next batch gathers, so a lone job settles at once and a
 * flood shares its commits. Where some keys always fail, one or two fail with every claim; as they have to
 * wait in any case, those of a moment share a commit, and are due when they would have been. Each job
 * learns by itself whether it moved. When the connection breaks, the answer is unknown and the statement is
 * sent again: the fence makes that safe, and a completion that had been written before is found in the
 * archive. A statement that Postgres refuses for another reason, or that waits in vain for the lock of a
 * row, is halved until the one job that is to blame is alone: it cannot hold back the others.
 */
import type { Names } from '../postgres/names.js';
import { isLockedOut, isTransient } from '../postgres/pool.js';
import type { Executor } from '../postgres/queryable.js';
import { type Burial, bury } from '../settle/bury.js';
import { type Cancellation, cancelOwn } from '../settle/cancel.js';
import { complete, completedBefore, type Settled } from '../settle/complete.js';
import { type Failure, fail } from '../settle/fail.js';
import { release, type Snoozed, snooze } from '../settle/release.js';
import { Backoff, pause } from './backoff.js';
import type { StatementName } from './events.js';

const MAX_BATCH = 1_000;
/** Failures that are to be tried again later than this may wait so long for others, or for enough of them. */
const GATHER_MS = 100;
const ENOUGH = 32;

/** Where the job went, or null when it was not this worker's to move. */
export type Moved = 'completed' | 'pending' | 'dead_letter' | 'cancelled' | null;
type Done = (moved: Moved) => void;
/** By id where each job went; or all of them to the same place, which needs no list. */
type Went = Map<string, Moved> | { readonly allTo: Moved };
type Answer = Went | 'locked' | 'refused';
type Run<T> = (workerId: string, items: readonly T[]) => Promise<Went>;

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

class Batches<T extends Settled> {
  readonly #statement: StatementName;
  readonly #run: Run<T>;
  readonly #afterLoss: Run<T> | null;
  readonly #settler: Settler;
  #gatherMs: number;
  #waiting: Waiting<T>[] = [];
  #busy = false;
  #sentAt = Number.NEGATIVE_INFINITY;
  /** Ends the wait for more. */
  #sendNow = () => {};

  constructor(
    settler: Settler,
    statement: StatementName,
    run: Run<T>,
    { afterLoss, gatherMs = 0 }: BatchOptions<T> = {},
  ) {
    this.#settler = settler;
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

  flush(): void {
    this.#sendNow();
  }

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
    while (answer === 'locked' && !this.#settler.abandoned.aborted) {
      await pause(backoff.nextMs(), this.#settler.abandoned);
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
        this.#settler.took(this.#statement, performance.now() - from);
        if (!answerLost || !this.#afterLoss) return went;
        const missing = items.filter(({ id }) => wentTo(went, id) === null);
        if (missing.length === 0) return went;
        const before = await this.#afterLoss(workerId, missing);
        return new Map(items.map(({ id }) => [id, wentTo(went, id) ?? wentTo(before, id)]));
      } catch (error) {
        this.#settler.trouble(`settling ${items.length} jobs`, error);
        if (isLockedOut(error)) return 'locked';
        if (!isTransient(error) || this.#settler.abandoned.aborted) return 'refused';
        await pause(backoff.nextMs(), this.#settler.abandoned);
      }
    }
  }
}

export interface SettlerOptions {
  readonly engine: Executor;
  readonly plain: Executor;
  readonly names: Names;
  readonly trouble: (what: string, error: unknown) => void;
  /** The database has answered a settle after so long. */
  readonly took: (statement: StatementName, ms: number) => void;
  /** Aborted when the worker gives up waiting for the database at the very end. */
  readonly abandoned: AbortSignal;
}

interface Failed extends Failure {
  readonly failedAt: number;
  /** Of the delay, when it was written. */
  leftMs: number;
}

/** The delay counts from the failure, although that has waited for others. What a database was away is no part of it. */
function fromNow(job: Failed): Failure {
  const waitedMs = Math.min(performance.now() - job.failedAt, GATHER_MS);
  job.leftMs = Math.max(0, Math.ceil(job.delayMs - waitedMs));
  return { ...job, delayMs: job.leftMs };
}

const all = (ids: readonly string[], to: Moved) => new Map(ids.map((id) => [id, to]));

function wentTo(answer: Went, id: string): Moved {
  return answer instanceof Map ? (answer.get(id) ?? null) : answer.allTo;
}

export class Settler {
  readonly abandoned: AbortSignal;
  readonly trouble: (what: string, error: unknown) => void;
  readonly took: (statement: StatementName, ms: number) => void;
  readonly #completed: Batches<Settled>;
  readonly #failed: Batches<Failed>;
  readonly #putOff: Batches<Failed>;
  readonly #buried: Batches<Burial>;
  readonly #released: Batches<Settled>;
  readonly #snoozed: Batches<Snoozed>;
  readonly #cancelled: Batches<Cancellation>;

  constructor({ engine, plain, names, trouble, took, abandoned }: SettlerOptions) {
    this.trouble = trouble;
    this.took = took;
    this.abandoned = abandoned;
    this.#completed = new Batches(
      this,
      'complete',
      async (by, jobs) => {
        const moved = await complete(engine, names, by, jobs);
        return moved.length === jobs.length ? { allTo: 'completed' } : all(moved, 'completed');
      },
      {
        afterLoss: async (by, jobs) =>
          all(await completedBefore(plain, names, by, jobs), 'completed'),
      },
    );
    const failed: Run<Failed> = async (by, jobs) => {
      const rows = await fail(engine, names, by, jobs.map(fromNow));
      return new Map(rows.map((row) => [row.id, row.status as Moved]));
    };
    this.#failed = new Batches(this, 'fail', failed);
    this.#putOff = new Batches(this, 'fail', failed, { gatherMs: GATHER_MS });
    this.#buried = new Batches(this, 'bury', async (by, jobs) =>
      all(await bury(engine, names, by, jobs), 'dead_letter'),
    );
    this.#released = new Batches(this, 'release', async (by, jobs) =>
      all(await release(engine, names, by, jobs), 'pending'),
    );
    this.#snoozed = new Batches(this, 'snooze', async (by, jobs) =>
      all(await snooze(engine, names, by, jobs), 'pending'),
    );
    this.#cancelled = new Batches(this, 'cancel', async (by, jobs) =>
      all(await cancelOwn(engine, names, by, jobs), 'cancelled'),
    );
  }

  /** What waits for others is sent now. */
  flush(): void {
    this.#putOff.flush();
  }

  /** The worker is stopping: from now on nothing waits for others. */
  hurry(): void {
    this.#putOff.hurry();
  }

  /**
   * Tries until the database has answered: `work` is told when an earlier answer was lost. Null when the
   * worker is at its end; an error that will not pass is thrown.
   */
  async untilAnswered(what: string, work: (again: boolean) => Promise<Moved>): Promise<Moved> {
    const backoff = new Backoff();
    for (let again = false; ; again = true) {
      try {
        return await work(again);
      } catch (error) {
        this.trouble(what, error);
        if (!isTransient(error)) throw error;
        if (this.abandoned.aborted) return null;
        await pause(backoff.nextMs(), this.abandoned);
      }
    }
  }

  complete = (by: string, job: Settled, done: Done) => this.#completed.add(by, job, done);
  /** `atOnce`: something else waits for it. `done` also hears what was left of the delay. */
  fail = (
    by: string,
    job: Failure,
    atOnce: boolean,
    done: (moved: Moved, leftMs: number) => void,
  ) => {
    const failed: Failed = { ...job, failedAt: performance.now(), leftMs: job.delayMs };
    const batches = atOnce || job.delayMs <= GATHER_MS ? this.#failed : this.#putOff;
    batches.add(by, failed, (moved) => done(moved, failed.leftMs));
  };
  bury = (by: string, job: Burial, done: Done) => this.#buried.add(by, job, done);
  release = (by: string, job: Settled, done: Done) => this.#released.add(by, job, done);
  snooze = (by: string, job: Snoozed, done: Done) => this.#snoozed.add(by, job, done);
  cancel = (by: string, job: Cancellation, done: Done) => this.#cancelled.add(by, job, done);
}
