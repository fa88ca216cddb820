/** From the outcome of an attempt to the settle that belongs to it. */
import { HoldfastError } from '../../job/errors/errors.js';
import { describeError } from '../../job/errors/failure.js';
import { withTransaction } from '../../postgres/connect/pool.js';
import { executor, type Queryable } from '../../postgres/queryable.js';
import { complete, completedBefore } from '../../settle/complete.js';
import { fail } from '../../settle/fail.js';
import type { Settled } from '../../settle/settled.js';
import type { SettleResult } from '../events.js';
import { described, type Failure, type Outcome } from '../run/attempt.js';
import { writeChildren } from '../run/completion.js';
import type { ContextDeps } from '../run/context-deps.js';
import { leaseLost, type Route } from '../run/handler-context.js';
import type { LeasedJob } from '../run/leased-job.js';
import type { Done } from './kept.js';
import { resultOfFailure, type Settler } from './settler.js';

type Completed = Extract<Outcome, { kind: 'completed' }>;

export type Failed = Pick<Failure, 'thrown' | 'summary'>;

export interface Settlement {
  readonly settler: Settler;
  readonly context: ContextDeps;
  readonly route: Route;
  readonly held: LeasedJob;
  /** The result, after how long the job is to be run again, if it is, and why the attempt failed, if it did. */
  readonly done: (result: SettleResult, delayMs?: number, failed?: Failed) => void;
}

/** Calls `done` once, when the database has answered. */
export function settleOutcome(of: Settlement, outcome: Outcome): void {
  const { settler, held } = of;
  const { id, generation, workerId: by } = held;
  switch (outcome.kind) {
    case 'completed':
      if (outcome.children.length > 0) void completeParent(of, outcome);
      else settler.settle('complete', by, completion(held, outcome.result), orFail(of, outcome));
      break;
    case 'transacted':
      of.done('completed');
      break;
    case 'handed':
      void settleHanded(of, outcome.ifNot);
      break;
    case 'failed':
      if (outcome.handed) void settleHanded(of, () => outcome);
      else failAttempt(of, outcome);
      break;
    case 'dead_letter': {
      const done = orFail(of, outcome, undefined, outcome);
      settler.settle('dead_letter', by, { id, generation, ...outcome }, done);
      break;
    }
    case 'snoozed': {
      const done = orFail(of, outcome, outcome.delayMs);
      settler.settle('snooze', by, { id, generation, ...outcome }, done);
      break;
    }
    case 'suspended':
      of.done('suspended', outcome.dueInMs ?? undefined);
      break;
    case 'cancelled':
      settler.settle('cancel', by, { id, generation, ...outcome }, orFail(of, outcome));
      break;
    case 'refused':
      void releaseRefused(of, outcome.error);
      break;
    case 'lost':
      of.done('lost');
      break;
  }
}

function orFail(of: Settlement, { kind }: Outcome, delayMs?: number, failed?: Failed): Done {
  return (result) => {
    if (typeof result === 'string') return of.done(result, delayMs, failed);
    // A trigger of yours on the archive may do that. The lease is not lost.
    const why = describeError(result.error).message;
    const text = `the database refused to write the outcome "${kind}": ${why}`;
    failInstead(of, result.error, new Error(text, { cause: result.error }));
  };
}

/**
 * Its transaction was rolled back, and the job is not to blame: it goes back unspent, after a while. Until then the
 * reason may be gone; and a worker does not run one job after the other in vain.
 */
async function releaseRefused(of: Settlement, error: unknown): Promise<void> {
  const { settler, context, done } = of;
  const { id, generation, workerId, row } = of.held;
  if (!settler.keeps) return failInstead(of, error, error);
  context.log.warn(
    { job: id, type: row.type, err: describeError(error).message },
    'the database refused the completion inside of a transaction; nothing was committed, and the job is released unspent',
  );
  await settler.keepAWhile(error);
  settler.settle('release', workerId, { id, generation }, done);
}

/** In a run of a key each names the one before it, and counts only if that one does. */
function completion({ id, generation, after, before }: LeasedJob, result: string | null): Settled {
  if (!before) return { id, generation, result };
  return { id, generation, result, after, broken: () => before.failed };
}

type Failing = Pick<Failure, 'delayMs' | 'error' | 'summary' | 'thrown'>;

function failAttempt({ settler, held, done }: Settlement, failed: Failing): void {
  const { id, generation, workerId } = held;
  settler.settle('fail', workerId, { id, generation, ...failed }, (result) =>
    done(result, failed.delayMs, failed),
  );
}

/** The database does not take the outcome, so the attempt has failed. `shown`: what its history says. */
function failInstead(of: Settlement, error: unknown, shown: unknown): void {
  const { delayMs } = of.route.job.retry(of.held.row.attempts, error);
  failAttempt(of, { delayMs, ...described(shown) });
}

async function wasCompleted({ context, held }: Settlement): Promise<boolean> {
  const { plain, names } = context;
  return (await completedBefore(plain, names, held.workerId, [held])).length > 0;
}

/** The archive is asked first. A failure that waits for an open transaction waits here: in the settler others would too. */
async function settleHanded(of: Settlement, ifNot: () => Failure): Promise<void> {
  const { settler, context, held, done } = of;
  const { id, generation, workerId } = held;
  let failure: Failure | undefined;
  let result: SettleResult;
  try {
    result = await settler.untilAnswered('settling a job whose commit is unknown', async () => {
      if (await wasCompleted(of)) return 'completed';
      if (!(await settler.isAlive(workerId))) return 'lost';
      failure ??= ifNot();
      const job = { id, generation, ...failure };
      const rows = await fail(context.plain, context.names, workerId, [job]);
      settler.reportUntold(rows);
      const [row] = rows;
      // It waited for that transaction, which has committed meanwhile.
      if (!row && (await wasCompleted(of))) return 'completed';
      return resultOfFailure(row?.status);
    });
  } catch {
    // Refused as it is, and reported. The settler finds words that are taken, or tries again.
    return failAttempt(of, failure ?? ifNot());
  }
  done(result, failure?.delayMs, failure);
}

/** A parent whose children cannot be written has failed: neither it nor they are half done. */
async function completeParent(of: Settlement, outcome: Completed): Promise<void> {
  const { settler, context, held, done } = of;
  let result: SettleResult;
  try {
    result = await settler.untilAnswered('completing a job with children', async (again) => {
      if (again && (await wasCompleted(of))) return 'completed';
      if (!(await settler.isAlive(held.workerId))) return 'lost';
      await completeWithChildren(context, held, outcome);
      return 'completed';
    });
  } catch (error) {
    const lost = error instanceof HoldfastError && error.code === 'LEASE_LOST';
    return lost ? done('lost') : failInstead(of, error, error);
  }
  done(result);
}

/** In one transaction. Throws LEASE_LOST when the lease was lost; then neither the job nor a child is written. */
async function completeWithChildren(
  context: ContextDeps,
  held: LeasedJob,
  { children, result }: Completed,
): Promise<void> {
  const { names, ownPool, begin, gate } = context;
  const { id, generation, after, workerId } = held;
  const write = async (client: Queryable) => {
    const db = executor(client);
    // The children first: the completion locks the row, and from then on the transaction should be short.
    const { tell } = await writeChildren(db, children, context);
    const moved = await complete(db, names, workerId, [{ id, generation, after, result }]);
    if (moved.length === 0) throw leaseLost(id, 'the completion');
    return tell;
  };
  const transact = () => withTransaction(ownPool, write, begin);
  const tell = await (gate ? gate.run(names.queue, transact) : transact());
  tell();
}
