/**
 * Which of these jobs a queue or its archive has, and in which state. The columns mean the same whichever driver carries
 * them, so a caller's transaction can be asked too. A refusal would end it: so queues are left out which the user may
 * not read.
 */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { bool, plainArray, type Row, statement, text, uuid } from '../../postgres/statement.js';

export const findStates = statement({
  name: 'find_states',
  text: `
SELECT w.id, coalesce(i.type, a.type) AS type, coalesce(i.status, a.status)::text AS status,
  i.status IS NULL AS archived
FROM unnest($1::text::uuid[]) AS w(id)
LEFT JOIN LATERAL (
  SELECT j.type, j.status FROM holdfast.inbox AS j WHERE j.id = w.id LIMIT 1
) AS i ON true
LEFT JOIN LATERAL (
  SELECT j.type, j.status FROM holdfast.inbox_archive AS j WHERE j.id = w.id AND i.status IS NULL LIMIT 1
) AS a ON true
WHERE coalesce(i.status, a.status) IS NOT NULL`,
  columns: { id: uuid, type: text, status: text, archived: bool },
});

export type StateRow = Row<typeof findStates.columns>;

/** Those that it knows. */
export function statesOf(db: Executor, names: Names, ids: readonly string[]): Promise<StateRow[]> {
  return db.run(findStates, names, [plainArray(ids)]);
}

export const findReadable = statement({
  name: 'find_readable',
  text: `
SELECT q.name
FROM holdfast.queues AS q JOIN pg_catalog.pg_class AS c ON c.oid = 'holdfast.queues'::regclass
WHERE (
  SELECT bool_and(has_column_privilege(
    to_regclass(format('%s.%I', c.relnamespace::regnamespace, t.name))::oid, 'status', 'SELECT'))
  FROM (VALUES (q.name), (q.name || '_archive')) AS t(name)
)
ORDER BY q.name`,
  columns: { name: text },
});

/** The names of the queues in which this user may look for jobs. */
export async function readableQueues(db: Executor, schema: string): Promise<string[]> {
  const rows = await db.run(findReadable, { schema, queue: 'inbox' }, []);
  return rows.map(({ name }) => name);
}
