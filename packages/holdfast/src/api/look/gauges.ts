/**
 * The figures of a scrape, with limits that fit into a scrape: the server says what is locked or slow before the scrape's
 * own time is over, so it is not taken for a database that is away. What could not be read is left out and named, in the
 * figures and in the log, where the same is said once in ten minutes.
 */
import type pg from 'pg';
import { findStopped, STOP_LIMITS } from '../../inspect/explain/stopped.js';
import { findUnhandled } from '../../inspect/fleet/unhandled.js';
import { listWorkers } from '../../inspect/fleet/workers.js';
import { lagOf } from '../../inspect/projections/lag.js';
import {
  type BasicGauges,
  type Gauges,
  type QueueGauges,
  type RunGauges,
  readGauges,
  type UnhandledJobs,
  type UnreadQueue,
} from '../../inspect/queue/gauges.js';
import { isDenied } from '../../inspect/queue/overview.js';
import { listQueues } from '../../inspect/queue/queues.js';
import { type Part, READING, reading } from '../../inspect/reading/reading.js';
import { grantTexts, type MissingGrant, rightsOf } from '../../inspect/reading/rights.js';
import { runCounts } from '../../inspect/run/counts.js';
import { withTransaction } from '../../postgres/connect/pool.js';
import { isOutage } from '../../postgres/connect/transient.js';
import type { Logger } from '../../postgres/log/log.js';
import { type Executor, engineExecutor } from '../../postgres/queryable.js';
import { ringOwner } from './ring.js';

const LIMITS = { lockMs: 500, limitMs: 4_000 } as const;
const AGAIN_MS = 600_000;
/** Of one queue, for its unhandled jobs: dead rows may lie at its front. */
const UNHANDLED_MS = 1_000;
/** Not before a job has been due for so long; a deploy may bring its worker. */
const GRACE_MS = 10_000;
/** Messages may differ by their numbers; beyond this the record begins anew. */
const MAX_SAID = 100;
const NOTHING: BasicGauges = {
  ...{ waiting: [], limits: [], queues: [], unread: [], workers: null, oldestHeartbeatMs: null },
};

type Basic = Omit<Gauges, 'unhandled' | 'runs' | 'projections'> & {
  /** They have no row: nothing more is asked of them. */
  readonly empty: ReadonlySet<string>;
};

/** Each call reads anew. */
export function gaugesReader(
  pool: () => pg.Pool,
  schema: string,
  log: Logger,
): () => Promise<Gauges> {
  const saidAt = new Map<string, number>();
  const missing = grantNamer(pool, schema, log);

  function say(queue: string | null, error: unknown): void {
    const code = String((error as { code?: unknown } | null)?.code ?? '');
    const key = `${queue} ${code}`;
    if (performance.now() - (saidAt.get(key) ?? Number.NEGATIVE_INFINITY) < AGAIN_MS) return;
    if (saidAt.size >= MAX_SAID) saidAt.clear();
    saidAt.set(key, performance.now());
    const err = error instanceof Error ? error.message : String(error);
    const facts = queue === null ? { code, err } : { queue, code, err };
    log.warn({ ...facts }, 'the gauges of the queues could not be read for a scrape');
  }

  const read = (barred: readonly MissingGrant[]) =>
    reading(pool(), (db, part) => readGauges(db, schema, part, barred), { schema, ...LIMITS });

  async function basic(): Promise<Basic> {
    try {
      const gauges = await read([]);
      const denied = gauges.unread.find(({ error }) => isDenied(error));
      return { ...gauges, missingGrants: denied ? await missing(denied.error) : [] };
    } catch (error) {
      if (!isDenied(error)) throw error;
      const missingGrants = await missing(error);
      // Outside the schema there is nothing to see.
      if (missingGrants.some(({ table }) => table === ''))
        return { ...NOTHING, missingGrants, empty: new Set() };
      return { ...(await read(missingGrants)), missingGrants };
    }
  }

  /** Of little use to most, so they do not spoil the rest of a scrape. */
  const projectionLags = () =>
    reading(pool(), (db) => lagOf(db, { schema, queue: 'inbox' }, null), {
      schema,
      ...LIMITS,
    }).catch((error) => {
      if (isOutage(error)) throw error;
      if (!isDenied(error)) say(null, error);
      return [];
    });

  return async () => {
    try {
      const { empty, ...gauges } = await basic();
      const readable = gauges.queues.map(({ queue }) => queue).filter((name) => !empty.has(name));
      // Who handles what stands in the registry.
      const { unhandled, unread } =
        gauges.workers === null
          ? { unhandled: [], unread: [] }
          : await unhandledJobs(pool(), schema, readable);
      const { runs, unread: unreadRuns } =
        gauges.workers === null
          ? { runs: [], unread: [] }
          : await runGauges(pool(), schema, readable);
      const { queues, unread: unreadStops } =
        gauges.workers === null
          ? { queues: gauges.queues, unread: [] }
          : await withStops(pool(), schema, gauges.queues);
      const all = [...gauges.unread, ...unread, ...unreadRuns, ...unreadStops];
      for (const { queue, error } of all) if (!isDenied(error)) say(queue, error);
      const projections = await projectionLags();
      return { ...gauges, queues, unhandled, runs, projections, unread: all };
    } catch (error) {
      say(null, error);
      throw error;
    }
  };
}

