/** What acts take beside what they are about: why, who, and for retry, discard and cancel the queue and a transaction. */

import { HoldfastError } from '../job/errors/errors.js';
import { shown } from '../job/errors/holdfast-error.js';
import { checkFlag, checkKnown, type Known } from '../job/options/known-options.js';
import { unstorable } from '../job/options/text.js';
import type { QueueName } from '../job/queue-name.js';
import type { Transaction } from '../postgres/queryable.js';

/** What every act takes, for its row in the audit. */
export interface ActOptions {
  /** Why. Kept in the audit; of cancel also in the archive, as `last_error`. */
  readonly reason?: string;
  /** Who it was, where the database's role does not say it: the user of your admin page. Kept in the audit. */
  readonly actor?: string;
  /** False: it leaves no row in the audit. For programs that do it all day long. */
  readonly audit?: boolean;
}

export interface VerbOptions extends ActOptions {
  /** Default: the one that has the job. */
  readonly queue?: QueueName;
  /** Your transaction: anything with `query(text, params)`, or one of the adapters. Default: one for each queue. */
  readonly tx?: Transaction;
}

/** `reason` is kept in the archive as `last_error`. Default: cancelled by an operator. */
export type CancelOptions = VerbOptions;

export const ACT_OPTIONS = {
  ...{ reason: true, actor: true, audit: true },
} as const satisfies Known<ActOptions>;
const OPTIONS = { queue: true, tx: true, ...ACT_OPTIONS } as const satisfies Known<VerbOptions>;

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
export function checkVerbOptions(verb: string, options: unknown): VerbOptions {
  if (typeof options !== 'object' || options === null) {
    throw new HoldfastError(
      'OPTION_INVALID',
      `The second argument of ${verb}() is ${shown(options)}, and not an object; nothing was done. ` +
        `Write ${verb}(ids, { queue }).`,
    );
  }
  checkKnown(options, OPTIONS, `${verb}()`, 'Nothing was done.');
  return checkActOptions(options as VerbOptions);
}
