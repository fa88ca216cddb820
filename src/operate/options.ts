/** What retry, discard and cancel take beside the ids. */
import { HoldfastError, shown } from '../job/errors.js';
import { checkKnown, type Known } from '../job/known-options.js';

export interface VerbOptions {
  /** Default `inbox`. */
  readonly queue?: string;
}

export interface CancelOptions extends VerbOptions {
  /** Kept in the archive as `last_error`. Default: cancelled by an operator. */
  readonly reason?: string;
}

const OPTIONS = { queue: true } as const satisfies Known<VerbOptions>;
const CANCEL_OPTIONS = { ...OPTIONS, reason: true } as const satisfies Known<CancelOptions>;

/** A text would be the reason or the queue, and nobody could tell which. */
export function checkVerbOptions(verb: string, options: unknown): CancelOptions {
  if (typeof options !== 'object' || options === null) {
    throw new HoldfastError(
      'OPTION_INVALID',
      `The second argument of ${verb}() is ${shown(options)}, and not an object; nothing was done. ` +
        `Write ${verb}(ids, { queue }).`,
    );
  }
  const known = verb === 'cancel' ? CANCEL_OPTIONS : OPTIONS;
  checkKnown(options, known, `${verb}()`, 'Nothing was done.');
  const { reason } = options as CancelOptions;
  if (reason !== undefined && typeof reason !== 'string') {
    throw new HoldfastError(
      'OPTION_INVALID',
      `The reason is ${shown(reason)}, and not a text; nothing was done.`,
    );
  }
  return options;
}
