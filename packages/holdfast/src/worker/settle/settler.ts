/**
 * The settler: settlements for each way in which a job leaves this worker. A completion whose answer got lost is found in
 * the archive, a failure in the job's history. What is refused because of the job is settled as a failure.
 */
import { hintQueue } from '../../fleet/wake.js';
import { CAP_MS, pause, untilDone } from '../../postgres/connect/backoff.js';
import { mayPass } from '../../postgres/connect/pool.js';
import { isRefusedToAll } from '../../postgres/connect/transient.js';
import { asAscii, isUnstorable } from '../../settle/ascii.js';
import { type Cancellation, cancelOwn } from '../../settle/cancel.js';
import { complete, completedBefore } from '../../settle/complete.js';
import { type DeadLetter, deadLetter } from '../../settle/dead-letter.js';
import { type Failure, fail, failedBefore } from '../../settle/fail.js';
import { release, type Snoozed, snooze } from '../../settle/release.js';
import { idsOf, type Settle, type Settled, type Woken } from '../../settle/settled.js';
import type { SettleResult } from '../events.js';
import type { ContextDeps } from '../run/context-deps.js';
import type { Done } from './kept.js';
import {
  isAlive,
  newSettlements,
  type Run,
  resultsOf,
  type Settlements,
  type SettlementsDeps,
} from './settlements.js';

interface SettlerDeps
  extends Omit<SettlementsDeps, 'kept'>,
    Pick<ContextDeps, 'engine' | 'plain' | 'names'> {
  /**
   * So many jobs have ended and wait, because the database takes their outcomes from nobody. Left out, as in the test
   * kit, such a refusal is a failed attempt.
   */
  readonly keptChanged?: (jobs: number, change: number, error: unknown) => void;
}

interface Settles {
  readonly complete: Settled;
  readonly fail: Failure;
  readonly dead_letter: DeadLetter;
  readonly release: Settled;
  readonly snooze: Snoozed;
  readonly cancel: Cancellation;
}

/** A failure or a release that Postgres refuses is tried again, so its `done` gets no Refusal. */
type DoneWith<Kind> = Kind extends 'fail' | 'release' ? (result: SettleResult) => void : Done;

export type Settler = ReturnType<typeof newSettler>;

export function newSettler(given: SettlerDeps) {
  const { keptChanged, reportError, abandoned } = given;
  const flushed = new AbortController();
  let kept = 0;
  const keep = (change: number, error: unknown): void => {
    kept += change;
    keptChanged?.(kept, change, error);
  };
  const settlements = settlementsOf({ ...given, ...(keptChanged && { kept: keep }) });
  const keeps = keptChanged !== undefined;

  return {
    /** How many jobs have ended and cannot be settled, because the database refuses that to everybody. */
    get kept() {
      return kept;
    },
    /** Whether what is refused to everybody is kept. */
    keeps,
    settle<Kind extends keyof Settles>(
      kind: Kind,
      by: string,
      job: Settles[Kind],
      done: DoneWith<Kind>,
    ): void {
      settlements[kind].add(by, job, done as Done);
    },
    /** A job that the database did not let end counts as kept for a while, unless the worker stops. */
    async keepAWhile(error: unknown): Promise<void> {
      keep(1, error);
      await pause(CAP_MS, flushed.signal);
      keep(-1, null);
    },
    reportUntold: (jobs: readonly Ended[]) => reportUntold(reportError, jobs),
    /** Nothing may be settled under the id of a worker that is not. */
    isAlive: (workerId: string) => isAlive(given, workerId),
    /** The worker is stopping: from now on nothing waits for others. */
    flush(): void {
      flushed.abort();
      for (const one of Object.values(settlements)) one.flush();
    },
    /** Tries until the database has answered. `lost`: the worker is at its end. An error that will not pass is thrown. */
    async untilAnswered(
      what: string,
      work: (again: boolean) => Promise<SettleResult>,
    ): Promise<SettleResult> {
      let isKept = false;
      try {
        const result = await untilDone(abandoned, work, (error) => {
          reportError(what, error);
          if (mayPass(error)) return;
          if (!keeps || !isRefusedToAll(error)) throw error;
          if (!isKept) keep(1, error);
          isKept = true;
        });
        return result ?? 'lost';
      } finally {
        if (isKept) keep(-1, null);
      }
    },
  };
}

