/** The error for an id that nobody knows: it says whether the job was pruned or never there, as far as that is known. */
import { unknown } from '../../inspect/explain/outcomes.js';
import { traceOf } from '../../inspect/job/show.js';
import { listQueues } from '../../inspect/queue/queues.js';
import { databaseNow } from '../../inspect/reading/reading.js';
import { HoldfastError } from '../../job/errors/errors.js';
import { type Access, ask } from '../access.js';

/** `queue` is the one that was named; null: all of them were asked. */
export async function unknownJob(
  access: Access,
  queue: string | null,
  id: string,
): Promise<HoldfastError> {
  const { schema } = access;
  const reason = await ask(access, async (db) => {
    const all = await listQueues(db, schema);
    const queues = queue === null ? all : all.filter(({ name }) => name === queue);
    const trace = await traceOf(db, schema, queues, id);
    return unknown({ id, queues, nowMs: await databaseNow(db, schema), trace });
  });
  const elsewhere = queue === null ? '' : ' If it may be in another queue, leave out { queue }.';
  return new HoldfastError(
    'JOB_UNKNOWN',
    `Job ${id} is not known: ${reason.text} Nothing was done.${elsewhere}`,
  );
}
