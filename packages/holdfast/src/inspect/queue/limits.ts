/** Limits, what is used of them, and what waits under them; bounded, so `more` says that a count is a lower bound. */
import type { Limit } from '../../job/limit.js';
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import {
  bool,
  int4,
  int8,
  type Row,
  statement,
  text,
  textArray,
} from '../../postgres/statement.js';
import { type Answer, asks } from '../reading/asks.js';
import { instant } from '../reading/columns.js';
import { inLines, LINES, MAX_LINES } from '../reading/lines.js';

const ms = (expression: string) => `floor(extract(epoch FROM ${expression}) * 1000)::bigint`;

export const readLimits = asks({
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
  params: (queue: string | null) => [queue],
});

export type LimitRow = Answer<typeof readLimits>;

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

/** The rate of jobs of this type: its own, or else that of its queue. */
const RATE = (type: string) => `
    SELECT l.id, l.keyed, l.rate_burst, extract(epoch FROM l.rate_per)::double precision / l.rate_limit AS pace
    FROM holdfast.limits AS l
    WHERE l.queue = 'inbox' AND (l.type IS NULL OR l.type = ${type}) AND l.rate_limit IS NOT NULL
    ORDER BY l.type NULLS LAST LIMIT 1`;

/** `opens_at` of jobs of a type and key; NULL, or no row: a token is there, or no rate. A row of `rates` has the pace of its time. */
export const OPENS_AT = (type: string, key: string) => `
  SELECT CASE WHEN o.at > now() THEN o.at END AS opens_at
  FROM (${RATE(type)}
  ) AS l
  JOIN holdfast.rates AS r ON r.limit_id = l.id AND r.key = CASE WHEN l.keyed THEN coalesce(${key}, '') ELSE '' END
  CROSS JOIN LATERAL (
    SELECT now() + (least(315360000, extract(epoch FROM r.started_tat - now())::double precision
      * l.pace / coalesce(r.pace, l.pace)) - (l.rate_burst - 1) * l.pace) * interval '1 second' AS at
  ) AS o`;

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

/** What is used of each limit of the queue, by type; null is the limit of the queue. */
export async function limitStates(db: Executor, names: Names) {
  const rows = await db.run(readLimitStates, names, []);
  return new Map(rows.map((row) => [row.type, row]));
}

/** Of each line, and of all of them together. */
const MAX_OF_LINE = 10_000;
const MAX_READ = 100_000;

const ARRIVED = `count(*) FILTER (WHERE r.available_at > now() - interval '1 minute')`;

const COLUMNS = {
  type: text,
  /** The key of its rate. */
  limit_key: text.orNull,
  jobs: int8,
  /** Those of them that became due in the last minute. */
  arrived: int8,
  /** Null: a token is there now, or there is no rate. */
  opens_at: instant,
  more: bool,
};

const OPENING = `LEFT JOIN LATERAL (${OPENS_AT('d.type', 'd.limit_key')}
) AS o ON true`;

/** $1: the types; NULL for all. */
export const countDue = statement({
  name: 'limit_due',
  text: `
WITH RECURSIVE ${LINES}
SELECT d.type, d.limit_key, d.jobs, d.arrived, o.opens_at, d.most >= ${MAX_OF_LINE}
  OR d.total >= ${MAX_READ} OR d.limit_key IS NOT NULL AND (SELECT count(*) FROM key_lines) >= ${MAX_LINES} AS more
FROM (
  SELECT p.type, p.limit_key, sum(p.jobs)::bigint AS jobs, sum(p.arrived)::bigint AS arrived, max(p.jobs) AS most, sum(sum(p.jobs)) OVER () AS total
  FROM (
    SELECT r.type, r.limit_key, r.version, r.priority, count(*) AS jobs, ${ARRIVED} AS arrived
    FROM (
      SELECT * FROM (${inLines({
        columns: 'i.type, i.limit_key, i.version, i.priority, i.available_at',
        which: '($1::text[] IS NULL OR l.type = ANY ($1::text[]))',
        ...{ when: 'i.available_at <= now()', but: `i.status = 'pending'`, most: `${MAX_OF_LINE}` },
      })}
      ) AS r LIMIT ${MAX_READ}
    ) AS r
    GROUP BY r.type, r.limit_key, r.version, r.priority
  ) AS p
  GROUP BY p.type, p.limit_key
) AS d
${OPENING}
ORDER BY d.jobs DESC, d.type, d.limit_key`,
  columns: COLUMNS,
});

