/**
 * The types or partition keys that a queue's jobs have, for telling a name that was mistyped. It reads the jobs that
 * were enqueued first and last, so a name that it does not return may still be there in a long queue.
 */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { statement, text } from '../../postgres/statement.js';

const ROWS = 5_000;

const END = (order: 'ASC' | 'DESC') =>
  `(SELECT i.type, i.partition_key FROM holdfast.inbox AS i ORDER BY i.id ${order} LIMIT ${ROWS})`;

export const listSeenNames = statement({
  name: 'list_seen_names',
  text: `
SELECT DISTINCT CASE WHEN $1::boolean THEN j.partition_key ELSE j.type END AS name
FROM (${END('ASC')} UNION ALL ${END('DESC')}) AS j`,
  columns: { name: text },
});

export async function seenNames(
  db: Executor,
  names: Names,
  what: 'type' | 'key',
): Promise<string[]> {
  const rows = await db.run(listSeenNames, names, [what === 'key']);
  return rows.map(({ name }) => name);
}
