/**
 * What a queue that is read by time has claimed before a job: older jobs of its priority, and all due jobs of a
 * more urgent one. Only those hold it up that a worker handles which could run it; claims pass over the others.
 *
 * A bounded number of rows is read, from the front, as claims do. What lies beyond is not counted, and said.
 */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { int8, type Row, statement } from '../../postgres/statement.js';
import type { Versions } from '../fleet/workers.js';
import type { ShownJob } from '../job/show.js';

/** Of each priority so many rows are read. */
export const MAX_AHEAD = 10_000;

/** $4: by type, the newest version that one of its workers handles. */
const COUNTS = (rows: string) => `
    SELECT count(*) FILTER (WHERE r.status = 'pending'
        AND r.version <= ($4::text::jsonb ->> r.type)::integer) AS jobs,
      count(*) FILTER (WHERE r.status = 'pending') AS waiting, count(*) AS rows
    FROM (${rows}
      LIMIT ${MAX_AHEAD}) AS r`;

export const countAhead = statement({
  name: 'explain_ahead',
  text: `
SELECT o.jobs AS older, o.waiting - o.jobs AS older_passed, o.rows AS older_read,
  coalesce(u.jobs, 0)::bigint AS more_urgent, coalesce(u.waiting - u.jobs, 0)::bigint AS more_urgent_passed,
  coalesce(u.rows, 0)::bigint AS more_urgent_read
FROM (${COUNTS(`
      SELECT i.status, i.type, i.version FROM holdfast.inbox AS i
      WHERE i.priority = $1::smallint AND (i.available_at, i.position) < ($2::timestamptz, $3::bigint)
        AND i.crashes < 2
      ORDER BY i.available_at, i.position`)}
) AS o
CROSS JOIN (
  SELECT sum(d.jobs) AS jobs, sum(d.waiting) AS waiting, max(d.rows) AS rows
  FROM generate_series(1, $1::smallint - 1) AS p(priority)
  CROSS JOIN LATERAL (${COUNTS(`
      SELECT i.status, i.type, i.version FROM holdfast.inbox AS i
      WHERE i.priority = p.priority::smallint AND i.available_at <= now() AND i.crashes < 2
      ORDER BY i.available_at, i.position`)}
  ) AS d
) AS u`,
  columns: {
    older: int8,
    /** Claims pass over so many: none of its workers handles them. */
    older_passed: int8,
    older_read: int8,
    more_urgent: int8,
    more_urgent_passed: int8,
    /** Of the priority of which most was read. */
    more_urgent_read: int8,
  },
});

export type Ahead = Row<typeof countAhead.columns>;

/** `versions`: what the workers handle that can run it. */
export async function ahead(
  db: Executor,
  names: Names,
  job: ShownJob,
  versions: Versions,
): Promise<Ahead> {
  const place = [job.priority, job.runAt, job.position];
  const [row] = await db.run(countAhead, names, [...place, JSON.stringify(versions)]);
  return row as Ahead;
}
