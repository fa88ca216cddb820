/**
 * Since when the oldest due job waits, at a backlog too large to read.
 *
 * A queue that is read by time has its jobs in that order: the first that is not running is the answer, and it
 * is exact. A queue that is read by key has no index in due order. Two samples are read there, the first
 * jobs by id, which is by age, and the heads of the first keys, which are spread over all ages; the older of
 * both is near the truth, and never older than it. Where keys take turns the first jobs by id have to do.
 */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { statement } from '../../postgres/statement.js';
import { instant } from '../reading/columns.js';

const BY_AGE = 10_000;
/** So many are read to find them among dead letters, which stay for long. */
const WITH_DEAD = 100_000;
const KEYS = 2_000;

export const oldestByTime = statement({
  name: 'oldest_by_time',
  text: `
SELECT min(o.available_at) AS oldest_due
FROM (
  SELECT first.available_at
  FROM generate_series(1, 4) AS p(priority)
  CROSS JOIN LATERAL (
    SELECT i.available_at FROM holdfast.inbox AS i
    WHERE i.priority = p.priority::smallint AND i.available_at <= now() AND i.crashes < 2
      AND i.status = 'pending'
    ORDER BY i.available_at, i.position LIMIT 1
  ) AS first
  UNION ALL
  -- Suspects are not in the index that claims read.
  SELECT s.available_at FROM holdfast.inbox AS s
  WHERE s.crashes > 1 AND s.status = 'pending' AND s.available_at <= now()
) AS o`,
  columns: { oldest_due: instant },
});

const HEAD = (after: string) => `
      SELECT i.partition_bucket, i.partition_key COLLATE "C" AS key, i.status, i.available_at
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
SELECT min(o.available_at) AS oldest_due
FROM (
  (SELECT h.status, h.available_at FROM head AS h LIMIT ${KEYS})
  UNION ALL
  (SELECT i.status, i.available_at
   FROM (SELECT * FROM holdfast.inbox ORDER BY id LIMIT ${WITH_DEAD}) AS i
   WHERE i.status <> 'dead_letter' LIMIT ${BY_AGE})
) AS o
WHERE o.status = 'pending' AND o.available_at <= now()`,
  columns: { oldest_due: instant },
});

/** Null: nothing is due. */
export async function oldestDue(
  db: Executor,
  names: Names,
  keyed: boolean,
): Promise<string | null> {
  const [row] = await db.run(keyed ? oldestByKey : oldestByTime, names, []);
  return row?.oldestDue ?? null;
}
