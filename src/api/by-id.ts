/** Jobs by their ids: looked up as they are stored, tried again, discarded, cancelled. */
import { findJob, type JobRow } from '../inspect/job.js';
import { cancel } from '../operate/cancel.js';
import { discard, retry } from '../operate/dead-letters.js';
import { type CancelOptions, checkVerbOptions, type VerbOptions } from '../operate/options.js';
import { type Access, act } from './access.js';

export function byId(access: Access) {
  const { names } = access;
  return {
    /** A job by its id, in the queue or in the archive; null when it is in neither. */
    find: async (id: string, queue = 'inbox'): Promise<JobRow | null> =>
      findJob(act(access), names(queue), id),
    /** Dead letters run again, with all their attempts. Returns the ids that moved, as the next two do. */
    async retry(ids: readonly string[], options: VerbOptions = {}): Promise<string[]> {
      const { queue = 'inbox' } = checkVerbOptions('retry', options);
      return retry(act(access), names(queue), ids);
    },
    async discard(ids: readonly string[], options: VerbOptions = {}): Promise<string[]> {
      const { queue = 'inbox' } = checkVerbOptions('discard', options);
      return discard(act(access), names(queue), ids);
    },
    async cancel(ids: readonly string[], options: CancelOptions = {}): Promise<string[]> {
      const { queue = 'inbox', reason } = checkVerbOptions('cancel', options);
      return cancel(act(access), names(queue), ids, reason ?? 'cancelled by an operator');
    },
  };
}
