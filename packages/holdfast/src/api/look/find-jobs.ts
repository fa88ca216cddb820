/**
 * In which other queue a job is: an id is that of one job in all queues. The call itself asks `inbox` first. And the error
 * for an id that nobody knows.
 */
import { unknown } from '../../inspect/explain/outcomes.js';
import { traceOf } from '../../inspect/job/show.js';
import { readableQueues, statesOf } from '../../inspect/job/states.js';
import { isDenied } from '../../inspect/queue/overview.js';
import { listQueues } from '../../inspect/queue/queues.js';
import { databaseNow } from '../../inspect/reading/reading.js';
import { HoldfastError } from '../../job/errors/holdfast-error.js';
import { type Executor, executor, type Transaction } from '../../postgres/queryable.js';
import { type Access, ask } from '../access.js';

/**
 * By queue. An id that none has, or that is in a queue which this user may not read, is not there. With a transaction all
 * is asked in it: it sees what it has written itself, and there may be no second connection.
 */
export async function findJobs(
  access: Access,
  ids: readonly string[],
  tx?: Transaction,
): Promise<Map<string, string[]>> {
  const found = new Map<string, string[]>();
  if (ids.length === 0) return found;
  const { schema } = access;
  const run = <Value>(work: (db: Executor) => Promise<Value>) =>
    tx ? work(executor(tx)) : ask(access, work);
  const queues = await run((db) => readableQueues(db, schema)).catch(noneIfDenied);
  let left = ids.map((id) => id.toLowerCase());
  for (const queue of queues) {
    if (queue === 'inbox' || left.length === 0) continue;
    const rows = await run((db) => statesOf(db, { schema, queue }, left));
    const here = new Set(rows.map(({ id }) => id));
    if (here.size > 0) found.set(queue, [...here]);
    left = left.filter((id) => !here.has(id));
  }
  return found;
}

function noneIfDenied(error: unknown): string[] {
  if (isDenied(error)) return [];
  throw error;
}

/**
 * It says whether the job was pruned or never there, as far as that is known. `queue` is the one that was named; null: all
 * of them were asked.
 */
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
