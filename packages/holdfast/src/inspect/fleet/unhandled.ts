/**
 * Due jobs that no live worker handles: of an unknown type, or of a version newer than any knows. Claims pass over them, so
 * nothing else would tell. By time only the lines that nobody handles are read. Of jobs whose rate has keys, and by key, a
 * bounded part is read: the first and, by key, the last jobs. What nobody handles stays while the rest leaves, so it is
 * found at the latest when its turn would have come. Dead letters and paused jobs are passed over.
 */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { int4, int8, statement, text } from '../../postgres/statement.js';
import { inLines, LINES, share } from '../reading/lines.js';

const ROWS = 1_000;
/** So many are read where no index leaves the dead letters out. */
const WITH_DEAD = 100_000;

const BY_ID = (order: 'ASC' | 'DESC') => `
    (SELECT i.id, i.type, i.version, i.status, i.available_at, i.partition_key
     FROM (SELECT * FROM holdfast.inbox ORDER BY id ${order} LIMIT ${WITH_DEAD}) AS i
     WHERE i.status <> 'dead_letter' LIMIT ${ROWS})`;

/** `due`: rows of the queue. Of each type the newest version, an example, and how long it has been due. */
const UNHANDLED = (due: string, lines = '') => `
WITH ${lines}handled AS (
  SELECT h.type, max(h.version::integer) AS version
  FROM holdfast.workers AS w
  CROSS JOIN LATERAL jsonb_each_text(w.handles -> 'inbox') AS h(type, version)
  WHERE w.status = 'alive'
  GROUP BY h.type
)
SELECT d.type, max(d.version) AS version, min(d.id::text) AS id,
  -- A short queue is read from both ends.
  count(DISTINCT d.id) AS jobs,
  (extract(epoch FROM now() - min(d.available_at)) * 1000)::bigint AS due_for_ms
FROM (${due}) AS d
WHERE d.status = 'pending' AND d.available_at <= now() - $1::integer * interval '1 millisecond'
  AND NOT EXISTS (SELECT FROM handled AS h WHERE h.type = d.type AND h.version >= d.version)
  AND NOT EXISTS (SELECT FROM holdfast.queues AS q WHERE q.name = 'inbox'
    AND (q.paused OR d.type = ANY (q.paused_types) OR d.partition_key = ANY (q.paused_keys)))
GROUP BY d.type
ORDER BY due_for_ms DESC, d.type`;

const COLUMNS = { type: text, version: int4, id: text, jobs: int8, due_for_ms: int8 };

export const unhandledByTime = statement({
  name: 'unhandled_by_time',
  text: UNHANDLED(
    inLines({
      columns: 'i.id, i.type, i.version, i.status, i.available_at, i.partition_key',
      which: `(l.version = 0 OR NOT EXISTS (
        SELECT FROM handled AS h WHERE h.type COLLATE "C" = l.type AND h.version >= l.version))`,
      when: `i.available_at <= now() - $1::integer * interval '1 millisecond'`,
      most: share(20 * ROWS),
    }),
    `RECURSIVE ${LINES}, `,
  ),
  columns: COLUMNS,
});

/** A queue that is read by key has no index in due order; ids are in the order of the enqueues. */
export const unhandledByKey = statement({
  name: 'unhandled_by_key',
  text: UNHANDLED(`${BY_ID('ASC')} UNION ALL ${BY_ID('DESC')}`),
  columns: COLUMNS,
});

export interface Unhandled {
  readonly type: string;
  readonly version: number;
  readonly id: string;
  /** So many were found; behind a long backlog there may be more. */
  readonly jobs: number;
  readonly dueForMs: number;
}

/** `graceMs`: not before a job has been due for so long; a deploy may bring its worker. */
export function findUnhandled(
  db: Executor,
  names: Names,
  { keyed, graceMs }: { readonly keyed: boolean; readonly graceMs: number },
): Promise<Unhandled[]> {
  return db.run(keyed ? unhandledByKey : unhandledByTime, names, [graceMs]);
}
