/** In which state many jobs are, and how they ended. The archive, where a search costs more, is asked only for the rest. */

import type { Executor } from '../../postgres/queryable.js';
import { bool, int4, plainArray, statement, text, uuid } from '../../postgres/statement.js';
import { type Answer, asks } from '../reading/asks.js';
import { instant, parsed } from '../reading/columns.js';

/** Those that it knows. A caller's transaction can be asked too: the columns mean the same with any driver. */
export const statesOf = asks({
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
  params: (ids: readonly string[]) => [plainArray(ids)],
});

export type StateRow = Answer<typeof statesOf>;

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

/** The queues in which this user may look for jobs. Others are left out: a refusal would end the caller's transaction. */
export async function readableQueues(db: Executor, schema: string): Promise<string[]> {
  const rows = await db.run(findReadable, { schema, queue: 'inbox' }, []);
  return rows.map(({ name }) => name);
}

/** One row for each id. */
export const outcomesOf = asks({
  name: 'find_outcomes',
  text: `
SELECT w.id, coalesce(i.type, a.type) AS type,
  coalesce(i.status::text, CASE a.status WHEN 'dead_letter' THEN 'discarded' ELSE a.status::text END) AS status,
  coalesce(i.attempts, a.attempts) AS attempts, coalesce(i.last_error, a.last_error) AS last_error,
  a.completed_at, a.result,
  (SELECT q.archive_retention > '0' FROM holdfast.queues AS q WHERE q.name = 'inbox') AS keeps_archive
FROM unnest($1::uuid[]) AS w(id)
LEFT JOIN LATERAL (
  SELECT j.type, j.status, j.attempts, CASE j.status WHEN 'dead_letter' THEN j.last_error END AS last_error
  FROM holdfast.inbox AS j WHERE j.id = w.id LIMIT 1
) AS i ON true
LEFT JOIN LATERAL (
  SELECT j.type, j.status, j.attempts, CASE WHEN j.status <> 'completed' THEN j.last_error END AS last_error,
    j.completed_at, j.result
  FROM holdfast.inbox_archive AS j WHERE j.id = w.id AND i.status IS NULL LIMIT 1
) AS a ON true`,
  columns: {
    id: uuid,
    type: text.orNull,
    /** Null: the job is neither in the queue nor in its archive. */
    status: text.orNull,
    attempts: int4.orNull,
    /** Of a dead letter, a discarded or a cancelled job. */
    last_error: text.orNull,
    completed_at: instant,
    result: parsed,
    /** Where it does not, a completed job is gone without a trace, and any other soon is. */
    keeps_archive: bool,
  },
  params: (ids: readonly string[]) => [plainArray(ids)],
});

export type OutcomeRow = Answer<typeof outcomesOf>;
