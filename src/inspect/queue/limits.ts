/** Limits as they stand, with what is used of them. Read-only. */
import type { Limit } from '../../job/limit.js';
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { bool, int4, int8, type Row, statement, text } from '../../postgres/statement.js';

const ms = (expression: string) => `floor(extract(epoch FROM ${expression}) * 1000)::bigint`;

export const listLimits = statement({
  name: 'list_limits',
  text: `
SELECT l.queue, l.type, l.concurrency::integer AS concurrency, l.rate_limit::integer AS rate_limit,
  ${ms('l.rate_per')} AS rate_per_ms, l.rate_burst::integer AS rate_burst, l.keyed,
  l.declared_concurrency::integer AS declared_concurrency, l.declared_rate_limit::integer AS declared_rate_limit,
  ${ms('l.declared_rate_per')} AS declared_rate_per_ms, l.declared_rate_burst::integer AS declared_rate_burst,
  l.overridden, ${ms('l.updated_at')} AS updated_at
FROM holdfast.limits AS l
WHERE $1::text IS NULL OR l.queue = $1::text
ORDER BY l.queue, l.type NULLS FIRST`,
  columns: {
    ...{ queue: text, type: text.orNull, concurrency: int4.orNull, rate_limit: int4.orNull },
    ...{ rate_per_ms: int8.orNull, rate_burst: int4.orNull, keyed: bool },
    ...{ declared_concurrency: int4.orNull, declared_rate_limit: int4.orNull },
    ...{ declared_rate_per_ms: int8.orNull, declared_rate_burst: int4.orNull },
    ...{ overridden: bool, updated_at: int8 },
  },
});

export type LimitRow = Row<typeof listLimits.columns>;

/** Of one queue, or of all. */
export function readLimits(db: Executor, names: Names, queue: string | null): Promise<LimitRow[]> {
  return db.run(listLimits, names, [queue]);
}

type Part = Pick<LimitRow, 'concurrency' | 'rateLimit' | 'ratePerMs' | 'rateBurst'>;

/** Null: there is none. */
function limitOf({ concurrency, rateLimit, ratePerMs, rateBurst }: Part): Limit | null {
  if (concurrency === null && rateLimit === null) return null;
  const rate = { limit: rateLimit ?? 0, perMs: ratePerMs ?? 0, burst: rateBurst ?? 0 };
  return { concurrency, rate: rateLimit === null ? null : rate };
}

export const inForce = (row: LimitRow) => limitOf(row);

export const declaredIn = (row: LimitRow) =>
  limitOf({
    concurrency: row.declaredConcurrency,
    rateLimit: row.declaredRateLimit,
    ratePerMs: row.declaredRatePerMs,
    rateBurst: row.declaredRateBurst,
  });

export const countRunning = statement({
  name: 'limit_running',
  text: `
SELECT r.type, count(*) AS jobs
FROM (SELECT DISTINCT j.id FROM holdfast.inbox_claims AS c CROSS JOIN LATERAL unnest(c.jobs) AS j(id)) AS h
-- One value for each, so that it cannot be planned as a join that reads the whole queue.
CROSS JOIN LATERAL (
  SELECT i.type FROM holdfast.inbox AS i WHERE i.id = h.id AND i.status = 'processing' LIMIT 1
) AS r
GROUP BY r.type`,
  columns: { type: text, jobs: int8 },
});

/** How many jobs of which type workers hold, as claims under a limit count them. */
export async function runningByType(
  db: Executor,
  names: Names,
): Promise<ReadonlyMap<string, number>> {
  const rows = await db.run(countRunning, names, []);
  return new Map(rows.map(({ type, jobs }) => [type, jobs]));
}

/** So many of them take places of this limit. */
export function runningOf(
  { type }: Pick<LimitRow, 'type'>,
  running: ReadonlyMap<string, number>,
): number {
  if (type !== null) return running.get(type) ?? 0;
  return [...running.values()].reduce((sum, jobs) => sum + jobs, 0);
}

/** So many of them wait for its rate: that of a queue is for those of its types that have none of their own. */
export function reservedOf(
  row: Pick<LimitRow, 'type'>,
  rows: readonly Pick<LimitRow, 'type' | 'rateLimit'>[],
  reserved: ReadonlyMap<string, number>,
): number {
  if (row.type !== null) return runningOf(row, reserved);
  const own = new Set(rows.flatMap(({ type, rateLimit }) => (rateLimit === null ? [] : [type])));
  return runningOf(row, new Map([...reserved].filter(([type]) => !own.has(type))));
}

export const countReserved = statement({
  name: 'limit_reserved',
  text: `
SELECT r.type, count(*) AS jobs
FROM (
  SELECT i.type FROM holdfast.inbox AS i
  WHERE i.limit_slot IS NOT NULL AND i.limit_slot = i.available_at AND i.status = 'pending'
  ORDER BY i.type, i.limit_slot
  LIMIT $1::integer
) AS r
GROUP BY r.type`,
  columns: { type: text, jobs: int8 },
});

/** How many jobs of which type wait for a slot of a rate; the first `most` of all are counted. */
export async function reservedByType(
  db: Executor,
  names: Names,
  most: number,
): Promise<ReadonlyMap<string, number>> {
  const rows = await db.run(countReserved, names, [most]);
  return new Map(rows.map(({ type, jobs }) => [type, jobs]));
}
