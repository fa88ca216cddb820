/**
 * Jobs by their ids: tried again, discarded, cancelled. In the caller's transaction, or in each queue in one of its own.
 */
import { checkTx } from '../../enqueue/transaction.js';
import { checkIds } from '../../job/id.js';
import { checkFlag } from '../../job/options/known-options.js';
import {
  type CancelOptions,
  checkVerbOptions,
  type RetryJobsOptions,
  type VerbOptions,
} from '../../operate/options.js';
import type { Access } from '../access.js';
import { findJobs } from '../look/find-jobs.js';
import {
  actIn,
  cancelFor,
  discardJobs,
  type MoveJobs,
  moveJobsIn,
  recordOf,
  retryAndHint,
  retryFrom,
} from './acts.js';
import { checkStep, undoFor, withChildren } from './workflows.js';

type Verb = 'retry' | 'discard' | 'cancel';

export function byId(access: Access) {
  const { names } = access;

  async function move(verb: Verb, ids: readonly string[], options: VerbOptions, by: MoveJobs) {
    const checked = checkIds(ids);
    if ('tx' in options) checkTx(options.tx);
    const moveIn = (queue: string, some: readonly string[]) => {
      const [where, record] = [names(queue), recordOf({ act: verb, queue }, options)];
      return actIn(access, options, (db) =>
        moveJobsIn(db, { names: where, move: by, record }, some),
      );
    };
    if (options.queue !== undefined) return moveIn(options.queue, checked);
    const moved = new Set(await moveIn('inbox', checked));
    const left = checked.filter((id) => !moved.has(id.toLowerCase()));
    for (const [queue, some] of await findJobs(access, left, options.tx))
      for (const id of await moveIn(queue, some)) moved.add(id);
    return [...moved];
  }

  return {
    /**
     * Runs dead letters again, with all their attempts. Returns the ids that moved.
     * @example const moved = await hf.retry(['0199a1c2-7d3e-7000-8000-000000009182'], { reason: 'fixed' });
     */
    async retry(ids: readonly string[], options: RetryJobsOptions = {}): Promise<string[]> {
      const { from, ...rest } = checkVerbOptions('retry', options);
      return move(
        'retry',
        ids,
        rest,
        from === undefined ? retryAndHint : retryFrom(checkStep(from)),
      );
    },
    /**
     * Moves dead letters to the archive as `discarded`. Returns the ids that moved.
     * @example await hf.discard(['0199a1c2-7d3e-7000-8000-000000009182'], { reason: 'the order was withdrawn' });
     */
    discard: async (ids: readonly string[], options: VerbOptions = {}): Promise<string[]> =>
      move('discard', ids, checkVerbOptions('discard', options), discardJobs),
    /**
     * Cancels jobs that wait or run; a handler that runs sees its signal aborted. Returns the ids that moved.
     * @example await hf.cancel([run.id], { reason: 'the customer withdrew', undo: true });
     */
    async cancel(ids: readonly string[], options: CancelOptions = {}): Promise<string[]> {
      const { undo, children, ...rest } = checkVerbOptions('cancel', options);
      checkFlag(undo, 'undo', 'Nothing was done.');
      checkFlag(children, 'children', 'Nothing was done.');
      const by = undo ? undoFor(rest.reason) : cancelFor(rest.reason);
      return move('cancel', ids, rest, children ? withChildren(by, rest.reason) : by);
    },
  };
}
