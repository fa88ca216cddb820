/**
 * From the outcome of a run to the settle that belongs to it, and back to one word for how it ended.
 */
import { HoldfastError } from '../job/errors.js';
import { errorText } from '../job/failure.js';
import { completedBefore } from '../settle/complete.js';
import { fail } from '../settle/fail.js';
import type { Moved } from './batches.js';
import { completeWithChildren } from './children.js';
import type { Ended } from './events.js';
import type { ContextGround } from './handler-context.js';
import type { HeldJob } from './held.js';
import type { Outcome, Route } from './run.js';
import type { Settler } from './settler.js';

const ENDED: Record<Exclude<Moved, null>, Ended> = {
  completed: 'completed',
  pending: 'failed',
  dead_letter: 'buried',
  cancelled: 'cancelled',
};

const ended = (moved: Moved): Ended => (moved === null ? 'lost' : ENDED[moved]);

export interface OutcomeGround {
  readonly settler: Settler;
  readonly context: ContextGround;
  readonly route: Route;
}

/** How it ended, and after how long it is to be run again, if it is. */
export type Done = (how: Ended, delayMs?: number) => void;

/** Calls `done` once, when the database has answered. */
export function settleOutcome(
  { settler, context, route }: OutcomeGround,
  held: HeldJob,
  outcome: Outcome,
  done: Done,
): void {
  const by = held.workerId;
  const job = { id: held.id, generation: held.generation };
  const moved = (to: Moved, delayMs?: number) => done(ended(to), delayMs);
  switch (outcome.kind) {
    case 'completed':
      if (outcome.children.length === 0) completeInOrder(settler, held, moved);
      else void settleParent({ settler, context, route }, held, outcome.children, done);
      break;
    case 'transacted':
      done('completed');
      break;
    case 'failed':
      if (outcome.handed) void settleHanded({ settler, context, route }, held, outcome, done);
      else settler.fail(by, { ...job, ...outcome }, isWaitedFor(held), moved);
      break;
    case 'buried':
      settler.bury(by, { ...job, ...outcome }, moved);
      break;
    case 'snoozed':
      settler.snooze(by, { ...job, delayMs: outcome.delayMs }, (to) =>
        done(to === null ? 'lost' : 'snoozed', outcome.delayMs),
      );
      break;
    case 'cancelled':
      settler.cancel(by, { ...job, reason: outcome.reason }, moved);
      break;
    case 'lost':
      done('lost');
      break;
  }
}

/** After its last attempt its key is free; and while a suspect runs, nothing else does. */
const isWaitedFor = ({ row }: HeldJob) => row.attempts >= row.maxAttempts || row.crashes > 0;

/** In a run of a key each names the one before it, and counts only if that one does. */
function completeInOrder(settler: Settler, held: HeldJob, moved: (to: Moved) => void): void {
  const { id, generation, place, after, before } = held;
  const job = before
    ? { id, generation, place, after, broken: () => before.lost }
    : { id, generation, place };
  settler.complete(held.workerId, job, moved);
}

/**
 * The completion was put into a transaction whose end is not known: the archive is asked first. If that
 * transaction is still open, the failure waits for it here and not in the settler, where others would too.
 */
async function settleHanded(
  { settler, context }: OutcomeGround,
  held: HeldJob,
  outcome: Extract<Outcome, { kind: 'failed' }>,
  done: Done,
): Promise<void> {
  const job = { id: held.id, generation: held.generation };
  const answer = await settler.untilAnswered('settling a job whose commit is unknown', async () => {
    const found = await completedBefore(context.plain, context.names, held.workerId, [job]);
    if (found.length > 0) return 'completed';
    const failure = { ...job, ...outcome };
    const [row] = await fail(context.plain, context.names, held.workerId, [failure]);
    return row ? (row.status as Moved) : null;
  });
  done(ended(answer), outcome.delayMs);
}

/** A parent whose children cannot be written has failed: neither it nor they are half done. */
async function settleParent(
  { settler, context, route }: OutcomeGround,
  held: HeldJob,
  children: Extract<Outcome, { kind: 'completed' }>['children'],
  done: Done,
): Promise<void> {
  const job = { id: held.id, generation: held.generation };
  try {
    const answer = await settler.untilAnswered('completing a job with children', async (again) => {
      if (again) {
        const found = await completedBefore(context.plain, context.names, held.workerId, [job]);
        if (found.length > 0) return 'completed';
      }
      await completeWithChildren(context, held, children);
      return 'completed';
    });
    done(ended(answer));
  } catch (error) {
    if (error instanceof HoldfastError && error.code === 'LEASE_LOST') return done('lost');
    const text = errorText(error);
    const { delayMs } = route.job.retry(held.row.attempts, error);
    const summary = text.split('\n', 1)[0] as string;
    const failure = { ...job, delayMs, error: text, summary };
    // Its run waits for it.
    settler.fail(held.workerId, failure, true, (to, leftMs) => done(ended(to), leftMs));
  }
}