/** Names the grants that are missing, in the log too. Rejects with `denied` if no grant is missing: then something else was refused. */
function grantNamer(
  pool: () => pg.Pool,
  schema: string,
  log: Logger,
): (denied: unknown) => Promise<readonly MissingGrant[]> {
  let said = '';
  let saidAt = 0;
  return async (denied) => {
    const rights = await reading(pool(), (db) => rightsOf(db, schema, 'viewer'));
    if (rights.missing.length === 0) throw denied;
    const grants = grantTexts(schema, rights);
    const now = performance.now();
    if (grants.join() !== said || now - saidAt >= AGAIN_MS) {
      [said, saidAt] = [grants.join(), now];
      log.warn({ user: rights.user, grants }, 'grants are missing, so metrics are incomplete');
    }
    return rights.missing;
  };
}

/** Runs of workflows, of all queues. */
function runGauges(pool: pg.Pool, schema: string, queues: readonly string[]) {
  const work = async (db: Executor, part: Part) => {
    const runs: RunGauges[] = [];
    const unread: UnreadQueue[] = [];
    for (const queue of queues) {
      try {
        const found = await part(() => runCounts(db, { schema, queue }));
        runs.push(...found.map((one) => ({ queue, ...one })));
      } catch (error) {
        if (isOutage(error)) throw error;
        unread.push({ queue, error: error as Error, only: 'runs' });
      }
    }
    return { runs, unread };
  };
  return reading(pool, work, { schema, ...LIMITS });
}

/** Whether due work starts: asked only of queues where a job has been due for long. */
async function withStops(pool: pg.Pool, schema: string, queues: readonly QueueGauges[]) {
  const late = queues.filter(({ oldestPendingMs }) => oldestPendingMs > STOP_LIMITS.stoppedMs);
  const unread: UnreadQueue[] = [];
  if (late.length === 0) return { queues, unread };
  const work = async (db: Executor, part: Part) => {
    const stops = new Map<string, number>();
    const workers = await listWorkers(db, schema, { withDead: true });
    for (const queue of await listQueues(db, schema)) {
      if (!late.some((one) => one.queue === queue.name)) continue;
      try {
        const found = await part(() => findStopped(db, schema, { queue, workers, ringOwner }));
        stops.set(queue.name, Math.max(0, ...found.map(({ dueMs }) => dueMs)));
      } catch (error) {
        if (isOutage(error)) throw error;
        unread.push({ queue: queue.name, error: error as Error, only: 'stopped' });
      }
    }
    return stops;
  };
  const stops = await reading(pool, work, { schema, ...LIMITS });
  const marked = queues.map((one) => ({ ...one, stoppedMs: stops.get(one.queue) ?? 0 }));
  return { queues: marked, unread };
}

/** Due jobs that nobody handles, of all queues. A queue that takes too long, or cannot be read, is named. */
export async function unhandledJobs(
  pool: pg.Pool,
  schema: string,
  readable: readonly string[],
): Promise<{ unhandled: UnhandledJobs[]; unread: UnreadQueue[] }> {
  const begin = `${READING}; SET LOCAL statement_timeout = ${UNHANDLED_MS}`;
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
