/**
 * Dead letters: what there is, what they have in common, and all of them again or gone. Those that a filter names go
 * in batches that commit one by one, so an interrupted call has done what it says, and the same call goes on.
 */
import { deadLetterGroups } from '../../inspect/job/failures.js';
import { isEmpty, type JobFilter } from '../../inspect/job/filter.js';
import { listJobs } from '../../inspect/job/list.js';
import { invalid } from '../../job/errors/holdfast-error.js';
import { checkFlag, checkKnown, checkNamed, type Known } from '../../job/options/known-options.js';
import { inBatches, refuseTx, type Step } from '../../operate/bulk.js';
import { ACT_OPTIONS, type ActOptions, checkActOptions } from '../../operate/options.js';
import type { Executor } from '../../postgres/queryable.js';
import { type Access, ask, ofQueue, type QueueChoice } from '../access.js';
import { type DeadLetterFilter, deadLetterFilter, PARTS } from '../look/filter.js';
import { type JobsPage, LIST_OPTIONS, listing, type PageChoice } from '../look/look.js';
import { type DeadLetterGroup, groupView } from '../look/views.js';
import { discardJobs, type MoveJobs, moveJobs, recordOf, retryAndHint } from './acts.js';
import { shownFilter } from './archive.js';

/** Which page of dead letters. */
export interface DeadLettersRequest extends PageChoice {
  /** Only these dead letters. Default: all. */
  readonly filter?: DeadLetterFilter;
}

/** Which dead letters are grouped, and how. */
export interface GroupsRequest extends QueueChoice {
  /** Only these dead letters. Default: all. */
  readonly filter?: DeadLetterFilter;
  /** Group by partition key too. Default false. */
  readonly byKey?: boolean;
}

const GROUPS_OPTIONS = {
  ...{ queue: true, filter: true, byKey: true },
} as const satisfies Known<GroupsRequest>;

/** Options of `deadLetters.retry()` and `deadLetters.discard()`. */
export interface BulkChoice extends QueueChoice, ActOptions {
  /** No batch begins after it is aborted; what was done stays done. Default: none. */
  readonly signal?: AbortSignal;
}

const BULK_OPTIONS = {
  ...{ queue: true, signal: true, ...ACT_OPTIONS },
} as const satisfies Known<BulkChoice>;

/** How many were found and how many of them moved; the others had changed meanwhile. */
export type BulkResult = Step;

/** Which dead letters; all of them only where that is said. */
export type WhichLetters = DeadLetterFilter | 'all';

type Verb = 'retry' | 'discard';
const MOVES: Readonly<Record<Verb, MoveJobs>> = { retry: retryAndHint, discard: discardJobs };

const BATCH = 1_000;

function checkWhich(which: WhichLetters, verb: Verb): JobFilter {
  const filter = deadLetterFilter(which === 'all' ? {} : which);
  if (which !== 'all') checkNamed(which, PARTS, 'more dead letters than you meant');
  const { statuses, ...rest } = filter;
  if (which === 'all' || !isEmpty(rest)) return filter;
  throw invalid(
    `The filter is empty, so it names every dead letter; nothing was done. ` +
      `Call deadLetters.${verb}('all') if that is meant.`,
  );
}

async function onMany(
  access: Access,
  verb: Verb,
  which: WhichLetters,
  choice: BulkChoice,
): Promise<BulkResult> {
  const filter = checkWhich(which, verb);
  const byId = `In your transaction act on ids: hf.${verb}(ids, { tx }).`;
  refuseTx(choice, `deadLetters.${verb}()`, byId);
  checkKnown(choice, BULK_OPTIONS, 'deadLetters', 'Nothing was done.');
  checkActOptions(choice);
  let last: Step = { found: 0, moved: 0, finished: false };
  await ofQueue(access, choice, async (names) => {
    const act = { act: verb, queue: names.queue, filter: shownFilter(which) };
    const record = recordOf(act, choice);
    const movement = { pool: access.pool(), names, move: MOVES[verb], record };
    const steps = inBatches({
      async find(after) {
        const request = { after, limit: BATCH, order: 'oldest' } as const;
        const list = (db: Executor) => listJobs(db, names, filter, request);
        const { jobs, next } = await ask(access, list, { snapshot: true });
        return { ids: jobs.map(({ id }) => id), next };
      },
      act: (ids) => moveJobs(movement, ids),
      signal: choice.signal,
    });
    for await (const step of steps) last = step;
  });
  return last;
}

export function deadLetters(access: Access) {
  return {
    /**
     * A page of dead letters, as `hf.jobs()` gives it.
     * @example const { jobs } = await hf.deadLetters.list({ filter: { type: 'send_receipt' } });
     */
    async list(request: DeadLettersRequest = {}): Promise<JobsPage> {
      checkKnown(request, LIST_OPTIONS, 'deadLetters.list()', 'Nothing was read.');
      const filter = deadLetterFilter(request.filter ?? {});
      return listing(access, request, { place: 'queue', filter });
    },

    /**
     * Groups the newest 50,000 by type and error (with `byKey` by key too): at most 100 groups, the largest first. In an
     * error, `#` replaces a number or an id.
     * @example const [most] = await hf.deadLetters.groups();
     */
    async groups(request: GroupsRequest = {}): Promise<DeadLetterGroup[]> {
      checkKnown(request, GROUPS_OPTIONS, 'deadLetters.groups()', 'Nothing was read.');
      const byKey = checkFlag(request.byKey, 'byKey', 'Nothing was read.') ?? false;
      const wanted = deadLetterFilter(request.filter ?? {});
      const rows = await ofQueue(access, request, (names) =>
        ask(access, (db) => deadLetterGroups(db, names, wanted, byKey)),
      );
      return rows.map(groupView);
    },

    /**
     * Runs them again, with all their attempts. By id: `hf.retry(ids)`.
     * @example const { moved } = await hf.deadLetters.retry({ type: 'send_receipt', error: 'timeout' });
     */
    retry: async (which: WhichLetters, choice: BulkChoice = {}): Promise<BulkResult> =>
      onMany(access, 'retry', which, choice),

    /**
     * Moves them to the archive as `discarded`. By id: `hf.discard(ids)`.
     * @example const { moved } = await hf.deadLetters.discard({ type: 'send_receipt', older: '30d' });
     */
    discard: async (which: WhichLetters, choice: BulkChoice = {}): Promise<BulkResult> =>
      onMany(access, 'discard', which, choice),
  };
}
