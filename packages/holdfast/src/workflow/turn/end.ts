/** How a turn ends, and what an error of the body means for the run. */
import { Cancel, DeadLetter, HoldfastError, Snooze } from '../../job/errors/errors.js';
import { isA } from '../../job/errors/failure.js';
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

const mistakes = new WeakSet<Error>();

/** It says what is wrong with the arguments of what the body asked for. */
export function asMistake(error: unknown): unknown {
  if (isA(error, HoldfastError)) mistakes.add(error);
  return error;
}

/**
 * `forGood`: the run will not be tried again, so it undoes what it did. After a mistake in the code of the body nothing is undone:
 * as with WORKFLOW_CHANGED, the run goes on with a retry when the code is mended.
 */
export function endOf(error: unknown, isLast: boolean): { end: TurnEnd; forGood: boolean } {
  const threw = { kind: 'threw', error } as const;
  if (isA(error, Error) && mistakes.has(error))
    return { end: { kind: 'dead', error }, forGood: false };
  if (isA(error, StepFailed)) return { end: { kind: 'dead', error }, forGood: true };
  if (isA(error, Cancel) || isA(error, Snooze)) return { end: threw, forGood: false };
  const lost = isA(error, HoldfastError) && LOST.has(error.code);
  return { end: threw, forGood: !lost && (isLast || isA(error, DeadLetter)) };
}

/** Somebody else has the run, or will have it. */
const LOST = new Set(['LEASE_LOST', 'STOPPED', 'HANDLER_TIMEOUT']);
