/**
 * `holdfast archive replay`: cancelled and discarded jobs run again, by id or by a filter; completed ones only with
 * --completed. It counts, asks, and then goes in batches that commit one by one.
 */
import { recordOf } from '../../../api/act/acts.js';
import { MAX_BATCH, replayStatuses } from '../../../api/act/archive.js';
import {
  finishedOf,
  type ReplayStep,
  type ReplayWork,
  replaying,
} from '../../../api/act/replay.js';
import { countFinished } from '../../../inspect/job/archive.js';
import { isEmpty, type JobFilter } from '../../../inspect/job/filter.js';
import { many } from '../../../inspect/reading/words.js';
import { actOptions } from '../../actor.js';
import { confirmed } from '../../ask/confirm.js';
import { soFar } from '../../ask/many.js';
import { type Call, EXIT } from '../../command.js';
import { Partly, UsageError } from '../../failures.js';
import { countOption, filterOf, placeOf } from '../../parse/filters.js';
import { checkIds } from '../../parse/ids.js';
import { Progress } from '../../print/progress.js';

type Which = JobFilter | readonly string[];

function whichOf({ args, given }: Call): Which {
  const filter = filterOf(given);
  if (args.length > 0) {
    if (!isEmpty(filter)) throw new UsageError('Give ids or a filter, not both.');
    return checkIds(args);
  }
  const narrowed = !isEmpty(filter) || given.texts('queue') !== undefined;
  if (!narrowed && !given.flag('all'))
    throw new UsageError('Say which: ids, a filter such as --type, or --all. Nothing was done.');
  const { statuses } = filter;
  if (statuses && placeOf(filter) !== 'archive')
    throw new UsageError(`Jobs that are ${statuses.join(', ')} are not in the archive.`);
  const completed = given.flag('completed');
  if (!completed && statuses?.includes('completed'))
    throw new UsageError('Completed jobs did their work: add --completed to run them again.');
  return { ...filter, statuses: replayStatuses(statuses, { completed }) };
}

/** By queue, how many would come back; and what is said of ids that would not. */
async function countAll(call: Call, queues: readonly string[], which: Which) {
  const { session, given, out } = call;
  const completed = given.flag('completed');
  const counts = new Map<string, Which>();
  let total = 0;
  const left = new Set(Array.isArray(which) ? (which as readonly string[]) : []);
  for (const queue of queues) {
    const names = session.names(queue);
    if (!Array.isArray(which)) {
      const count = await session.read((db) => countFinished(db, names, which as JobFilter));
      if (count > 0) counts.set(queue, which);
      total += count;
      continue;
    }
    const found = await finishedOf((work) => session.read(work), names, [...left]);
    const wanted = found.filter(({ status }) => completed || status !== 'completed');
    for (const { id, status } of found) {
      left.delete(id);
      if (wanted.every((one) => one.id !== id))
        out.note(`${id} is ${status}: add --completed to run it again.`);
    }
    if (wanted.length > 0)
      counts.set(
        queue,
        wanted.map(({ id }) => id),
      );
    total += wanted.length;
  }
  for (const id of left) out.note(`${id} is not in the archive.`);
  return { counts, total };
}

export async function run(call: Call): Promise<number> {
  const { session, given, out, signal, args } = call;
  const which = whichOf(call);
  const batch = countOption(given, 'batch', 1_000);
  if (batch > MAX_BATCH) throw new UsageError(`--batch must be at most ${MAX_BATCH}.`);
  const queues = (await session.queues(given.texts('queue'))).map((queue) => queue.name);
  const { counts, total } = await countAll(call, queues, which);
  if (signal.aborted) return EXIT.interrupted;
  const all = !Array.isArray(which) || total === which.length;
  if (total === 0) {
    if (out.json) await out.value({ matched: 0, replayed: 0, keyTaken: 0, finished: true });
    out.note('No finished job matches; nothing was done.');
    return all ? EXIT.ok : EXIT.failed;
  }
  const where = [...counts.keys()].map((queue) => `"${queue}"`).join(', ');
  const doing = `replay ${many(total, 'finished job')} of ${where}`;
  if (given.flag('dry-run')) {
    if (out.json) await out.value({ matched: total, replayed: 0, keyTaken: 0, finished: false });
    out.note(`This would ${doing}. Nothing was done.`);
    return all ? EXIT.ok : EXIT.failed;
  }
  const ask = args.length === 0 || given.flag('completed');
  if (ask && !(await confirmed(call, doing))) return EXIT.failed;
  const { moved, keyTaken, finished, error } = await everyBatch(call, counts, total, batch);
  if (out.json) await out.value({ matched: total, replayed: moved, keyTaken, finished });
  else await out.line(`${moved.toLocaleString('en')} replayed`);
  if (error) throw new Partly(error, soFar(moved, 'replayed'));
  if (keyTaken > 0)
    out.note(`${many(keyTaken, 'job')} stayed: the idempotency key stands for another job now.`);
  if (!finished) out.note('Interrupted. The same command goes on with the rest.');
  if (!finished) return EXIT.interrupted;
  return all && (args.length === 0 || moved === total) ? EXIT.ok : EXIT.failed;
}

async function everyBatch(
  { session, given, out, signal }: Call,
  counts: ReadonlyMap<string, Which>,
  total: number,
  batch: number,
): Promise<ReplayStep & { readonly error?: unknown }> {
  const progress = new Progress(out, total);
  const sum = { found: 0, moved: 0, keyTaken: 0 };
  let finished = true;
  for (const [queue, which] of counts) {
    const filter = Array.isArray(which) ? null : which;
    const work: ReplayWork = {
      ...{ pool: session.pool, read: (ask) => session.read(ask), names: session.names(queue) },
      ...{ which, batch, signal, completed: given.flag('completed') },
      repeatEffects: given.flag('repeat-effects'),
      record: recordOf({ act: 'replay', queue, filter }, actOptions(given)),
    };
    const before = { ...sum };
    finished = false;
    try {
      for await (const step of replaying(work)) {
        sum.found = before.found + step.found;
        sum.moved = before.moved + step.moved;
        sum.keyTaken = before.keyTaken + step.keyTaken;
        finished = step.finished;
        progress.update(sum.found);
      }
    } catch (error) {
      progress.end();
      return { ...sum, finished: false, error };
    }
    if (!finished) break;
  }
  progress.end();
  return { ...sum, finished };
}
