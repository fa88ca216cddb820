/**
 * `holdfast jobs retry | discard | cancel` and `dead-letters retry | discard`: a verb on jobs by id, or on all that
 * the filter names. Those go in batches, each of which commits by itself: an interrupted run has done what it says, and
 * the same command goes on with the rest.
 */
import {
  cancelFor,
  discardJobs,
  type MoveJobs,
  type Movement,
  moveJobs,
  recordOf,
  retryAndHint,
} from '../../../api/act/acts.js';
import { isEmpty, type JobFilter } from '../../../inspect/job/filter.js';
import { countJobs, listJobs } from '../../../inspect/job/list.js';
import { type ShownJob, showJob } from '../../../inspect/job/show.js';
import { many } from '../../../inspect/reading/words.js';
import { inBatches } from '../../../operate/bulk.js';
import { actOptions } from '../../actor.js';
import { asked, confirmed, inEveryQueue, soFar } from '../../ask.js';
import { type Call, EXIT } from '../../command.js';
import { Partly, UsageError } from '../../failures.js';
import { filterOf } from '../../parse/filters.js';
import { checkIds, countOption } from '../../parse/values.js';
import { Progress } from '../../print/progress.js';

export interface Verb {
  readonly name: 'retry' | 'discard' | 'cancel';
  readonly done: string;
  readonly noun: string;
  /** In which states it moves a job. */
  readonly from: readonly string[];
  /** It asks even when the jobs were named one by one. */
  readonly final: boolean;
  /** `from`: only jobs that are still in one of these states. */
  readonly move: (reason: string | undefined, from?: readonly string[]) => MoveJobs;
}

export const RETRY: Verb = {
  ...{ name: 'retry', done: 'retried', noun: 'dead letter', from: ['dead_letter'], final: false },
  move: () => retryAndHint,
};
const DISCARD: Verb = {
  ...{ ...RETRY, name: 'discard', done: 'discarded', final: true },
  move: () => discardJobs,
};
export const CANCEL: Verb = {
  ...{ name: 'cancel', done: 'cancelled', noun: 'job', from: ['pending', 'processing'] },
  ...{ final: true, move: cancelFor },
};

async function run(call: Call, verb: Verb): Promise<number> {
  const filter = filterOf(call.given);
  if (call.args.length > 0) {
    if (!isEmpty(filter)) throw new UsageError('Give ids or a filter, not both.');
    return byId(call, verb, checkIds(call.args));
  }
  checkNarrowed(call, filter);
  const wrong = filter.statuses?.find((status) => !verb.from.includes(status));
  if (wrong) {
    throw new UsageError(
      `${verb.name} moves jobs that are ${verb.from.join(' or ')}, not ${wrong}.`,
    );
  }
  return actOnMany(call, verb, { ...filter, statuses: filter.statuses ?? verb.from });
}

/** All jobs only where that is said. */
export function checkNarrowed({ given }: Call, filter: JobFilter): void {
  if (!isEmpty(filter) || given.texts('queue') !== undefined || given.flag('all')) return;
  throw new UsageError('Say which: ids, a filter such as --type, or --all. Nothing was done.');
}

async function actOnMany(call: Call, verb: Verb, filter: JobFilter): Promise<number> {
  const { out, signal } = call;
  const counts = await countMatching(call, filter);
  if (signal.aborted) return EXIT.interrupted;
  const matched = [...counts.values()].reduce((sum, count) => sum + count, 0);
  const where = [...counts.keys()].map((queue) => `"${queue}"`).join(', ');
  const exit = await asked(call, {
    ...{ matched, none: `No ${verb.noun} matches`, nothing: { [verb.done]: 0 } },
    doing: `${verb.name} ${many(matched, verb.noun)} of ${where}`,
  });
  if (exit !== null) return exit;
  const limit = countOption(call.given, 'batch', 1_000);
  const { moved, finished, error } = await inEveryQueue(call, matched, counts.keys(), (queue) =>
    batches(call, verb, queue, filter, limit),
  );
  if (out.json) await out.value({ matched, [verb.done]: moved, finished });
  else await out.line(`${moved.toLocaleString('en')} ${verb.done}`);
  if (error) throw new Partly(error, soFar(moved, verb.done));
  if (finished) return EXIT.ok;
  out.note(
    `Interrupted: ${many(Math.max(0, matched - moved), verb.noun)} are left as they were. The same command goes on.`,
  );
  return EXIT.interrupted;
}

/** By queue; one without such a job is left out. */
async function countMatching({ session, given, out, signal }: Call, filter: JobFilter) {
  const counts = new Map<string, number>();
  for (const queue of await session.queueNames(given.texts('queue'))) {
    const progress = new Progress(out, null);
    let [sum, after] = [0, null as string | null];
    do {
      const step = await session.read((db) => countJobs(db, session.names(queue), filter, after));
      sum += step.matched;
      after = step.next;
      progress.update(sum);
    } while (after !== null && !signal.aborted);
    progress.end();
    if (sum > 0) counts.set(queue, sum);
  }
  return counts;
}

