/** `holdfast workflows history ID`: what `hf.history()` returns, for a file that `replayHistory()` of the test kit reads. */
import { historyOf } from '../../../inspect/job/history.js';
import type { Call } from '../../command.js';
import { oneId } from '../../parse/values.js';
import { unknownRun } from './show.js';

export async function run({ args, given, session, out }: Call): Promise<void> {
  const id = oneId(args);
  const queues = await session.queueNames(given.texts('queue'));
  for (const queue of queues) {
    const names = session.names(queue);
    const found = await session.read((db) => historyOf(db, names, id), { snapshot: true });
    if (found) return out.value(found);
  }
  throw unknownRun(id, queues);
}
