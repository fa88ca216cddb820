/**
 * What a queue that is read by time has claimed before a job: older jobs of its priority, and all due jobs of a more urgent
 * one. Claims do not read lines of types that are paused, at a limit, or not handled by a worker that could run it.
 *
 * A bounded number of rows is read. What lies beyond is not counted, and said.
 */
import type { Names } from '../../../postgres/names.js';
import type { Executor } from '../../../postgres/queryable.js';
import { int8, type Row, statement } from '../../../postgres/statement.js';
import type { Versions } from '../../fleet/workers.js';
import type { ShownJob } from '../../job/show.js';
import { inLines, LINES } from '../../reading/lines.js';

/** Of its priority, and of those before it, so many rows are read. */
export const MAX_AHEAD = 10_000;

/** $4: by type, the newest version that one of its workers handles. */
const COUNTS = (which: string, when: string) => `
  SELECT count(*) FILTER (WHERE r.status = 'pending' AND r.version <= ($4::text::jsonb ->> r.type)::integer) AS jobs,
    count(*) AS rows
  FROM (
    SELECT * FROM (${inLines({
      columns: 'i.status, i.type, i.version',
      which: `${which} AND l.version <= ($4::text::jsonb ->> l.type)::integer`,
      ...{ when, most: `${MAX_AHEAD}` },
    })}
    ) AS r LIMIT ${MAX_AHEAD}
  ) AS r`;

export const countAhead = statement({
  name: 'explain_ahead',
  text: `
WITH RECURSIVE ${LINES}
SELECT o.jobs AS older, o.rows AS older_read, u.jobs AS more_urgent, u.rows AS more_urgent_read
FROM (${COUNTS('l.priority = $1::smallint', '(i.available_at, i.position) < ($2::timestamptz, $3::bigint)')}
) AS o
CROSS JOIN (${COUNTS('l.priority < $1::smallint', 'i.available_at <= now()')}
) AS u`,
  columns: { older: int8, older_read: int8, more_urgent: int8, more_urgent_read: int8 },
});

export type Ahead = Row<typeof countAhead.columns>;

/** `versions`: what the workers handle that can run it, but for types that they do not claim now. */
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
