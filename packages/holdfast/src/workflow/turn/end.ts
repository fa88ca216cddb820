/** How a turn ends, and what an error of the body means for the run. */
import { Cancel, DeadLetter, HoldfastError, Snooze } from '../../job/errors/errors.js';
import { StepFailed } from '../errors.js';

export type TurnEnd =
  | { readonly kind: 'returned'; readonly value: unknown }
  /** As by the handler of a job. */
  | { readonly kind: 'threw'; readonly error: unknown }
  | { readonly kind: 'asleep'; readonly dueInMs: number | null }
  | { readonly kind: 'restarted' }
  /** A retry would not help. */
  | { readonly kind: 'dead'; readonly error: Error }
  | { readonly kind: 'cancelled'; readonly reason: string };

/** `forGood`: the run will not be tried again, so it undoes what it did. */
export function endOf(error: unknown, isLast: boolean): { end: TurnEnd; forGood: boolean } {
  const threw = { kind: 'threw', error } as const;
  if (error instanceof StepFailed) return { end: { kind: 'dead', error }, forGood: true };
  if (error instanceof Cancel || error instanceof Snooze) return { end: threw, forGood: false };
  const lost = error instanceof HoldfastError && LOST.has(error.code);
  return { end: threw, forGood: !lost && (isLast || error instanceof DeadLetter) };
}

/** Somebody else has the run, or will have it. */
const LOST = new Set(['LEASE_LOST', 'STOPPED', 'HANDLER_TIMEOUT']);
