/**
 * The settler: a batcher for each way in which a job leaves this worker. A completion whose answer got lost is
 * found in the archive. What Postgres refuses for good is handed back with the reason, to be settled as a failure;
 * a failure or a release that it refuses is kept and tried again, because nothing is left to do in its place.
 */
import { hintQueue } from '../../fleet/wake.js';
import { Backoff, pause } from '../../postgres/backoff.js';
import type { Names } from '../../postgres/names.js';
import { isTransient } from '../../postgres/pool.js';
import type { Executor } from '../../postgres/queryable.js';
import { type Cancellation, cancelOwn } from '../../settle/cancel.js';
import { complete, completedBefore, type Settled } from '../../settle/complete.js';
import { type DeadLetter, deadLetter } from '../../settle/dead-letter.js';
import { type Failure, fail } from '../../settle/fail.js';
import { release, type Snoozed, snooze } from '../../settle/release.js';
import type { SettleResult } from '../events.js';
import { Batcher, type BatcherDeps, type Done, Refusal, resultsOf } from './batcher.js';
import { inPlainWords, isUnstorable } from './plain-words.js';

/** Settles of one kind follow each other no faster than this, so that those of a moment share a commit. */
const GATHER_MS = 4;

export interface SettlerDeps extends BatcherDeps {
  readonly engine: Executor;
  readonly plain: Executor;
  readonly names: Names;
}

export class Settler {
  readonly #deps: SettlerDeps;
  readonly #completed: Batcher<Settled>;
  readonly #failed: Batcher<Failure>;
  readonly #deadLettered: Batcher<DeadLetter>;
  readonly #released: Batcher<Settled>;
  readonly #snoozed: Batcher<Snoozed>;
  readonly #cancelled: Batcher<Cancellation>;

  constructor(deps: SettlerDeps) {
    this.#deps = deps;
    const { engine, plain, names } = deps;
    const gatherMs = GATHER_MS;
    this.#completed = new Batcher(
      deps,
      'complete',
      async (by, jobs) =>
        resultsOf(await complete(engine, names, by, jobs), 'completed', jobs.length),
      {
        gatherMs,
        afterLoss: async (by, jobs) =>
          resultsOf(await completedBefore(plain, names, by, jobs), 'completed', jobs.length),
        // What the handler returned is not worth another attempt.
        reword: (job, error) =>
          isUnstorable(error) && job.result != null ? { ...job, result: null } : null,
      },
    );
    this.#failed = new Batcher(
      deps,
      'fail',
      async (by, jobs) => {
        const rows = await fail(engine, names, by, jobs);
        const status = new Map(rows.map((row) => [row.id, row.status]));
        return (id) => resultOfFailure(status.get(id));
      },
      { gatherMs, insist: true, reword: inPlainWords('error', 'summary') },
    );
    this.#deadLettered = new Batcher(
      deps,
      'dead_letter',
      async (by, jobs) =>
        resultsOf(await deadLetter(engine, names, by, jobs), 'dead_letter', jobs.length),
      { reword: inPlainWords('error', 'summary') },
    );
    this.#released = new Batcher(
      deps,
      'release',
      async (by, jobs) => {
        const back = await release(engine, names, by, jobs);
        // Cursors of other workers have passed these. They are released also if nobody hears of it.
        await hintQueue(engine, names, back).catch(() => undefined);
        const ids = back.map(({ id }) => id);
        return resultsOf(ids, 'released', jobs.length);
      },
      { insist: true },
    );
    this.#snoozed = new Batcher(deps, 'snooze', async (by, jobs) =>
      resultsOf(await snooze(engine, names, by, jobs), 'snoozed', jobs.length),
    );
    this.#cancelled = new Batcher(
      deps,
      'cancel',
      async (by, jobs) =>
        resultsOf(await cancelOwn(engine, names, by, jobs), 'cancelled', jobs.length),
      { reword: inPlainWords('reason') },
    );
  }

  /** The worker is stopping: from now on nothing waits for others. */
  hurry(): void {
    this.#completed.hurry();
    this.#failed.hurry();
  }

  /**
   * Tries until the database has answered: `work` learns when an earlier answer was lost. `lost` when the
   * worker is at its end; an error that will not pass is thrown.
   */
  async untilAnswered(
    what: string,
    work: (again: boolean) => Promise<SettleResult>,
  ): Promise<SettleResult> {
    const backoff = new Backoff();
    for (let again = false; ; again = true) {
      try {
        return await work(again);
      } catch (error) {
        this.#deps.reportError(what, error);
        if (!isTransient(error)) throw error;
        if (this.#deps.abandoned.aborted) return 'lost';
        await pause(backoff.nextMs(), this.#deps.abandoned);
      }
    }
  }

  complete = (by: string, job: Settled, done: Done) => this.#completed.add(by, job, done);
  fail = (by: string, job: Failure, done: Kept) => this.#failed.add(by, job, kept(done));
  deadLetter = (by: string, job: DeadLetter, done: Done) => this.#deadLettered.add(by, job, done);
  release = (by: string, job: Settled, done: Kept) => this.#released.add(by, job, kept(done));
  snooze = (by: string, job: Snoozed, done: Done) => this.#snoozed.add(by, job, done);
  cancel = (by: string, job: Cancellation, done: Done) => this.#cancelled.add(by, job, done);
}

type Kept = (result: SettleResult) => void;

/** What is kept and tried again is never refused in the end. */
const kept =
  (done: Kept): Done =>
  (result) =>
    done(result instanceof Refusal ? 'lost' : result);

/** After the last attempt a failed job is a dead letter; a job without a status was not moved. */
export function resultOfFailure(status: string | undefined): SettleResult {
  if (status === undefined) return 'lost';
  return status === 'dead_letter' ? 'dead_letter' : 'failed';
}
