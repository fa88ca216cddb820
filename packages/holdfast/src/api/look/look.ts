/** What the command line shows, for programs: jobs, queues, workers, and why a job does not run. */
import { explainJob } from '../../inspect/explain/explain.js';
import { markStopped } from '../../inspect/explain/stopped.js';
import { isArchivePlace, listArchive } from '../../inspect/job/archive.js';
import type { JobFilter } from '../../inspect/job/filter.js';
import { listJobs, ORDERS, type Order } from '../../inspect/job/list.js';
import { showJob } from '../../inspect/job/show.js';
import { everyQueue, openOverview } from '../../inspect/queue/overview.js';
import { listQueues } from '../../inspect/queue/queues.js';
import { invalid, shown } from '../../job/errors/holdfast-error.js';
import { checkId, isId } from '../../job/id.js';
import { checkInteger } from '../../job/job.js';
import { checkChoice, checkFlag, checkKnown, type Known } from '../../job/options/known-options.js';
import type { Names } from '../../postgres/names.js';
import { type Access, ask, ofQueue, type QueueChoice } from '../access.js';
import { type JobsFilter, jobsFilter, type PlacedFilter } from './filter.js';
import { ringOwner } from './ring.js';
import {
  archivedView,
  type Explanation,
  explanationView,
  type Job,
  type JobSummary,
  jobView,
  listedView,
  lockedView,
  type QueueInfo,
  queueView,
  type WorkerInfo,
  workerView,
} from './views.js';

/** Which page of a list. */
export interface PageChoice extends QueueChoice {
  /** The `next` of the page before. Default: from the first on. */
  readonly after?: string | null;
  /** At most so many; default 50, at most 1,000. */
  readonly limit?: number;
  /** By the time of the enqueue. Default `newest`. The archive always has the last to end first. */
  readonly order?: Order;
}

/**
 * Which page of which jobs.
 * @example const { jobs, next } = await hf.jobs({ filter: { status: 'dead_letter' }, limit: 100 });
 */
export interface JobsRequest extends PageChoice {
  /** Only these jobs. Default: all that wait, run or are dead letters. */
  readonly filter?: JobsFilter;
}

/** A page of jobs. */
export interface JobsPage {
  /** Fewer than `limit`, even none, is no sign of the end. */
  readonly jobs: readonly JobSummary[];
  /** Where the search goes on, to be passed as `after`; null: there is nothing further. */
  readonly next: string | null;
}

const PAGE = { queue: true, after: true, limit: true, order: true } as const;
/** Of a list with a filter. */
export const LIST_OPTIONS = { ...PAGE, filter: true } as const satisfies Known<JobsRequest>;

export const DEFAULT_LIMIT = 50;
export const MAX_LIMIT = 1_000;

export function listing(access: Access, request: PageChoice, wanted: PlacedFilter) {
  const { limit = DEFAULT_LIMIT } = request;
  const order = checkChoice(request.order, ORDERS, 'order', 'Nothing was read.') ?? 'newest';
  checkInteger(limit, 'limit', 1, MAX_LIMIT);
  const after = checkPlace(request.after, wanted.place);
  const { filter } = wanted;
  return ofQueue(access, request, (names) =>
    wanted.place === 'archive'
      ? finished(access, names, filter, { after, limit })
      : live(access, names, filter, { after, limit, order }),
  );
}

interface Range {
  readonly after: string | null;
  readonly limit: number;
}

async function live(
  access: Access,
  names: Names,
  filter: JobFilter,
  range: Range & { readonly order: Order },
): Promise<JobsPage> {
  const { jobs, next } = await ask(
    access,
    (db) => listJobs(db, names, filter, { ...range, byClaims: true }),
    { snapshot: true },
  );
  return { jobs: jobs.map((row) => listedView(names.queue, row)), next };
}

async function finished(
  access: Access,
  names: Names,
  filter: JobFilter,
  range: Range,
): Promise<JobsPage> {
  const { jobs, next } = await ask(access, (db) => listArchive(db, names, filter, range));
  return { jobs: jobs.map((row) => archivedView(names.queue, row)), next };
}

export function checkPlace(after: unknown, place: PlacedFilter['place']): string | null {
  if (after === undefined || after === null) return null;
  if (typeof after === 'string' && (place === 'archive' ? isArchivePlace(after) : isId(after)))
    return after;
  throw invalid(
    `after is ${shown(after)}, which is no place in this list; nothing was done. ` +
      'Pass the next of the page before, with the same filter.',
  );
}

export function looking(access: Access) {
  const { schema } = access;
  return {
    /**
     * A page of the jobs that match the filter; without a status, of those that wait, run or are dead letters. A page
     * reads a bounded number of rows: go on with `next` until it is null.
     * @example const { jobs, next } = await hf.jobs({ filter: { type: 'send_receipt' }, limit: 100 });
     */
    async jobs(request: JobsRequest = {}): Promise<JobsPage> {
      checkKnown(request, LIST_OPTIONS, 'jobs()', 'Nothing was read.');
      return listing(access, request, jobsFilter(request.filter ?? {}));
    },

    /**
     * A job by its id, in any queue or archive, with payload and result; null: no queue knows it.
     * @example const found = await hf.job('0199a1c2-7d3e-7000-8000-000000009182');
     */
    async job(id: string, choice: QueueChoice = {}): Promise<Job | null> {
      checkKnown(choice, { queue: true }, 'job()', 'Nothing was read.');
      const checked = checkId(id);
      const search = (queues?: readonly string[]) =>
        ask(access, async (db) => {
          const all = queues ?? (await listQueues(db, schema)).map(({ name }) => name);
          return showJob(db, schema, all, checked, true);
        });
      const { queue } = choice;
      const row = await (queue === undefined
        ? search()
        : ofQueue(access, { queue }, (names) => search([names.queue])));
      return row && jobView(row);
    },

    /**
     * Why is this job not running? In words, with a code to branch on and what to do about it.
     * @example const { code, text, fix } = await hf.explain('0199a1c2-7d3e-7000-8000-000000009182');
     */
    async explain(id: string): Promise<Explanation> {
      const checked = checkId(id);
      return explanationView(
        await ask(access, (db) => explainJob(db, schema, checked, { ringOwner })),
      );
    },

    /**
     * Every queue with its settings, its jobs by state and its speed. If somebody has locked a queue, `unreadable` says
     * who, and its figures are null.
     * @example const late = (await hf.queues()).filter(({ oldestDueMs }) => (oldestDueMs ?? 0) > 60_000);
     */
    async queues(): Promise<QueueInfo[]> {
      const seen = await ask(access, async (db, part) => {
        const queues = await everyQueue(db, part, schema, { withRates: true });
        return (await markStopped(db, part, schema, queues, ringOwner)).queues;
      });
      return seen.map((one) => ('error' in one ? lockedView(one) : queueView(one)));
    },

    /**
     * Every worker and what it holds; with `all`, also those that died in the last week. What they hold is null while a
     * queue is locked.
     * @example const alive = (await hf.workers()).length;
     */
    async workers(
      choice: {
        /** Default false. */
        readonly all?: boolean;
      } = {},
    ): Promise<WorkerInfo[]> {
      checkKnown(choice, { all: true }, 'workers()', 'Nothing was read.');
      const all = checkFlag(choice.all, 'all', 'Nothing was read.') ?? false;
      const seen = await ask(access, (db, part) =>
        openOverview(db, part, schema, { withDead: all }),
      );
      return seen.workers.map((worker) => workerView(worker, seen.locked.length === 0));
    },
  };
}
