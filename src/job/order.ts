/**
 * Order between the jobs of one key: what a definition or a queue may ask for, and the one word that the
 * queue table has for it. `key` lets a job start when all earlier ones of its key are completed or
 * buried; a job that waits for a retry, or for its time, holds its key. `key_strict` is the same with
 * dead letters that hold their key until a human acts. Between ordered jobs priority has no effect.
 */
import { HoldfastError, shown } from './errors.js';

/** As the queue table has it. `parked` is never asked for: it is what a dead letter of `key` becomes. */
export type Ordering = 'none' | 'key' | 'key_strict';

export interface OrderOptions {
  /** `key`: one job of a key after the other, in the order in which they were enqueued. */
  readonly ordering?: 'none' | 'key';
  /** What a dead letter does to its key: frees it (default), or holds it until a human acts. */
  readonly deadLetters?: 'free' | 'hold';
}

/** Who claims from a queue: the worker that owns the bucket, or any worker. */
export type AssignmentName = 'ring' | 'competing';

/** Null: nothing was asked for. `where` names the definition or the queue in the message. */
export function checkOrdering(where: string, options: OrderOptions): Ordering | null {
  const { ordering, deadLetters } = options;
  if (ordering !== undefined && ordering !== 'none' && ordering !== 'key')
    throw refused(where, `ordering must be 'none' or 'key', not ${shown(ordering)}`);
  if (deadLetters !== undefined && deadLetters !== 'free' && deadLetters !== 'hold')
    throw refused(where, `deadLetters must be 'free' or 'hold', not ${shown(deadLetters)}`);
  if (deadLetters !== undefined && ordering !== 'key')
    throw refused(where, "deadLetters is about a job's key and needs ordering: 'key' beside it");
  if (ordering !== 'key') return ordering ?? null;
  return deadLetters === 'hold' ? 'key_strict' : 'key';
}

/** Null: nothing was asked for. */
export function checkAssignment(where: string, assignment: unknown): AssignmentName | null {
  if (assignment === undefined) return null;
  if (assignment === 'ring' || assignment === 'competing') return assignment;
  throw refused(where, `assignment must be 'ring' or 'competing', not ${shown(assignment)}`);
}

function refused(where: string, problem: string): HoldfastError {
  return new HoldfastError('OPTION_INVALID', `${where}: ${problem}. Nothing was done.`);
}
