/**
 * What waits for limits: for a slot of a rate, by type and key, and among the due jobs those that stand first. Both read
 * a bounded number of rows of a type or a priority in the order of an index, so they cost the same at any backlog;
 * `more` says that the bound was met and that the counts are lower bounds.
 */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { int8, type Row, statement, text } from '../../postgres/statement.js';
import { moment } from '../reading/columns.js';

const MAX_READ = 10_000;

export const listSlots = statement({
  name: 'limit_slots',
  text: `
WITH RECURSIVE types AS (
  -- The index is by type: from one to the next.
  (SELECT i.type FROM holdfast.inbox AS i WHERE i.limit_slot IS NOT NULL ORDER BY i.type LIMIT 1)
  UNION ALL
  SELECT (SELECT i.type FROM holdfast.inbox AS i
    WHERE i.limit_slot IS NOT NULL AND i.type > t.type ORDER BY i.type LIMIT 1)
  FROM types AS t
  WHERE t.type IS NOT NULL
)
SELECT t.type, r.limit_key, count(*) AS read,
  count(*) FILTER (WHERE r.waits) AS jobs,
  min(r.limit_slot) AS next_slot, max(r.limit_slot) AS last_slot
FROM types AS t
CROSS JOIN LATERAL (
  -- A job keeps its slot while it runs and when it failed; then it waits for something else.
  SELECT i.limit_key, i.limit_slot, i.limit_slot = i.available_at AND i.status = 'pending' AS waits
  FROM holdfast.inbox AS i
  WHERE i.type = t.type AND i.limit_slot IS NOT NULL
  ORDER BY i.limit_slot
  LIMIT $1::integer
) AS r
GROUP BY t.type, r.limit_key, r.waits
ORDER BY count(*) FILTER (WHERE r.waits) DESC, min(r.limit_slot)`,
  columns: {
    type: text,
    limit_key: text.orNull,
    /** Also those that do not wait for it. */
    read: int8,
    jobs: int8,
    next_slot: moment,
    last_slot: moment,
  },
});

export type SlotRow = Row<typeof listSlots.columns>;

export interface Lines<Line> {
  readonly lines: readonly Line[];
  /** There are more than were read. */
  readonly more: boolean;
}

/** Jobs that wait for a slot, by type and key of the rate, most first. */
export async function slotLines(db: Executor, names: Names): Promise<Lines<SlotRow>> {
  const rows = await db.run(listSlots, names, [MAX_READ]);
  const read = new Map<string, number>();
  for (const row of rows) read.set(row.type, (read.get(row.type) ?? 0) + row.read);
  const more = [...read.values()].some((count) => count >= MAX_READ);
  return { lines: rows.filter(({ jobs }) => jobs > 0), more };
}

export const countDueFirst = statement({
  name: 'limit_due',
  text: `
SELECT d.type, count(*) AS jobs
FROM generate_series(1, 4) AS p(priority)
CROSS JOIN LATERAL (
  SELECT i.type FROM holdfast.inbox AS i
  WHERE i.priority = p.priority::smallint AND i.available_at <= now() AND i.crashes < 2
    AND i.status = 'pending'
  ORDER BY i.available_at, i.position
  LIMIT $1::integer
) AS d
GROUP BY d.type`,
  columns: { type: text, jobs: int8 },
});

export const countDueByKey = statement({
  name: 'limit_due_by_key',
  text: `
SELECT d.type, count(*) AS read,
  count(*) FILTER (WHERE d.status = 'pending' AND d.available_at <= now()) AS jobs
FROM (
  SELECT i.type, i.status, i.available_at FROM holdfast.inbox AS i ORDER BY i.id LIMIT $1::integer
) AS d
GROUP BY d.type`,
  columns: { type: text, read: int8, jobs: int8 },
});

/**
 * By type, of the due jobs of each priority those that were due first. A queue that is read by key has no index in that
 * order: there it is of the first jobs of all.
 */
export async function dueFirst(
  db: Executor,
  names: Names,
  keyed: boolean,
): Promise<Lines<Row<typeof countDueFirst.columns>>> {
  const sum = (counts: readonly number[]) => counts.reduce((total, count) => total + count, 0);
  if (keyed) {
    const lines = await db.run(countDueByKey, names, [MAX_READ]);
    return { lines, more: sum(lines.map(({ read }) => read)) >= MAX_READ };
  }
  const lines = await db.run(countDueFirst, names, [MAX_READ]);
  return { lines, more: sum(lines.map(({ jobs }) => jobs)) >= MAX_READ };
}
