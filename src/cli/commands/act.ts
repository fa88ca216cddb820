/**
 * `holdfast jobs retry | discard | cancel` and `dead-letters retry | discard`: a verb on jobs by id, or on all that
 * the filter names. Those go in batches, each of which commits by itself: an interrupted run has done what
 * it says, and the same command goes on with the rest.
 */
import { isEmpty } from '../../inspect/filter.js';
import { type ShownJob, showJob } from '../../inspect/show.js';
import { many } from '../../inspect/words.js';
import { type Call, EXIT, Partly, UsageError } from '../command.js';
import { confirmed } from '../confirm.js';
import { filterOf } from '../filters.js';
import { checkIds } from '../ids.js';
import { actOnMany, soFar } from '../many.js';
import { VERBS, type Verb } from '../verbs.js';

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
  const { session, out, given, signal } = call;
  const queues = (await session.queues(given.texts('queue'))).map((queue) => queue.name);
  if (given.flag('dry-run')) return wouldMove(call, verb, queues, ids);
  if (verb.final && !(await confirmed(call, `${verb.name} ${many(ids.length, verb.noun)}`))) {
    return EXIT.failed;
  }
  let [done, failed] = [0, 0];
  for (const id of ids) {
    if (signal.aborted) break;
    const { job, ok } = await moveOne(call, verb, queues, id).catch((error) => {
      throw done > 0 ? new Partly(error, soFar(done, verb.done)) : error;
    });
    if (ok) done++;
    else failed++;
    const status = stateOf(job);
    if (out.json) await out.value({ id, queue: job?.queue ?? null, [verb.done]: ok, was: status });
    else if (ok) await out.line(id);
    if (!ok) out.note(`${id} was not ${verb.done}: it is ${status}.`);
  }
  out.note(`${done} of ${many(ids.length, verb.noun)} ${verb.done}.`);
  if (done + failed < ids.length) return EXIT.interrupted;
  return failed > 0 ? EXIT.failed : EXIT.ok;
}

/** The states as they are now; the exit code is that of the verb. */
async function wouldMove(
  { session, out, signal }: Call,
  verb: Verb,
  queues: readonly string[],
  ids: readonly string[],
): Promise<number> {
  let movable = 0;
  for (const id of ids) {
    if (signal.aborted) return EXIT.interrupted;
    const job = await session.read((db) => showJob(db, session.schema, queues, id));
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

async function moveOne({ session }: Call, verb: Verb, queues: readonly string[], id: string) {
  const job = await session.read((db) => showJob(db, session.schema, queues, id));
  if (!job || job.archived) return { job, ok: false };
  const moved = await verb.act(session.act, session.names(job.queue), [id]);
  return { job, ok: moved.length === 1 };
}

export const runRetry = (call: Call) => run(call, VERBS.retry);
export const runDiscard = (call: Call) => run(call, VERBS.discard);
export const runCancel = (call: Call) => run(call, VERBS.cancel);
