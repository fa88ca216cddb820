/**
 * The settler: outcomes of handlers become statements, many at a time (see batches.ts).
 *
 * Where some keys always fail, one or two fail with every claim; as they have to wait in any case, those of
 * a moment share a commit, and are due when they would have been. A completion whose answer got lost is
 * found in the archive.
 */
import type { Names } from '../postgres/names.js';
import { isTransient } from '../postgres/pool.js';
import type { Executor } from '../postgres/queryable.js';
import { type Burial, bury } from '../settle/bury.js';
import { type Cancellation, cancelOwn } from '../settle/cancel.js';
import { complete, completedBefore, type Settled } from '../settle/complete.js';
import { type Failure, fail } from '../settle/fail.js';
import { release, type Snoozed, snooze } from '../settle/release.js';
import { Backoff, pause } from './backoff.js';
import { Batches, type BatchGround, type Done, type Moved, type Run } from './batches.js';

/** Failures that are to be tried again later than this may wait so long for others, or for enough of them. */
const GATHER_MS = 100;

export interface SettlerOptions extends BatchGround {
  readonly engine: Executor;
  readonly plain: Executor;
  readonly names: Names;
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

export class Settler {
  readonly #ground: BatchGround;
  readonly #completed: Batches<Settled>;
  readonly #failed: Batches<Failed>;
  readonly #putOff: Batches<Failed>;
  readonly #buried: Batches<Burial>;
  readonly #released: Batches<Settled>;
  readonly #snoozed: Batches<Snoozed>;
  readonly #cancelled: Batches<Cancellation>;

  constructor({ engine, plain, names, ...ground }: SettlerOptions) {
    this.#ground = ground;
    this.#completed = new Batches(
      ground,
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
    this.#failed = new Batches(ground, 'fail', failed);
    this.#putOff = new Batches(ground, 'fail', failed, { gatherMs: GATHER_MS });
    this.#buried = new Batches(ground, 'bury', async (by, jobs) =>
      all(await bury(engine, names, by, jobs), 'dead_letter'),
    );
    this.#released = new Batches(ground, 'release', async (by, jobs) =>
      all(await release(engine, names, by, jobs), 'pending'),
    );
    this.#snoozed = new Batches(ground, 'snooze', async (by, jobs) =>
      all(await snooze(engine, names, by, jobs), 'pending'),
    );
    this.#cancelled = new Batches(ground, 'cancel', async (by, jobs) =>
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
        this.#ground.trouble(what, error);
        if (!isTransient(error)) throw error;
        if (this.#ground.abandoned.aborted) return null;
        await pause(backoff.nextMs(), this.#ground.abandoned);
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
