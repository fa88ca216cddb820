/**
 * `holdfast archive replay`: cancelled and discarded jobs run again, by id or by a filter; completed ones only with
 * --completed. It counts, asks, and then goes in batches that commit one by one.
 */
import { recordOf } from '../../../api/act/acts.js';
import { MAX_BATCH, replayStatuses } from '../../../api/act/archive.js';
import { finishedOf, isIds, replaying, type Which } from '../../../api/act/replay.js';
import { countFinished } from '../../../inspect/job/archive.js';
import { isEmpty } from '../../../inspect/job/filter.js';
import { many } from '../../../inspect/reading/words.js';
import { actOptions } from '../../actor.js';
import { asked, inEveryQueue, soFar } from '../../ask.js';
import { type Call, EXIT } from '../../command.js';
import { Partly, UsageError } from '../../failures.js';
import { filterOf, placeOf } from '../../parse/filters.js';
import { checkIds, countOption } from '../../parse/values.js';
import { checkNarrowed } from '../jobs/act.js';

function whichOf(call: Call): Which {
  const { args, given } = call;
  const filter = filterOf(given);
  if (args.length > 0) {
    if (!isEmpty(filter)) throw new UsageError('Give ids or a filter, not both.');
    return checkIds(args);
  }
  checkNarrowed(call, filter);
  const { statuses } = filter;
  if (statuses && placeOf(filter) !== 'archive')
    throw new UsageError(`Jobs that are ${statuses.join(', ')} are not in the archive.`);
  const completed = given.flag('completed');
  if (!completed && statuses?.includes('completed'))
    throw new UsageError('Completed jobs did their work: add --completed to run them again.');
  return { ...filter, statuses: replayStatuses(statuses, { completed }) };
}

/** By queue, which would come back, and how many in all; it says of ids that would not. */
async function countAll({ session, given, out }: Call, which: Which) {
  const completed = given.flag('completed');
  const counts = new Map<string, Which>();
  let matched = 0;
  const left = new Set(isIds(which) ? which : []);
  for (const queue of await session.queueNames(given.texts('queue'))) {
    const names = session.names(queue);
    if (!isIds(which)) {
      const count = await session.read((db) => countFinished(db, names, which));
      if (count > 0) counts.set(queue, which);
      matched += count;
      continue;
    }
    const wanted: string[] = [];
    for (const { id, status } of await finishedOf((work) => session.read(work), names, [...left])) {
      left.delete(id);
      if (completed || status !== 'completed') wanted.push(id);
      else out.note(`${id} is ${status}: add --completed to run it again.`);
    }
    if (wanted.length > 0) counts.set(queue, wanted);
    matched += wanted.length;
  }
  for (const id of left) out.note(`${id} is not in the archive.`);
  return { counts, matched };
}

export async function run(call: Call): Promise<number> {
  const { session, given, out, signal, args } = call;
  const which = whichOf(call);
  const batch = countOption(given, 'batch', 1_000);
  if (batch > MAX_BATCH) throw new UsageError(`--batch must be at most ${MAX_BATCH}.`);
  const { counts, matched } = await countAll(call, which);
  if (signal.aborted) return EXIT.interrupted;
  const all = !isIds(which) || matched === which.length;
  const where = [...counts.keys()].map((queue) => `"${queue}"`).join(', ');
  const about = {
    ...{ matched, none: 'No finished job matches', nothing: { replayed: 0, keyTaken: 0 } },
    doing: `replay ${many(matched, 'finished job')} of ${where}`,
    ask: args.length === 0 || given.flag('completed'),
  };
  const exit = await asked(call, about, all ? EXIT.ok : EXIT.failed);
  if (exit !== null) return exit;
  const { moved, keyTaken, finished, error } = await inEveryQueue(
    call,
    matched,
    counts.keys(),
    (queue) => {
      const some = counts.get(queue) as Which;
      const act = { act: 'replay', queue, filter: isIds(some) ? null : some } as const;
      return replaying({
        ...{ pool: session.pool, read: (ask) => session.read(ask), names: session.names(queue) },
        ...{ which: some, batch, signal, completed: given.flag('completed') },
        repeatEffects: given.flag('repeat-effects'),
        record: recordOf(act, actOptions(given)),
      });
    },
  );
  if (out.json) await out.value({ matched, replayed: moved, keyTaken, finished });
  else await out.line(`${moved.toLocaleString('en')} replayed`);
  if (error) throw new Partly(error, soFar(moved, 'replayed'));
  if (keyTaken > 0)
    out.note(`${many(keyTaken, 'job')} stayed: another job has the idempotency key now.`);
  if (!finished) out.note('Interrupted. The same command goes on with the rest.');
  if (!finished) return EXIT.interrupted;
  return all && (args.length === 0 || moved === matched) ? EXIT.ok : EXIT.failed;
}
