/**
 * From the outcome of an attempt to the settle that belongs to it.
 */
import { HoldfastError } from '../../job/errors.js';
import { describeError } from '../../job/failure.js';
import { completedBefore } from '../../settle/complete.js';
import { fail } from '../../settle/fail.js';
import type { SettleResult } from '../events.js';
import { described, type Outcome, type Route } from '../run/attempt.js';
import type { ContextDeps } from '../run/handler-context.js';
import type { LeasedJob } from '../run/leased-job.js';
import { type Done, Refusal } from './batcher.js';
import { type Completed, completeWithChildren } from './children.js';
import { resultOfFailure, type Settler } from './settler.js';

export interface OutcomeDeps {
  readonly settler: Settler;
  readonly context: ContextDeps;
  readonly route: Route;
}

/** Why an attempt failed: what was thrown, and one line of it. */
export interface Failed {
  readonly thrown: unknown;
  readonly summary: string;
}

/** The result, after how long the job is to be run again, if it is, and why the attempt failed, if it did. */
export type Settled = (result: SettleResult, delayMs?: number, failed?: Failed) => void;

/** Calls `done` once, when the database has answered. */
export function settleOutcome(
  { settler, context, route }: OutcomeDeps,
  held: LeasedJob,
  outcome: Outcome,
  done: Settled,
): void {
  const by = held.workerId;
  const job = { id: held.id, generation: held.generation };
  const orFail =
    (delayMs?: number, failed?: Failed): Done =>
    (result) => {
      if (result instanceof Refusal)
        failInstead({ settler, route }, held, outcome.kind, result.error, done);
      else done(result, delayMs, failed);
    };
  switch (outcome.kind) {
    case 'completed':
      if (outcome.children.length === 0) completeInOrder(settler, held, outcome.result, orFail());
      else void settleParent({ settler, context, route }, held, outcome, done);
      break;
    case 'transacted':
      done('completed');
      break;
    case 'failed':
      if (outcome.handed) void settleHanded({ settler, context, route }, held, outcome, done);
      else
        settler.fail(by, { ...job, ...outcome }, (result) =>
          done(result, outcome.delayMs, outcome),
        );
      break;
    case 'dead_letter':
      settler.deadLetter(by, { ...job, ...outcome }, orFail(undefined, outcome));
      break;
    case 'snoozed':
      settler.snooze(by, { ...job, delayMs: outcome.delayMs }, orFail(outcome.delayMs));
      break;
    case 'cancelled':
      settler.cancel(by, { ...job, reason: outcome.reason }, orFail());
      break;
    case 'lost':
      done('lost');
      break;
  }
}

/** In a run of a key each names the one before it, and counts only if that one does. */
function completeInOrder(
  settler: Settler,
  held: LeasedJob,
  result: string | null,
  done: Done,
): void {
  const { id, generation, after, before } = held;
  const job = { id, generation, result };
  const linked = before ? { ...job, after, broken: () => before.failed } : job;
  settler.complete(held.workerId, linked, done);
}

/**
 * Postgres refuses the outcome for good, as a trigger of yours on the archive may. The lease is not lost: the
 * attempt has failed, and the reason is the database's.
 */
function failInstead(
  { settler, route }: Pick<OutcomeDeps, 'settler' | 'route'>,
  held: LeasedJob,
  outcome: string,
  error: unknown,
  done: Settled,
): void {
  const { delayMs } = route.job.retry(held.row.attempts, error);
  const said = describeError(error).message;
  const refused = new Error(`the database refused to write the outcome "${outcome}": ${said}`, {
    cause: error,
  });
  const failure = { id: held.id, generation: held.generation, delayMs, ...described(refused) };
  settler.fail(held.workerId, failure, (result) => done(result, delayMs, failure));
}

/**
 * The completion was put into a transaction whose end is not known: the archive is asked first. If that
 * transaction is still open, the failure waits for it here and not in the settler, where others would too.
 */
async function settleHanded(
  { settler, context }: OutcomeDeps,
  held: LeasedJob,
  outcome: Extract<Outcome, { kind: 'failed' }>,
  done: Settled,
): Promise<void> {
  const job = { id: held.id, generation: held.generation };
  const failure = { ...job, ...outcome };
  let result: SettleResult;
  try {
    result = await settler.untilAnswered('settling a job whose commit is unknown', async () => {
      const found = await completedBefore(context.plain, context.names, held.workerId, [job]);
      if (found.length > 0) return 'completed';
      const [row] = await fail(context.plain, context.names, held.workerId, [failure]);
      return resultOfFailure(row?.status);
    });
  } catch {
    // Refused as it is, and reported. The settler finds words that are taken, or insists.
    settler.fail(held.workerId, failure, (settled) => done(settled, outcome.delayMs, outcome));
    return;
  }
  done(result, outcome.delayMs, outcome);
}

/** A parent whose children cannot be written has failed: neither it nor they are half done. */
async function settleParent(
  { settler, context, route }: OutcomeDeps,
  held: LeasedJob,
  completed: Completed,
  done: Settled,
): Promise<void> {
  const job = { id: held.id, generation: held.generation };
  try {
    const result = await settler.untilAnswered('completing a job with children', async (again) => {
      if (again) {
        const found = await completedBefore(context.plain, context.names, held.workerId, [job]);
        if (found.length > 0) return 'completed';
      }
      await completeWithChildren(context, held, completed);
      return 'completed';
    });
    done(result);
  } catch (error) {
    if (error instanceof HoldfastError && error.code === 'LEASE_LOST') return done('lost');
    const { delayMs } = route.job.retry(held.row.attempts, error);
    const failure = { ...job, delayMs, ...described(error) };
    settler.fail(held.workerId, failure, (result) => done(result, delayMs, failure));
  }
}
