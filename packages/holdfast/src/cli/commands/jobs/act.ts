/**
 * `holdfast jobs retry | discard | cancel` and `dead-letters retry | discard`: a verb on jobs by id, or on all that
 * the filter names. Those go in batches, each of which commits by itself: an interrupted run has done what
 * it says, and the same command goes on with the rest.
 */
import { moveJobs } from '../../../api/act/acts.js';
import { isEmpty } from '../../../inspect/job/filter.js';
import { type ShownJob, showJob } from '../../../inspect/job/show.js';
import { many } from '../../../inspect/reading/words.js';
import { confirmed } from '../../ask/confirm.js';
import { actOnMany, movementOf, soFar } from '../../ask/many.js';
import { type Call, EXIT } from '../../command.js';
import { Partly, UsageError } from '../../failures.js';
import { filterOf } from '../../parse/filters.js';
import { checkIds } from '../../parse/ids.js';
import { VERBS, type Verb } from '../../verbs.js';

async function run(call: Call, verb: Verb): Promise<number> {
  const filter = filterOf(call.given);
  const narrowed = !isEmpty(filter) || call.given.texts('queue') !== undefined;
  if (call.args.length > 0) {
    if (!isEmpty(filter)) throw new UsageError('Give ids or a filter, not both.');
    return byId(call, verb, checkIds(call.args));
  }
  if (!narrowed && !call.given.flag('all')) {
    throw new UsageError(`Say which: ids, a filter such as --type, or --all. Nothing was done.`);
  }
  const wrong = filter.statuses?.find((status) => !verb.from.includes(status));
  if (wrong) {
    throw new UsageError(
      `${verb.name} moves jobs that are ${verb.from.join(' or ')}, not ${wrong}.`,
    );
  }
  return actOnMany(call, verb, { ...filter, statuses: filter.statuses ?? verb.from });
}

async function byId(call: Call, verb: Verb, ids: readonly string[]): Promise<number> {
  const { session, given, signal } = call;
  const queues = (await session.queues(given.texts('queue'))).map((queue) => queue.name);
  if (given.flag('dry-run')) return wouldMove(call, verb, queues, ids);
  if (verb.final && !(await confirmed(call, `${verb.name} ${many(ids.length, verb.noun)}`))) {
    return EXIT.failed;
  }
  const jobs = await lookUp(call, queues, ids);
  const moved = new Set<string>();
  for (const queue of queuesOf(jobs)) {
    if (signal.aborted) break;
    const mine = [...jobs].filter(([, job]) => job?.queue === queue && !job.archived);
    if (mine.length === 0) continue;
    const movement = movementOf(call, verb, queue, null);
    const some = await moveJobs(
      movement,
      mine.map(([id]) => id),
    ).catch((error) => {
      throw moved.size > 0 ? new Partly(error, soFar(moved.size, verb.done)) : error;
    });
    for (const id of some) moved.add(id);
  }
  return tell(call, verb, jobs, moved);
}

type Jobs = ReadonlyMap<string, ShownJob | null>;

const queuesOf = (jobs: Jobs) => new Set([...jobs.values()].flatMap((job) => job?.queue ?? []));

/** What each of them is now; those that nobody knows are null. */
async function lookUp(
  { session, signal }: Call,
  queues: readonly string[],
  ids: readonly string[],
) {
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

export const runRetry = (call: Call) => run(call, VERBS.retry);
export const runDiscard = (call: Call) => run(call, VERBS.discard);
export const runCancel = (call: Call) => run(call, VERBS.cancel);
