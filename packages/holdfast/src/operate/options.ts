/** What acts take beside what they are about: why, who, and for retry, discard and cancel the queue and a transaction. */

import { HoldfastError } from '../job/errors/errors.js';
import { shown } from '../job/errors/holdfast-error.js';
import { checkFlag, checkKnown, type Known } from '../job/options/known-options.js';
import { unstorable } from '../job/options/text.js';
import type { QueueName } from '../job/queue-name.js';
import type { Transaction } from '../postgres/queryable.js';

/** What every act takes, for its row in the audit. */
export interface ActOptions {
  /** Why you do it. Kept in the audit; of a cancelled job also in `lastError`. Default: none. */
  readonly reason?: string;
  /** Who does it, if the database role does not say: the user of your admin page. Kept in the audit. Default: none. */
  readonly actor?: string;
  /** False: the act leaves no row in the audit. For programs that act all day. Default true. */
  readonly audit?: boolean;
}

/** Options of `hf.retry()` and `hf.discard()`. */
export interface VerbOptions extends ActOptions {
  /** The queue of the jobs. Default: Holdfast finds it. */
  readonly queue?: QueueName;
  /** Your transaction: anything with `query(text, params)`, or an adapter. Default: one per queue. */
  readonly tx?: Transaction;
}

/**
 * Options of `hf.cancel()`. `reason` is kept in the archive as `last_error`. Default: cancelled by an operator.
 * @example await hf.cancel([run.id], { reason: 'the customer withdrew', undo: true, children: true });
 */
export interface CancelOptions extends VerbOptions {
  /** Let runs of workflows undo their steps before they end. Default false. */
  readonly undo?: boolean;
  /** Also cancel the children of runs, and their children. Default false. */
  readonly children?: boolean;
}

/**
 * Options of `hf.retry()`.
 * @example await hf.retry([run.id], { from: 'charge', reason: 'the bank was down' });
 */
export interface RetryJobsOptions extends VerbOptions {
  /** A step of a workflow's run: do it and all later steps again. Default: only what failed. */
  readonly from?: string;
}

export const ACT_OPTIONS = {
  ...{ reason: true, actor: true, audit: true },
} as const satisfies Known<ActOptions>;
const OPTIONS = { queue: true, tx: true, ...ACT_OPTIONS } as const satisfies Known<VerbOptions>;
const MORE = {
  ...{ discard: {}, retry: { from: true } },
  cancel: { undo: true, children: true },
} as const satisfies Readonly<Record<string, Readonly<Record<string, true>>>>;

export function checkActOptions<Options extends ActOptions>(options: Options): Options {
  for (const name of ['reason', 'actor'] as const) {
    const value: unknown = options[name];
    const problem = typeof value === 'string' ? unstorable(value) : null;
    if (problem !== null) {
      throw new HoldfastError(
        'OPTION_INVALID',
        `The ${name} contains ${problem}, which Postgres cannot store; nothing was done.`,
      );
    }
    if (value === undefined || typeof value === 'string') continue;
    throw new HoldfastError(
      'OPTION_INVALID',
      `The ${name} is ${shown(value)}, and not a text; nothing was done.`,
    );
  }
  checkFlag(options.audit, 'audit', 'Nothing was done.');
  return options;
}

/** A text would be the reason or the queue, and nobody could tell which. */
export function checkVerbOptions<Options extends VerbOptions>(
  verb: keyof typeof MORE,
  options: Options,
): Options {
  if (typeof options !== 'object' || options === null) {
    throw new HoldfastError(
      'OPTION_INVALID',
      `The second argument of ${verb}() is ${shown(options)}, and not an object; nothing was done. ` +
        `Write ${verb}(ids, { queue }).`,
    );
  }
  checkKnown(options, { ...OPTIONS, ...MORE[verb] }, `${verb}()`, 'Nothing was done.');
  return checkActOptions(options);
}
