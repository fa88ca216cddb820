/**
 * The errors of workflows. A step that failed for good throws StepFailed, in the turn in which it failed and in every later
 * one, made from what its marker keeps: code that catches it does the same each time.
 */
import { describeError, framesOf, storable } from '../job/errors/failure.js';
import { brand, HoldfastError } from '../job/errors/holdfast-error.js';
import { type Kind, WORDS } from './marker.js';

/** What a marker keeps of an error. */
export interface KeptError {
  /** The name of its class. */
  readonly name: string;
  /** Its message, cut to 2,000 bytes. */
  readonly message: string;
  /** Its code, if it has one. */
  readonly code?: string;
  /** Where it was thrown: the frames of its stack, cut to 2,000 bytes. */
  readonly stack?: string;
}

/** Why a run undoes what it did. */
export type UndoReason =
  | { readonly cancelled: string }
  | { readonly error: KeptError; readonly step?: string };

const MAX_BYTES = 2_000;

export function kept(error: unknown): string {
  const { name, message, code } = describeError(error, { maxBytes: MAX_BYTES });
  const stack = storable(framesOf(describeError(error)), MAX_BYTES);
  return JSON.stringify({ name, message, ...(code !== null && { code }), ...(stack && { stack }) });
}

/** An error that is made from a record says where the recorded one was thrown, and not where it was made itself. */
export function thrownAt(error: Error, { stack = '' }: KeptError): void {
  error.stack = `${error.name}: ${error.message}\n${stack}`;
}

/**
 * A step of a workflow failed for good. Catch it to go another way; if you do not, the run undoes what it did and becomes a
 * dead letter.
 * @example
 * try {
 *   await flow.step('charge', ({ key }) => bank.charge(order, { key }));
 * } catch (error) {
 *   if (!(error instanceof StepFailed)) throw error;
 *   await flow.step('tell', () => mail.send(order.id));
 * }
 */
export class StepFailed extends Error {
  static {
    brand(StepFailed, 'StepFailed');
  }
  /** The name of the step. */
  readonly step: string;
  /** What it threw last, as its marker keeps it: name, message, code and where. */
  readonly error: KeptError;
  constructor(step: string, error: KeptError) {
    super(`The step "${step}" failed for good: ${error.message}`);
    this.step = step;
    this.error = error;
    thrownAt(this, error);
  }
}

export const failedOf = (name: string, error: string) => new StepFailed(name, JSON.parse(error));

const undone = 'The run stopped before any effect of this turn.';
const fix =
  'Deploy the code that the run began with, as a body of its version, then retry it; or start it anew.';

/** The code asks for another kind of thing under a name that is recorded. */
export const otherKind = (name: string, was: Kind, is: Kind) =>
  new HoldfastError(
    'WORKFLOW_CHANGED',
    `"${name}" is recorded as a ${WORDS[was]}, and the code asks for a ${WORDS[is]} of this name. ${undone} ${fix}`,
  );

/** `asked`: what the code asks for or waits for instead; null: it ended. */
export const notAsked = (name: string, was: Kind, asked: readonly string[] | null) =>
  new HoldfastError(
    'WORKFLOW_CHANGED',
    `The ${WORDS[was]} "${name}" is recorded, and the code ${
      asked === null
        ? 'ended without asking for it'
        : `asks for ${asked.map((one) => `"${one}"`).join(', ')} instead`
    }. ${undone} ${fix}`,
  );

export const namedTwice = (name: string) =>
  new HoldfastError(
    'STEP_NAMED_TWICE',
    `The workflow asked for two things named "${name}" in one turn, so the run stopped. Give each a name of its own; in a loop, add the index or an id.`,
  );
