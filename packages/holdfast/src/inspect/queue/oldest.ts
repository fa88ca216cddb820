/**
 * Since when the oldest due job waits, at a backlog too large to read. By time it is the first job of each line that is not
 * running: exact, unless there are more lines of keys than are looked at. By key there is no index in due order: it is the
 * older of two samples, the first jobs by id, which is by age, and the heads of the first keys, which are spread over all
 * ages. That is near the truth, and never older than it. Where keys take turns the first jobs by id have to do.
 */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { bool, int8, statement, text } from '../../postgres/statement.js';
import { asleep } from '../../postgres/taken.js';
import { instant } from '../reading/columns.js';
import { inLines, LINES, MAX_LINES, share } from '../reading/lines.js';
import { ON_HOLD, OPEN_LINES } from '../reading/pauses.js';

const BY_AGE = 10_000;
/** So many are read to find them among dead letters, which stay for long. */
const WITH_DEAD = 100_000;
const KEYS = 2_000;

/** Behind jobs of a key that is paused it is looked for in so many. */
const BEHIND_PAUSED = 20_000;

/** The first one of a line, unless keys are paused. */
const FIRST = `CASE WHEN EXISTS (
        SELECT FROM holdfast.queues AS q WHERE q.name = 'inbox' AND q.paused_keys IS NOT NULL)
      THEN ${share(BEHIND_PAUSED)} ELSE 1 END`;

export const oldestByTime = statement({
  name: 'oldest_by_time',
  text: `
WITH RECURSIVE ${LINES}
SELECT min(o.available_at) AS oldest_due, (SELECT count(*) FROM key_lines) >= ${MAX_LINES} AS more_lines
FROM (${inLines({
    columns: 'i.available_at, i.type, i.partition_key',
    which: OPEN_LINES,
    ...{ when: 'i.available_at <= now()', but: `i.status = 'pending'`, most: FIRST },
  })}
  UNION ALL
  -- Suspects are not in the indexes that claims read.
  SELECT s.available_at, s.type, s.partition_key FROM holdfast.inbox AS s
  WHERE s.crashes > 1 AND s.status = 'pending' AND s.available_at <= now()
) AS o
CROSS JOIN holdfast.queues AS q
WHERE q.name = 'inbox' AND NOT ${ON_HOLD('o')}`,
  columns: { oldest_due: instant, more_lines: bool },
});

const HEAD = (after: string) => `
      SELECT i.partition_bucket, i.partition_key COLLATE "C" AS key, i.status, i.available_at, i.type, i.partition_key
      FROM holdfast.inbox AS i
      WHERE NOT i.parked ${after}
        AND (SELECT q.ordering <> 'turns' FROM holdfast.queues AS q WHERE q.name = 'inbox')
      ORDER BY i.partition_bucket, i.partition_key COLLATE "C", i.position LIMIT 1`;

export const oldestByKey = statement({
  name: 'oldest_by_key',
  text: `
WITH RECURSIVE head AS (
  (${HEAD('')})
  UNION ALL
  SELECT h.* FROM head CROSS JOIN LATERAL (${HEAD(`
        AND (i.partition_bucket, i.partition_key COLLATE "C") > (head.partition_bucket, head.key)`)}
  ) AS h
)
SELECT min(o.available_at) AS oldest_due, true AS more_lines
FROM (
  (SELECT h.status, h.available_at, h.type, h.partition_key FROM head AS h LIMIT ${KEYS})
  UNION ALL
  (SELECT i.status, i.available_at, i.type, i.partition_key
   FROM (SELECT * FROM holdfast.inbox ORDER BY id LIMIT ${WITH_DEAD}) AS i
   WHERE i.status <> 'dead_letter' AND NOT ${asleep('i')} LIMIT ${BY_AGE})
) AS o
CROSS JOIN holdfast.queues AS q
WHERE q.name = 'inbox' AND o.status = 'pending' AND o.available_at <= now() AND NOT ${ON_HOLD('o')}`,
  columns: { oldest_due: instant, more_lines: bool },
});

export async function oldestDue(db: Executor, names: Names, keyed: boolean) {
  const [row] = await db.run(keyed ? oldestByKey : oldestByTime, names, []);
  return { oldestDue: row?.oldestDue ?? null, oldestDueApproximate: row?.moreLines ?? keyed };
}

export const oldestDueSchedule = statement({
  name: 'oldest_due_schedule',
  text: `
SELECT floor(extract(epoch FROM statement_timestamp() - s.next_at) * 1000)::bigint AS overdue_ms
FROM holdfast.schedules AS s
WHERE s.queue = 'inbox' AND NOT s.paused AND s.next_at <= statement_timestamp()
ORDER BY s.next_at
LIMIT 1`,
  columns: { overdue_ms: int8 },
});

export const overdueSchedules = statement({
  name: 'overdue_schedules',
  text: `
SELECT s.queue, floor(extract(epoch FROM statement_timestamp() - min(s.next_at)) * 1000)::bigint AS overdue_ms
FROM holdfast.schedules AS s
WHERE NOT s.paused AND s.next_at <= statement_timestamp()
GROUP BY s.queue`,
  columns: { queue: text, overdue_ms: int8 },
});

/** The same of all queues in which one is due. */
export async function overdueByQueue(db: Executor, schema: string) {
  const rows = await db.run(overdueSchedules, { schema, queue: 'inbox' }, []);
  return new Map(rows.map(({ queue, overdueMs }) => [queue, overdueMs]));
}

/** Of the schedule that is due longest; 0 while a worker writes ticks on time. */
export async function overdueMs(db: Executor, names: Names): Promise<number> {
  const [row] = await db.run(oldestDueSchedule, names, []);
  return row?.overdueMs ?? 0;
}
