/**
 * From the outcome of an attempt to the settle that belongs to it.
 */
import { HoldfastError } from '../../job/errors.js';
import { errorText } from '../../job/failure.js';
import { completedBefore } from '../../settle/complete.js';
import { fail } from '../../settle/fail.js';
import type { SettleResult } from '../events.js';
import type { Outcome, Route } from '../run/attempt.js';
import type { ContextDeps } from '../run/handler-context.js';
import type { LeasedJob } from '../run/leased-job.js';
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
  switch (outcome.kind) {
    case 'completed':
      if (outcome.children.length === 0) completeInOrder(settler, held, outcome.result, done);
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
      settler.deadLetter(by, { ...job, ...outcome }, (result) => done(result, undefined, outcome));
      break;
    case 'snoozed':
      settler.snooze(by, { ...job, delayMs: outcome.delayMs }, (result) =>
        done(result, outcome.delayMs),
      );
      break;
    case 'cancelled':
      settler.cancel(by, { ...job, reason: outcome.reason }, done);
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
  done: Settled,
): void {
  const { id, generation, after, before } = held;
  const job = { id, generation, result };
  const linked = before ? { ...job, after, broken: () => before.lost } : job;
  settler.complete(held.workerId, linked, done);
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
  const result = await settler.untilAnswered('settling a job whose commit is unknown', async () => {
    const found = await completedBefore(context.plain, context.names, held.workerId, [job]);
    if (found.length > 0) return 'completed';
    const failure = { ...job, ...outcome };
    const [row] = await fail(context.plain, context.names, held.workerId, [failure]);
    return resultOfFailure(row?.status);
  });
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
    const text = errorText(error);
    const { delayMs } = route.job.retry(held.row.attempts, error);
    const summary = text.split('\n', 1)[0] as string;
    const failure = { ...job, delayMs, error: text, summary };
    const failed = { thrown: error, summary };
    settler.fail(held.workerId, failure, (result) => done(result, delayMs, failed));
  }
}
