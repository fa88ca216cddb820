/**
 * In which other queue a job is. An id is that of one job in all queues, so who names no queue means the one that
 * has the job. `inbox` is asked first, by the call itself; this is asked for what it does not have.
 */
import { outcomesOf } from '../inspect/outcomes.js';
import { listQueues } from '../inspect/queues.js';
import { isDenied } from '../inspect/readable.js';
import { type Access, ask } from './access.js';

/** By queue. An id that none has, or that is in a queue which this user may not read, is not there. */
export async function findJobs(
  access: Access,
  ids: readonly string[],
): Promise<Map<string, string[]>> {
  const found = new Map<string, string[]>();
  if (ids.length === 0) return found;
  const { schema } = access;
  const queues = await allowed(ask(access, (db) => listQueues(db, schema)));
  let left = ids.map((id) => id.toLowerCase());
  for (const { name: queue } of queues) {
    if (queue === 'inbox' || left.length === 0) continue;
    const rows = await allowed(ask(access, (db) => outcomesOf(db, { schema, queue }, left)));
    const here = new Set(rows.filter(({ status }) => status !== null).map(({ id }) => id));
    if (here.size > 0) found.set(queue, [...here]);
    left = left.filter((id) => !here.has(id));
  }
  return found;
}

async function allowed<Row>(rows: Promise<Row[]>): Promise<Row[]> {
  try {
    return await rows;
  } catch (error) {
    if (isDenied(error)) return [];
    throw error;
  }
}
