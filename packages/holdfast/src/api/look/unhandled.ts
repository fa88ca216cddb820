/**
 * Due jobs that nobody handles, of all queues. Each queue is looked at within a limit of its own, because dead rows may
 * lie at its front; one that takes longer, or cannot be read, is named, and the next scrape looks again.
 */
import type pg from 'pg';
import { findUnhandled } from '../../inspect/fleet/unhandled.js';
import type { UnhandledJobs, UnreadQueue } from '../../inspect/queue/gauges.js';
import { listQueues } from '../../inspect/queue/queues.js';
import { READING, reading } from '../../inspect/reading/reading.js';
import { withTransaction } from '../../postgres/connect/pool.js';
import { isOutage } from '../../postgres/connect/transient.js';
import { engineExecutor } from '../../postgres/queryable.js';

/** Not before a job has been due for so long; a deploy may bring its worker. */
const GRACE_MS = 10_000;
const LIMIT_MS = 1_000;

export async function unhandledJobs(
  pool: pg.Pool,
  schema: string,
  readable: readonly string[],
): Promise<{ unhandled: UnhandledJobs[]; unread: UnreadQueue[] }> {
  const begin = `${READING}; SET LOCAL statement_timeout = ${LIMIT_MS}`;
  const unhandled: UnhandledJobs[] = [];
  const unread: UnreadQueue[] = [];
  for (const { name: queue, ordering } of await reading(pool, (db) => listQueues(db, schema))) {
    if (!readable.includes(queue)) continue;
    const how = { keyed: ordering !== 'none', graceMs: GRACE_MS };
    try {
      const types = await withTransaction(
        pool,
        (client) =>
          findUnhandled(engineExecutor(client, { prepare: false }), { schema, queue }, how),
        begin,
      );
      unhandled.push(...types.map(({ type, jobs }) => ({ queue, type, jobs })));
    } catch (error) {
      if (isOutage(error)) throw error;
      unread.push({ queue, error: error as Error, only: 'unhandled' });
    }
  }
  return { unhandled, unread };
}
