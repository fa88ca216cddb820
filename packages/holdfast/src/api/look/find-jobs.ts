/**
 * In which other queue a job is. An id is that of one job in all queues, so who names no queue means the one that
 * has the job. `inbox` is asked first, by the call itself; this is asked for what it does not have.
 */
import { readableQueues, statesOf } from '../../inspect/job/states.js';
import { isDenied } from '../../inspect/queue/overview.js';
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
