/**
 * What waits for limits: for a slot of a rate, by type and key, and among the due jobs those that stand first. Both read
 * a bounded number of rows in the order of an index, so they cost the same at any backlog; `more` says that the bound
 * was met and that the counts are lower bounds.
 */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { int8, type Row, statement, text } from '../postgres/statement.js';
import { moment } from './columns.js';

const MAX_READ = 10_000;

export const listSlots = statement({
  name: 'limit_slots',
  text: `
SELECT r.type, r.limit_key, count(*) AS read,
  count(*) FILTER (WHERE r.waits) AS jobs,
  min(r.limit_slot) AS next_slot, max(r.limit_slot) AS last_slot
FROM (
  -- A job keeps its slot while it runs and when it failed; then it waits for something else.
  SELECT i.type, i.limit_key, i.limit_slot, i.limit_slot = i.available_at AND i.status = 'pending' AS waits
  FROM holdfast.inbox AS i
  WHERE i.limit_slot IS NOT NULL
  ORDER BY i.limit_slot
  LIMIT $1::integer
) AS r
GROUP BY r.type, r.limit_key, r.waits
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
  const read = rows.reduce((sum, row) => sum + row.read, 0);
  return { lines: rows.filter(({ jobs }) => jobs > 0), more: read >= MAX_READ };
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

/** By type, of the due jobs of each priority that were due first. Of a queue that is read by time. */
export async function dueFirst(
  db: Executor,
  names: Names,
): Promise<Lines<Row<typeof countDueFirst.columns>>> {
  const lines = await db.run(countDueFirst, names, [MAX_READ]);
  return { lines, more: lines.reduce((sum, { jobs }) => sum + jobs, 0) >= MAX_READ };
}
