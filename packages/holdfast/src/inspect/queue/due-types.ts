/**
 * Which types of a queue have due jobs that nobody has paused, and since when the oldest of each waits. A bounded part is
 * read: by time the first due jobs of each line, by key the first and the last jobs by id. And when jobs of a type last
 * began, as far as the tables know: by the claims in flight, and by what has ended lately.
 */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { bool, int8, type Row, statement, text, uuid } from '../../postgres/statement.js';
import { FROM_HELD } from '../fleet/held.js';
import { inLines, LINES, share } from '../reading/lines.js';
import { ON_HOLD, OPEN_LINES } from '../reading/pauses.js';

const ROWS = 5_000;
const BY_KEY = 1_000;
/** So many are read where no index leaves out those that are not due. */
const WITH_OTHERS = 50_000;
const MAX_TYPES = 20;

const OLDEST = (due: string, lines = '') => `${lines}
SELECT d.type, count(*) AS jobs, bool_or(d.more) AS more,
  (array_agg(d.id ORDER BY d.available_at, d.id))[1] AS oldest,
  (extract(epoch FROM now() - min(d.available_at)) * 1000)::bigint AS due_ms
FROM (${due}
) AS d
CROSS JOIN holdfast.queues AS q
WHERE q.name = 'inbox' AND NOT ${ON_HOLD('d')}
GROUP BY d.type
ORDER BY due_ms DESC, d.type
LIMIT ${MAX_TYPES}`;

const COLUMNS = {
  type: text,
  /** So many were found. */
  jobs: int8,
  /** There may be more of them. */
  more: bool,
  /** The one that has been due for longest. */
  oldest: uuid,
  due_ms: int8,
};

export const dueTypesByTime = statement({
  name: 'due_types_by_time',
  text: OLDEST(
    `
  SELECT r.type, r.id, r.partition_key, r.available_at,
    count(*) OVER (PARTITION BY r.type, r.version, r.priority, r.limit_key) >= r.most AS more
  FROM (${inLines({
    columns: `i.type, i.version, i.priority, i.limit_key, i.id, i.partition_key, i.available_at, ${share(ROWS)} AS most`,
    which: OPEN_LINES,
    ...{ when: 'i.available_at <= now()', but: `i.status = 'pending'`, most: share(ROWS) },
  })}
  ) AS r
  UNION ALL
  -- Suspects are not in the indexes that claims read.
  (SELECT s.type, s.id, s.partition_key, s.available_at, false FROM holdfast.inbox AS s
   WHERE s.crashes > 1 AND s.status = 'pending' AND s.available_at <= now() LIMIT ${BY_KEY})`,
    `WITH RECURSIVE ${LINES}`,
  ),
  columns: COLUMNS,
});

const BY_ID = (order: 'ASC' | 'DESC') => `
    (SELECT i.type, i.id, i.partition_key, i.available_at
     FROM (SELECT * FROM holdfast.inbox ORDER BY id ${order} LIMIT ${WITH_OTHERS}) AS i
     WHERE i.status = 'pending' AND i.available_at <= now() LIMIT ${BY_KEY})`;

/** No index is in due order; ids are in the order of the enqueues. */
export const dueTypesByKey = statement({
  name: 'due_types_by_key',
  text: OLDEST(`
  SELECT e.*, count(*) OVER () >= ${BY_KEY} AS more
  FROM (${BY_ID('ASC')} UNION ${BY_ID('DESC')}
  ) AS e`),
  columns: COLUMNS,
});

export type DueType = Row<typeof COLUMNS>;

/** Those that have waited longest first. */
export const dueTypes = (db: Executor, names: Names, keyed: boolean): Promise<DueType[]> =>
  db.run(keyed ? dueTypesByKey : dueTypesByTime, names, []);

const MAX_ENDED = 10_000;

export const lastBegun = statement({
  name: 'last_begun',
  text: `
SELECT b.type, greatest(0, min(b.ago_ms))::bigint AS ago_ms
FROM (
  SELECT i.type, extract(epoch FROM now() - i.claimed_at) * 1000 AS ago_ms
  ${FROM_HELD('i.type, i.claimed_at')}
  UNION ALL
  SELECT a.type, extract(epoch FROM now() - a.claimed_at) * 1000
  FROM (
    SELECT a.type, a.claimed_at FROM holdfast.inbox_archive AS a
    WHERE a.completed_at > now() - $1::bigint * interval '1 millisecond' AND a.claimed_at IS NOT NULL
    LIMIT ${MAX_ENDED}
  ) AS a
) AS b
WHERE b.ago_ms IS NOT NULL
GROUP BY b.type`,
  columns: { type: text, ago_ms: int8 },
});

/** By type, how long ago a job was last claimed: of those that are held, and of those that ended within `windowMs`. */
export async function begunIn(
  db: Executor,
  names: Names,
  windowMs: number,
): Promise<Map<string, number>> {
  const rows = await db.run(lastBegun, names, [windowMs]);
  return new Map(rows.map(({ type, agoMs }) => [type, agoMs]));
}
