/**
 * What waits under the limits of a queue: due jobs by type and key of a rate, and when the next of them may start. A bounded
 * number of rows is read, so it costs the same at any backlog; `more` says that a count is a lower bound.
 */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { bool, int8, type Row, statement, text, textArray } from '../../postgres/statement.js';
import { instant } from '../reading/columns.js';
import { inLines, LINES, MAX_LINES } from '../reading/lines.js';
import { OPENS_AT } from '../reading/rate.js';
import type { LimitRow } from './limits.js';

/** Of each line, and of all of them together. */
const MAX_OF_LINE = 10_000;
const MAX_READ = 100_000;

const COLUMNS = {
  type: text,
  /** The key of its rate. */
  limit_key: text.orNull,
  jobs: int8,
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
SELECT d.type, d.limit_key, d.jobs, o.opens_at, d.most >= ${MAX_OF_LINE}
  OR d.total >= ${MAX_READ} OR d.limit_key IS NOT NULL AND (SELECT count(*) FROM key_lines) >= ${MAX_LINES} AS more
FROM (
  SELECT p.type, p.limit_key, sum(p.jobs)::bigint AS jobs, max(p.jobs) AS most, sum(sum(p.jobs)) OVER () AS total
  FROM (
    SELECT r.type, r.limit_key, r.version, r.priority, count(*) AS jobs
    FROM (
      SELECT * FROM (${inLines({
        columns: 'i.type, i.limit_key, i.version, i.priority',
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
SELECT d.type, d.limit_key, d.jobs, o.opens_at, (d.total >= ${MAX_OF_LINE}) AS more
FROM (
  SELECT r.type, r.limit_key, count(*) FILTER (WHERE r.status = 'pending' AND r.available_at <= now()) AS jobs,
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
