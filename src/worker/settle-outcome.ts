/**
 * From the outcome of a run to the settle that belongs to it, and back to one word for how it ended.
 */
import { errorText } from '../job/failure.js';
import { completeWithChildren } from './children.js';
import type { ContextGround } from './context.js';
import type { JobEvent } from './events.js';
import type { HeldJob } from './held.js';
import type { Outcome, Route } from './run.js';
import type { Moved, Settler } from './settler.js';

export type Ended = Exclude<JobEvent['kind'], 'started-job'>;

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

/** Calls `done` once, when the database has answered. */
export function settleOutcome(
  { settler, context, route }: OutcomeGround,
  held: HeldJob,
  outcome: Outcome,
  done: (how: Ended) => void,
): void {
  const by = held.workerId;
  const job = { id: held.id, generation: held.generation };
  const moved = (to: Moved) => done(ended(to));
  switch (outcome.kind) {
    case 'completed':
      if (outcome.children.length === 0) settler.complete(by, job, moved);
      else void settleParent({ settler, context, route }, held, outcome.children, done);
      break;
    case 'transacted':
      done('completed');
      break;
    case 'failed':
      settler.fail(by, { ...job, ...outcome }, moved);
      break;
    case 'buried':
      settler.bury(by, { ...job, ...outcome }, moved);
      break;
    case 'snoozed':
      settler.snooze(by, { ...job, delayMs: outcome.delayMs }, (to) =>
        done(to === null ? 'lost' : 'snoozed'),
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

/** A parent whose children cannot be written has failed: neither it nor they are half done. */
async function settleParent(
  { settler, context, route }: OutcomeGround,
  held: HeldJob,
  children: Extract<Outcome, { kind: 'completed' }>['children'],
  done: (how: Ended) => void,
): Promise<void> {
  try {
    const moved = await completeWithChildren(context, held, children);
    done(moved ? 'completed' : 'lost');
  } catch (error) {
    const text = errorText(error);
    const { delayMs } = route.job.retry(held.row.attempts, error);
    const summary = text.split('\n', 1)[0] as string;
    const failure = { id: held.id, generation: held.generation, delayMs, error: text, summary };
    settler.fail(held.workerId, failure, (to) => done(ended(to)));
  }
}
