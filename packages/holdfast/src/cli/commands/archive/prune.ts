/** `holdfast archive prune --older AGE`: finished jobs that ended before then are deleted for good. */
import { pruneBatch, recordOf } from '../../../api/act/acts.js';
import { countArchivedOlder } from '../../../inspect/job/archive.js';
import { many } from '../../../inspect/reading/words.js';
import { durationMs } from '../../../job/options/duration.js';
import { actOptions } from '../../actor.js';
import { confirmed } from '../../ask/confirm.js';
import { soFar } from '../../ask/many.js';
import { type Call, EXIT } from '../../command.js';
import { Partly, UsageError } from '../../failures.js';
import { countOption } from '../../parse/filters.js';
import { Progress } from '../../print/progress.js';

const COUNTED = 5_000_000;

export async function run(call: Call): Promise<number> {
  const { given, session, out, signal, args } = call;
  const older = given.text('older');
  if (!older || args.length > 0) throw new UsageError('Write: holdfast archive prune --older AGE');
  const olderMs = durationMs(older, '--older');
  const queues = (await session.queues(given.texts('queue'))).map((queue) => queue.name);
  const counts = new Map<string, number>();
  for (const queue of queues) {
    const names = session.names(queue);
    counts.set(queue, await session.read((db) => countArchivedOlder(db, names, olderMs, COUNTED)));
  }
  const total = [...counts.values()].reduce((sum, count) => sum + count, 0);
  if (total === 0) {
    if (out.json) await out.value({ matched: 0, pruned: 0, finished: true });
    out.note('Nothing in the archive is so old; nothing was done.');
    return EXIT.ok;
  }
  const least = [...counts.values()].some((count) => count >= COUNTED) ? 'at least ' : '';
  const doing = `delete ${least}${many(total, 'finished job')} from the archive for good`;
  if (given.flag('dry-run')) {
    if (out.json) await out.value({ matched: total, pruned: 0, finished: false });
    out.note(`This would ${doing}. Nothing was done.`);
    return EXIT.ok;
  }
  if (!(await confirmed(call, doing))) return EXIT.failed;
  const progress = new Progress(out, total);
  const batch = countOption(given, 'batch', 5_000);
  let pruned = 0;
  for (const queue of queues.filter((name) => counts.get(name))) {
    const record = recordOf({ act: 'prune', queue, filter: { olderMs } }, actOptions(given));
    const what = { olderMs, limit: batch };
    const next = () =>
      pruneBatch(session.pool, session.names(queue), what, record).catch((error) => {
        progress.end();
        throw new Partly(error, soFar(pruned, 'pruned'));
      });
    for (let found = batch; found === batch && !signal.aborted; ) {
      const gone = await next();
      found = gone.found;
      pruned += gone.pruned;
      progress.update(pruned);
    }
  }
  progress.end();
  if (out.json) await out.value({ matched: total, pruned, finished: !signal.aborted });
  else await out.line(`${pruned.toLocaleString('en')} pruned`);
  if (signal.aborted) out.note('Interrupted; the same command goes on.');
  return signal.aborted ? EXIT.interrupted : EXIT.ok;
}
