/** The error for an id that nobody knows: it says whether the job was pruned or never there, as far as that is known. */
import { databaseNow } from '../inspect/clock.js';
import { unknown } from '../inspect/explain-unknown.js';
import { listQueues } from '../inspect/queues.js';
import { traceOf } from '../inspect/trace.js';
import { HoldfastError } from '../job/errors.js';
import type { Names } from '../postgres/names.js';
import { type Access, ask } from './access.js';

export async function unknownJob(
  access: Access,
  { schema, queue }: Names,
  id: string,
): Promise<HoldfastError> {
  const reason = await ask(access, async (db) => {
    const queues = (await listQueues(db, schema)).filter(({ name }) => name === queue);
    const trace = await traceOf(db, schema, queues, id);
    return unknown({ id, queues, nowMs: await databaseNow(db, schema), trace });
  });
  return new HoldfastError(
    'JOB_UNKNOWN',
    `Job ${id} is not known: ${reason.text} Nothing was done. If it is in another queue, pass { queue }.`,
  );
}