function settlementsOf(deps: SettlerDeps & SettlementsDeps): {
  readonly [Kind in keyof Settles]: Settlements<Settles[Kind]>;
} {
  const { engine, plain, names, reportError } = deps;
  const moving =
    <Job extends Settled>(settle: Settle<Job>, result: SettleResult, db = engine): Run<Job> =>
    async (by, jobs) =>
      resultsOf(await settle(db, names, by, jobs), result, jobs.length);
  const failing =
    <Job extends Settled>(
      settle: (...of: Parameters<Settle<Job>>) => Promise<Ended[]>,
      db = engine,
    ): Run<Job> =>
    async (by, jobs) => {
      const rows = await settle(db, names, by, jobs);
      reportUntold(reportError, rows);
      const status = new Map(rows.map((row) => [row.id, row.status]));
      return (id) => resultOfFailure(status.get(id));
    };
  const releasing: Settle<Settled> = async (db, of, by, jobs) => {
    const back = await release(db, of, by, jobs);
    // Cursors of other workers have passed these. They are released also if the hint is lost.
    await hintQueue(db, of, back).catch(() => undefined);
    return idsOf(back);
  };
  /** Those that an update asked for meanwhile wait where nobody looks until the time that their attempts had named. */
  const telling =
    <Job extends Settled, Row extends Woken>(
      settle: (...of: Parameters<Settle<Job>>) => Promise<Row[]>,
    ) =>
    async (...[db, of, by, jobs]: Parameters<Settle<Job>>): Promise<Row[]> => {
      const rows = await settle(db, of, by, jobs);
      const woken = rows.flatMap(({ wokenAt: runAt, partitionBucket }) =>
        runAt === null ? [] : [{ runAt, partitionBucket }],
      );
      if (woken.length > 0) await hintQueue(db, of, woken).catch(() => undefined);
      return rows;
    };
  const snoozing = telling(snooze);
  const afterLoss = failing<Settled>(failedBefore, plain);
  const reword = asAscii('error', 'summary');
  return {
    complete: newSettlements(deps, 'complete', moving(complete, 'completed'), {
      gathers: true,
      afterLoss: moving(completedBefore, 'completed', plain),
      // What the handler returned is not worth another attempt.
      reword: (job, error) =>
        isUnstorable(error) && job.result != null ? { ...job, result: null } : null,
    }),
    fail: newSettlements(deps, 'fail', failing(telling(fail)), {
      ...{ gathers: true, retryRefused: true, afterLoss, reword },
    }),
    dead_letter: newSettlements(deps, 'dead_letter', failing(deadLetter), {
      ...{ afterLoss, reword },
    }),
    release: newSettlements(deps, 'release', moving(releasing, 'released'), { retryRefused: true }),
    snooze: newSettlements(
      deps,
      'snooze',
      moving(async (...of) => idsOf(await snoozing(...of)), 'snoozed'),
    ),
    cancel: newSettlements(deps, 'cancel', moving(cancelOwn, 'cancelled'), {
      reword: asAscii('reason'),
    }),
  };
}

interface Ended {
  readonly id: string;
  readonly status: string;
  /** Why the job that tells of its death could not be written. */
  readonly untold?: string | null;
}

/** The dead letter is written all the same, and says it in its history. */
export function reportUntold(
  reportError: SettlementsDeps['reportError'],
  jobs: readonly Ended[],
): void {
  for (const { id, untold } of jobs)
    if (untold)
      reportError(
        'writing an onDeadLetter job',
        new Error(`the dead letter ${id} was written without it: ${untold}`),
      );
}

/** After the last attempt a failed job is a dead letter; a job without a status was not moved. */
export function resultOfFailure(status: string | undefined): SettleResult {
  if (status === undefined) return 'lost';
  return status === 'dead_letter' ? 'dead_letter' : 'failed';
}