function batches(call: Call, verb: Verb, queue: string, filter: JobFilter, limit: number) {
  const { session, signal } = call;
  const names = session.names(queue);
  const movement = movementOf(call, verb, queue, filter);
  return inBatches({
    find: async (after) => {
      const page = await session.read(
        (db) => listJobs(db, names, filter, { after, limit, order: 'oldest' }),
        { snapshot: true },
      );
      return { ids: page.jobs.map((job) => job.id), next: page.next };
    },
    act: (ids) => moveJobs(movement, ids),
    signal,
  });
}

/** One act on one queue: all its batches count in one row of the audit. */
function movementOf(call: Call, verb: Verb, queue: string, filter: JobFilter | null): Movement {
  const options = actOptions(call.given);
  return {
    pool: call.session.pool,
    names: call.session.names(queue),
    move: verb.move(options.reason, filter?.statuses),
    record: recordOf({ act: verb.name, queue, filter }, options),
  };
}

export async function byId(call: Call, verb: Verb, ids: readonly string[]): Promise<number> {
  const { session, given, signal } = call;
  const queues = await session.queueNames(given.texts('queue'));
  if (given.flag('dry-run')) return wouldMove(call, verb, queues, ids);
  if (verb.final && !(await confirmed(call, `${verb.name} ${many(ids.length, verb.noun)}`)))
    return EXIT.failed;
  const jobs = await lookUp(call, queues, ids);
  const moved = new Set<string>();
  for (const queue of new Set([...jobs.values()].flatMap((job) => job?.queue ?? []))) {
    if (signal.aborted) break;
    const mine = [...jobs].filter(([, job]) => job?.queue === queue && !job.archived);
    if (mine.length === 0) continue;
    const here = mine.map(([id]) => id);
    const some = await moveJobs(movementOf(call, verb, queue, null), here).catch((error) => {
      throw moved.size > 0 ? new Partly(error, soFar(moved.size, verb.done)) : error;
    });
    for (const id of some) moved.add(id);
  }
  return tell(call, verb, jobs, moved);
}

type Jobs = ReadonlyMap<string, ShownJob | null>;

/** What each of them is now; those that nobody knows are null. */
async function lookUp(
  { session, signal }: Call,
  queues: readonly string[],
  ids: readonly string[],
): Promise<Jobs> {
  const jobs = new Map<string, ShownJob | null>();
  for (const id of ids) {
    if (signal.aborted) break;
    jobs.set(id, await session.read((db) => showJob(db, session.schema, queues, id)));
  }
  return jobs;
}

async function tell(call: Call, verb: Verb, jobs: Jobs, moved: ReadonlySet<string>) {
  const { out, signal } = call;
  for (const [id, job] of jobs) {
    const [ok, was] = [moved.has(id), stateOf(job)];
    if (out.json) await out.value({ id, queue: job?.queue ?? null, [verb.done]: ok, was });
    else if (ok) await out.line(id);
    if (!ok) out.note(`${id} was not ${verb.done}: it is ${was}.${wayBack(verb, job)}`);
  }
  out.note(`${moved.size} of ${many(jobs.size, verb.noun)} ${verb.done}.`);
  if (signal.aborted) return EXIT.interrupted;
  return moved.size < jobs.size ? EXIT.failed : EXIT.ok;
}

function wayBack({ name }: Verb, job: ShownJob | null): string {
  if (name !== 'retry' || !job?.archived || job.status === 'completed') return '';
  return ` \`holdfast archive replay ${job.id}\` brings it back.`;
}

/** The states as they are now; the exit code is that of the verb. */
async function wouldMove(
  call: Call,
  verb: Verb,
  queues: readonly string[],
  ids: readonly string[],
): Promise<number> {
  const { out, signal } = call;
  let movable = 0;
  const jobs = await lookUp(call, queues, ids);
  if (signal.aborted) return EXIT.interrupted;
  for (const [id, job] of jobs) {
    if (job && !job.archived && verb.from.includes(job.status)) movable++;
    else out.note(`${id} would not be ${verb.done}: it is ${stateOf(job)}.`);
  }
  if (out.json) await out.value({ matched: movable, [verb.done]: 0, finished: movable === 0 });
  out.note(`This would ${verb.name} ${many(movable, verb.noun)}. Nothing was done.`);
  return movable < ids.length ? EXIT.failed : EXIT.ok;
}

function stateOf(job: ShownJob | null): string {
  if (!job) return 'unknown';
  return job.archived ? `${job.status}, in the archive` : job.status;
}

export const runRetry = (call: Call) => run(call, RETRY);
export const runDiscard = (call: Call) => run(call, DISCARD);
export const runCancel = (call: Call) => run(call, CANCEL);
