/** `holdfast archive prune --older AGE`: finished jobs that ended before then are deleted for good. */
import { pruneBatch, recordOf } from '../../../api/act/acts.js';
import { countArchivedOlder } from '../../../inspect/job/archive.js';
import { many } from '../../../inspect/reading/words.js';
import { actOptions } from '../../actor.js';
import { asked, inEveryQueue, soFar } from '../../ask.js';
import { type Call, EXIT } from '../../command.js';
import { Partly, UsageError } from '../../failures.js';
import { countOption, durationOption } from '../../parse/values.js';

const COUNTED = 5_000_000;

export async function run(call: Call): Promise<number> {
  const { given, session, out, signal, args } = call;
  const olderMs = durationOption(given, 'older');
  if (olderMs === undefined || args.length > 0)
    throw new UsageError('Write: holdfast archive prune --older AGE');
  const counts = new Map<string, number>();
  for (const queue of await session.queueNames(given.texts('queue'))) {
    const names = session.names(queue);
    const count = await session.read((db) => countArchivedOlder(db, names, olderMs, COUNTED));
    if (count > 0) counts.set(queue, count);
  }
  const matched = [...counts.values()].reduce((sum, count) => sum + count, 0);
  const least = [...counts.values()].some((count) => count >= COUNTED) ? 'at least ' : '';
  const exit = await asked(call, {
    ...{ matched, none: 'Nothing in the archive is so old', nothing: { pruned: 0 } },
    doing: `delete ${least}${many(matched, 'finished job')} from the archive for good`,
  });
  if (exit !== null) return exit;
  const limit = countOption(given, 'batch', 5_000);
  const { moved, error } = await inEveryQueue(call, matched, counts.keys(), (queue) =>
    pruning(call, queue, { olderMs, limit }),
  );
  if (error) throw new Partly(error, soFar(moved, 'pruned'));
  if (out.json) await out.value({ matched, pruned: moved, finished: !signal.aborted });
  else await out.line(`${moved.toLocaleString('en')} pruned`);
  if (signal.aborted) out.note('Interrupted; the same command goes on.');
  return signal.aborted ? EXIT.interrupted : EXIT.ok;
}

async function* pruning(
  { session, given, signal }: Call,
  queue: string,
  what: { readonly olderMs: number; readonly limit: number },
) {
  const filter = { olderMs: what.olderMs };
  const record = recordOf({ act: 'prune', queue, filter }, actOptions(given));
  let [found, moved, finished] = [0, 0, false];
  while (!finished && !signal.aborted) {
    const gone = await pruneBatch(session.pool, session.names(queue), what, record);
    found += gone.found;
    moved += gone.pruned;
    finished = gone.found < what.limit;
    yield { found, moved, finished };
  }
}
