/**
 * The figures of a scrape, with limits that fit into a scrape: what is locked or slow is answered by the server as such
 * before the scrape's own time is over, and so is not taken for a database that is away. What could not be read is
 * left out and named, in the figures and in the log, where the same is said once in ten minutes.
 */
import type pg from 'pg';
import { type BasicGauges, type Gauges, readGauges } from '../../inspect/queue/gauges.js';
import { isDenied } from '../../inspect/queue/overview.js';
import { reading } from '../../inspect/reading/reading.js';
import type { MissingGrant } from '../../inspect/reading/rights.js';
import type { Logger } from '../../postgres/log/log.js';
import { grantNamer } from './missing-grants.js';
import { unhandledJobs } from './unhandled.js';

const LIMITS = { lockMs: 500, limitMs: 4_000 } as const;
const AGAIN_MS = 600_000;
/** Messages may differ by their numbers; beyond this the record begins anew. */
const MAX_SAID = 100;
const NOTHING: BasicGauges = {
  ...{ waiting: [], limits: [], queues: [], unread: [], workers: null, oldestHeartbeatMs: null },
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

  async function basic(): Promise<Omit<Gauges, 'unhandled'>> {
    try {
      const gauges = await read([]);
      const denied = gauges.unread.find(({ error }) => isDenied(error));
      return { ...gauges, missingGrants: denied ? await missing(denied.error) : [] };
    } catch (error) {
      if (!isDenied(error)) throw error;
      const missingGrants = await missing(error);
      // Outside the schema there is nothing to see.
      if (missingGrants.some(({ table }) => table === '')) return { ...NOTHING, missingGrants };
      return { ...(await read(missingGrants)), missingGrants };
    }
  }

  return async () => {
    try {
      const gauges = await basic();
      const readable = gauges.queues.map(({ queue }) => queue);
      // Who handles what stands in the registry.
      const { unhandled, unread } =
        gauges.workers === null
          ? { unhandled: [], unread: [] }
          : await unhandledJobs(pool(), schema, readable);
      const all = [...gauges.unread, ...unread];
      for (const { queue, error } of all) if (!isDenied(error)) say(queue, error);
      return { ...gauges, unhandled, unread: all };
    } catch (error) {
      say(null, error);
      throw error;
    }
  };
}
