/**
 * Which job types of a queue are known, to tell a mistyped one. Attested types are handled by a worker of the registry, have
 * a limit or a schedule, or have finished jobs; jobs that wait show the others. Of the queue and its archive a bounded part
 * is read: a rare type may be missed, so a hint is made from this and never a refusal.
 */
import { nearest } from '../../job/options/nearest.js';
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { bool, statement, text } from '../../postgres/statement.js';

const ROWS = 1_000;
const MAX_TYPES = 2_000;

const WAITING = (order: 'ASC' | 'DESC') =>
  `(SELECT i.type FROM holdfast.inbox AS i ORDER BY i.id ${order} LIMIT ${ROWS})`;

export const listKnownTypes = statement({
  name: 'known_types',
  text: `
SELECT k.type, bool_or(k.attested) AS attested
FROM (
  SELECT h.type, true AS attested
  FROM (SELECT w.handles FROM holdfast.workers AS w ORDER BY w.status = 'dead', w.last_seen_at DESC LIMIT ${ROWS}) AS w
  CROSS JOIN LATERAL jsonb_object_keys(w.handles -> 'inbox') AS h(type)
  UNION ALL
  SELECT l.type, true FROM holdfast.limits AS l WHERE l.queue = 'inbox' AND l.type IS NOT NULL
  UNION ALL
  (SELECT s.type, true FROM holdfast.schedules AS s WHERE s.queue = 'inbox' LIMIT ${ROWS})
  UNION ALL
  -- Rows of the oldest segment and of the newest one: no index leads to the latest rows.
  SELECT a.type, true FROM (
    (SELECT a.type, a.status FROM holdfast.inbox_archive AS a LIMIT ${ROWS})
    UNION ALL
    (SELECT a.type, a.status FROM holdfast.inbox_archive AS a
     WHERE a.segment = (
       SELECT max(e.number::integer)
       FROM holdfast.queues AS q CROSS JOIN LATERAL jsonb_object_keys(q.archive_segments) AS e(number)
       WHERE q.name = 'inbox')
     LIMIT ${ROWS})
  ) AS a WHERE a.status = 'completed'
  UNION ALL
  SELECT j.type, false FROM (${WAITING('ASC')} UNION ALL ${WAITING('DESC')}) AS j
) AS k
GROUP BY k.type
ORDER BY attested DESC, k.type
LIMIT ${MAX_TYPES}`,
  columns: { type: text, attested: bool },
});

export interface KnownTypes {
  readonly attested: ReadonlySet<string>;
  /** Those of jobs that wait: they may be mistyped as well. */
  readonly waiting: ReadonlySet<string>;
}

export async function knownTypes(db: Executor, names: Names): Promise<KnownTypes> {
  const rows = await db.run(listKnownTypes, names, []);
  const of = (attested: boolean) =>
    new Set(rows.filter((row) => row.attested === attested).map(({ type }) => type));
  return { attested: of(true), waiting: of(false) };
}

/** ` Did you mean "x"?`; '' if the type is attested, or if no other one is near. */
export function nearestType(type: string, { attested, waiting }: KnownTypes): string {
  if (attested.has(type)) return '';
  const others = [...waiting].filter((other) => other !== type);
  return nearest(type, [...attested]) || nearest(type, others);
}
