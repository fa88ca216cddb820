/** Runs of workflows, for programs: a list by state, key and tag, and what they wait for. */
import { ARCHIVED_STATUSES, endedRuns } from '../../inspect/job/archive.js';
import { kindOf, type RunStep } from '../../inspect/job/steps.js';
import { listRuns } from '../../inspect/run/list.js';
import { LIVE_RUN_STATES, type RunState } from '../../inspect/run/state.js';
import { workflowTypes } from '../../inspect/run/types.js';
import { waitGroups } from '../../inspect/run/waits.js';
import { invalid, shown } from '../../job/errors/holdfast-error.js';
import { checkInteger } from '../../job/job.js';
import { checkKey, checkType } from '../../job/key.js';
import { checkKnown, type Known } from '../../job/options/known-options.js';
import type { QueueName } from '../../job/queue-name.js';
import type { Names } from '../../postgres/names.js';
import { type Access, ask, ofQueue, type QueueChoice } from '../access.js';
import { checkPlace, DEFAULT_LIMIT, MAX_LIMIT } from './look.js';
import { endedView, type Run, runView } from './run-views.js';

/** What is asked of a definition. */
interface AnyWorkflow {
  /** The name of the workflow. */
  readonly type: string;
  /** The queue of its runs. */
  readonly queue: QueueName;
}

/**
 * Which runs of workflows. A part that is left out does not filter.
 * @example const { runs, next } = await hf.runs({ workflow: checkout, state: 'waiting', tag: 'vip' });
 */
export interface RunsRequest extends QueueChoice {
  /** Its definition or its name. Default: every workflow. */
  readonly workflow?: AnyWorkflow | string;
  /** Runs in the queue, or those that ended (`completed`, `cancelled`, `discarded`), not both. Default: all in the queue. */
  readonly state?: RunState | readonly RunState[];
  /** The partition key. Default: any. */
  readonly key?: string;
  /** The tag that was given at the start. Default: any. */
  readonly tag?: string;
  /** At most so many; default 50, at most 1,000. */
  readonly limit?: number;
  /** The `next` of the page before. Default: from the first on. */
  readonly after?: string | null;
}

/** A page of runs. */
export interface RunsPage {
  /** Fewer than `limit`, even none, is no sign of the end. */
  readonly runs: readonly Run[];
  /** Where the search goes on, to be passed as `after`; null: there is nothing further. */
  readonly next: string | null;
}

/** Runs of one workflow that wait in the same step. */
export interface WaitingRuns {
  /** The name of the workflow. */
  readonly workflow: string;
  /** The name of the step. */
  readonly name: string;
  /** Such as `wait` for signals, or `sleep`. */
  readonly kind: RunStep['kind'];
  /** A run that waits for several things is counted for each. */
  readonly runs: number;
  /** Since when the first of them waits. */
  readonly oldest: Date;
  /** So many wait that `runs` is an estimate. */
  readonly approximate: boolean;
}

const REQUEST = {
  ...{ workflow: true, state: true, key: true, tag: true, limit: true, after: true, queue: true },
} as const satisfies Known<RunsRequest>;

const ENDED: readonly string[] = ARCHIVED_STATUSES;
const STATES: readonly string[] = [...LIVE_RUN_STATES, ...ENDED];
const UNREAD = 'Nothing was read.';
const NOT_READ = 'nothing was read; use a text that runs were started with';

function statesIn(given: unknown): RunState[] | undefined {
  if (given === undefined) return undefined;
  const list: unknown[] = Array.isArray(given) ? given : [given];
  const wrong = list.find((one) => !STATES.includes(one as string));
  if (wrong !== undefined || list.length === 0)
    throw invalid(
      `There is no state ${shown(wrong)}; there are ${STATES.join(', ')}. Nothing was read.`,
    );
  const ended = list.filter((one) => ENDED.includes(one as string));
  if (ended.length > 0 && ended.length < list.length)
    throw invalid(
      `One list shows the queue or the archive: ask for ${ended.join(', ')} in a call of its own. Nothing was read.`,
    );
  return list as RunState[];
}

