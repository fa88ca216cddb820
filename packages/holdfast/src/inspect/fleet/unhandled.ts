/**
 * Due jobs that no live worker handles: of an unknown type, of a version newer than any knows, or runs of a version of a
 * workflow for which nobody has a body. Claims pass over them, so nothing else would tell. By time only the lines that nobody handles are read. Of jobs whose rate has keys, and by key, a
 * bounded part is read: the first and, by key, the last jobs. What nobody handles stays while the rest leaves, so it is
 * found at the latest when its turn would have come. Dead letters and paused jobs are passed over.
 */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { bool, int4, int8, statement, text } from '../../postgres/statement.js';
import { asleep } from '../../postgres/taken.js';
import { inLines, LINES, share } from '../reading/lines.js';

const ROWS = 1_000;
/** So many are read where no index leaves the dead letters out. */
const WITH_DEAD = 100_000;

const BY_ID = (order: 'ASC' | 'DESC') => `
    (SELECT i.id, i.type, i.version, i.status, i.available_at, i.partition_key, i.created_at
     FROM (SELECT * FROM holdfast.inbox ORDER BY id ${order} LIMIT ${WITH_DEAD}) AS i
     WHERE i.status <> 'dead_letter' AND NOT ${asleep('i')} LIMIT ${ROWS})`;

/** A worker takes runs of the versions for which it has a body, and jobs of any version up to its own. */
const HANDLES = (
  type: string,
  version: string,
) => `h.type COLLATE "C" = ${type} AND h.version >= ${version}
  AND (h.bodies IS NULL OR h.bodies @> to_jsonb(${version}))`;

/** `due`: rows of the queue. Of each type the newest version, an example, and how long it has been due. */
const UNHANDLED = (due: string, lines = '', orElse = '') => `
WITH ${lines}handled AS (
  SELECT DISTINCT h.type, h.version::integer AS version, w.workflows -> 'inbox' -> h.type AS bodies
  FROM holdfast.workers AS w
  CROSS JOIN LATERAL jsonb_each_text(w.handles -> 'inbox') AS h(type, version)
  WHERE w.status = 'alive'
)
SELECT d.type, max(d.version) AS version, min(d.id::text) AS id,
  -- A short queue is read from both ends.
  count(DISTINCT d.id) AS jobs,
  greatest(extract(epoch FROM now() - min(d.available_at)) * 1000, 0)::bigint AS due_for_ms,
  EXISTS (SELECT FROM handled AS h WHERE h.type = d.type AND h.bodies IS NOT NULL) AS run
FROM (${due}) AS d
WHERE d.status = 'pending' AND (d.available_at <= now() - $1::integer * interval '1 millisecond'${orElse})
  AND NOT EXISTS (SELECT FROM handled AS h WHERE ${HANDLES('d.type', 'd.version')})
  AND NOT EXISTS (SELECT FROM holdfast.queues AS q WHERE q.name = 'inbox'
    AND (q.paused OR d.type = ANY (q.paused_types) OR d.partition_key = ANY (q.paused_keys)))
GROUP BY d.type
ORDER BY due_for_ms DESC, d.type`;

const COLUMNS = { type: text, version: int4, id: text, jobs: int8, due_for_ms: int8, run: bool };

export const unhandledByTime = statement({
  name: 'unhandled_by_time',
  text: UNHANDLED(
    inLines({
      columns: 'i.id, i.type, i.version, i.status, i.available_at, i.partition_key',
      which: `(l.version = 0 OR NOT EXISTS (
        SELECT FROM handled AS h WHERE ${HANDLES('l.type', 'l.version')}))`,
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
  text: UNHANDLED(
    `${BY_ID('ASC')} UNION ALL ${BY_ID('DESC')}`,
    '',
    // Workers take any version of a workflow here, and put one without a body off for half a minute, again and again.
    `
  OR d.available_at <= now() + interval '1 minute' AND d.created_at <= now() - $1::integer * interval '1 millisecond'
    AND EXISTS (SELECT FROM handled AS h WHERE h.type = d.type AND h.bodies IS NOT NULL)`,
  ),
  columns: COLUMNS,
});

export interface Unhandled {
  readonly type: string;
  readonly version: number;
  readonly id: string;
  /** So many were found; behind a long backlog there may be more. */
  readonly jobs: number;
  readonly dueForMs: number;
  /** Of a workflow: live workers have other versions of it. */
  readonly run: boolean;
}

/** `graceMs`: not before a job has been due for so long; a deploy may bring its worker. */
export function findUnhandled(
  db: Executor,
  names: Names,
  { keyed, graceMs }: { readonly keyed: boolean; readonly graceMs: number },
): Promise<Unhandled[]> {
  return db.run(keyed ? unhandledByKey : unhandledByTime, names, [graceMs]);
}
