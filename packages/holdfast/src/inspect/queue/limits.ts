/** Limits as they stand, with what is used of them. Read-only. */
import type { Limit } from '../../job/limit.js';
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { bool, int4, int8, type Row, statement, text } from '../../postgres/statement.js';
import { instant } from '../reading/columns.js';
import { OPENS_AT } from '../reading/rate.js';

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

export const readLimitStates = statement({
  name: 'limit_state',
  text: `
SELECT m.type, holdfast.inbox_held(m.id, m.type, NULL) AS running, o.opens_at
FROM holdfast.limits AS m
LEFT JOIN LATERAL (${OPENS_AT('m.type', `''`)}
) AS o ON NOT m.keyed
WHERE m.queue = 'inbox'`,
  columns: {
    type: text.orNull,
    /** So many jobs hold a permit of it, as claims count them. */
    running: int8,
    /** Null: a token is there now, or there is no rate, or it has keys. */
    opens_at: instant,
  },
});

export type LimitState = Row<typeof readLimitStates.columns>;

/** What is used of each limit of the queue, by type; null is the limit of the queue. */
export async function limitStates(
  db: Executor,
  names: Names,
): Promise<ReadonlyMap<string | null, LimitState>> {
  const rows = await db.run(readLimitStates, names, []);
  return new Map(rows.map((row) => [row.type, row]));
}