/** The name and the queue of a workflow. */
export function workflowIn(
  workflow: AnyWorkflow | string | undefined,
  queue?: QueueName,
): { readonly type: string | undefined; readonly queue: QueueChoice } {
  if (workflow === undefined) return { type: undefined, queue: queue ? { queue } : {} };
  if (typeof workflow === 'string')
    return { type: checkType(workflow), queue: queue ? { queue } : {} };
  if (typeof workflow !== 'object' || workflow === null || typeof workflow.type !== 'string')
    throw invalid(`workflow must be a definition or a name, not ${shown(workflow)}. ${UNREAD}`);
  return { type: workflow.type, queue: { queue: queue ?? workflow.queue } };
}

export function runs(access: Access) {
  /** Those that ended, from the archive. */
  async function ended(
    names: Names,
    filter: {
      readonly types: string[] | undefined;
      readonly statuses: readonly string[];
      readonly key: string | undefined;
    },
    tag: string | undefined,
    range: { readonly after: string | null; readonly limit: number },
  ): Promise<RunsPage> {
    const { jobs, next } = await ask(access, async (db) => {
      const types = filter.types ?? (await workflowTypes(db, names)).map(({ type }) => type);
      return endedRuns(db, names, { ...filter, types }, tag, range);
    });
    return { runs: jobs.map((row) => endedView(names.queue, row)), next };
  }

  return {
    /**
     * A page of runs of workflows, the newest first, with what each waits for and since when. A page reads a bounded number
     * of rows: go on with `next` until it is null.
     * @example const { runs, next } = await hf.runs({ workflow: checkout, state: 'waiting', limit: 100 });
     */
    async runs(request: RunsRequest = {}): Promise<RunsPage> {
      checkKnown(request, REQUEST, 'runs()', UNREAD);
      const { type, queue } = workflowIn(request.workflow, request.queue);
      const states = statesIn(request.state);
      const limit = checkInteger(request.limit ?? DEFAULT_LIMIT, 'limit', 1, MAX_LIMIT);
      const key = request.key === undefined ? undefined : checkKey(request.key, 'key', NOT_READ);
      const tag = request.tag === undefined ? undefined : checkKey(request.tag, 'tag', NOT_READ);
      const workflows = type === undefined ? undefined : [type];
      const archived = states?.some((state) => ENDED.includes(state)) ?? false;
      const after = checkPlace(request.after, archived ? 'archive' : 'queue');
      return ofQueue(access, queue, async (names) => {
        if (archived) {
          const filter = { types: workflows, statuses: states as RunState[], key };
          return ended(names, filter, tag, { after, limit });
        }
        const filter = { workflows, states, key, tag };
        const page = await ask(access, (db) => listRuns(db, names, filter, { after, limit }), {
          snapshot: true,
        });
        return { runs: page.runs.map((row) => runView(names.queue, row)), next: page.next };
      });
    },

    /**
     * What waits for what, and since when: for each workflow and step, how many runs wait there.
     * @example for (const { workflow, name, runs, oldest } of await hf.waitingRuns()) console.log(workflow, name, runs, oldest);
     */
    async waitingRuns(
      choice: {
        /** Its definition or its name. Default: every workflow. */
        readonly workflow?: AnyWorkflow | string;
      } & QueueChoice = {},
    ): Promise<WaitingRuns[]> {
      checkKnown(choice, { workflow: true, queue: true }, 'waitingRuns()', UNREAD);
      const { type, queue } = workflowIn(choice.workflow, choice.queue);
      return ofQueue(access, queue, async (names) => {
        const groups = await ask(access, (db) => waitGroups(db, names));
        return groups
          .filter(({ workflow }) => type === undefined || workflow === type)
          .map(({ kind, oldest, ...group }) => ({
            ...group,
            ...{ kind: kindOf(kind), oldest: new Date(oldest) },
          }));
      });
    },
  };
}