/** A queue that is read by key has no index in due order: the first jobs by id are read. */
export const countDueByKey = statement({
  name: 'limit_due_by_key',
  text: `
SELECT d.type, d.limit_key, d.jobs, d.arrived, o.opens_at, (d.total >= ${MAX_OF_LINE}) AS more
FROM (
  SELECT r.type, r.limit_key, count(*) FILTER (WHERE r.status = 'pending' AND r.available_at <= now()) AS jobs,
    count(*) FILTER (WHERE r.status = 'pending' AND r.available_at <= now() AND r.available_at > now() - interval '1 minute') AS arrived,
    sum(count(*)) OVER () AS total
  FROM (
    SELECT i.type, i.limit_key, i.status, i.available_at FROM holdfast.inbox AS i ORDER BY i.id LIMIT ${MAX_OF_LINE}
  ) AS r
  WHERE $1::text[] IS NULL OR r.type = ANY ($1::text[])
  GROUP BY r.type, r.limit_key
) AS d
${OPENING}
WHERE d.jobs > 0
ORDER BY d.jobs DESC, d.type, d.limit_key`,
  columns: COLUMNS,
});

export type DueLine = Row<typeof COLUMNS>;

/** Due jobs that a limit of the queue holds for, most first. `rows`: the limits of this queue. */
export async function dueUnder(
  db: Executor,
  names: Names,
  rows: readonly Pick<LimitRow, 'type'>[],
  keyed: boolean,
): Promise<DueLine[]> {
  if (rows.length === 0) return [];
  const types = rows.flatMap(({ type }) => type ?? []);
  const all = types.length < rows.length;
  return db.run(keyed ? countDueByKey : countDue, names, [all ? null : textArray(types)]);
}

/** Those that this limit holds for. `rate`: that its rate holds for: one of a queue is for types without their own. */
export function dueOf(
  { type }: Pick<LimitRow, 'type'>,
  lines: readonly DueLine[],
  rate?: readonly Pick<LimitRow, 'type' | 'rateLimit'>[],
): DueLine[] {
  if (type !== null) return lines.filter((line) => line.type === type);
  const own = new Set(rate?.flatMap((row) => (row.rateLimit === null ? [] : [row.type])));
  return lines.filter((line) => !own.has(line.type));
}

export const jobsOf = (lines: readonly DueLine[]) => lines.reduce((sum, { jobs }) => sum + jobs, 0);

/** How long the line under a rate is. */
export interface RateLine {
  /** Until it is empty, if nothing more comes. */
  readonly emptyInMs: number;
  /** In the last minute more jobs became due than the rate lets start. */
  readonly grows: boolean;
  readonly arrived: number;
}

/** `lines`: those that the rate holds for. Null: there is no rate, or nothing waits. */
export function rateLine(row: LimitRow, lines: readonly DueLine[]): RateLine | null {
  const { rateLimit, ratePerMs, keyed } = row;
  if (rateLimit === null || ratePerMs === null || lines.length === 0) return null;
  const pace = ratePerMs / rateLimit;
  const sum = (of: (line: DueLine) => number) => lines.reduce((all, line) => all + of(line), 0);
  // Each key has the rate for itself.
  const longest = keyed ? Math.max(...lines.map(({ jobs }) => jobs)) : jobsOf(lines);
  const arrived = keyed
    ? Math.max(...lines.map((line) => line.arrived))
    : sum((line) => line.arrived);
  // Of a line that was not read to its end the newest jobs are not known.
  const isRead = lines.every(({ more }) => !more);
  return {
    emptyInMs: Math.round(longest * pace),
    grows: isRead && arrived * pace > 60_000,
    arrived,
  };
}
