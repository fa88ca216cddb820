/** Jobs by their ids: tried again, discarded, cancelled. */
import { checkIds } from '../job/id.js';
import { type CancelOptions, checkVerbOptions, type VerbOptions } from '../operate/options.js';
import type { Access } from './access.js';
import { cancelFor, discardJobs, type MoveJobs, moveJobs, recordOf, retryAndHint } from './acts.js';

type Verb = 'retry' | 'discard' | 'cancel';

export function byId(access: Access) {
  const { names } = access;

  async function move(verb: Verb, ids: readonly string[], options: VerbOptions, by: MoveJobs) {
    const { queue = 'inbox' } = options;
    const [where, checked] = [names(queue), checkIds(ids)];
    const record = recordOf({ act: verb, queue }, options);
    return moveJobs({ pool: access.pool(), names: where, move: by, record }, checked);
  }

  return {
    /** Dead letters run again, with all their attempts. Returns the ids that moved, as the next two do. */
    retry: async (ids: readonly string[], options: VerbOptions = {}): Promise<string[]> =>
      move('retry', ids, checkVerbOptions('retry', options), retryAndHint),
    discard: async (ids: readonly string[], options: VerbOptions = {}): Promise<string[]> =>
      move('discard', ids, checkVerbOptions('discard', options), discardJobs),
    async cancel(ids: readonly string[], options: CancelOptions = {}): Promise<string[]> {
      const { reason } = checkVerbOptions('cancel', options);
      return move('cancel', ids, options, cancelFor(reason));
    },
  };
}
