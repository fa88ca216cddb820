/**
 * Are there ordered jobs in this queue? A worker whose queue and handlers say nothing of order asks now
 * and then, because a producer may ask for order job by job.
 */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { bool, statement } from '../postgres/statement.js';

export const findOrdered = statement({
  name: 'any_ordered',
  text: `
SELECT EXISTS (
  SELECT FROM holdfast.inbox AS i
  WHERE i.ordering IN ('key', 'key_strict') AND i.partition_bucket >= 0
) AS found`,
  columns: { found: bool },
});

export async function anyOrdered(db: Executor, names: Names): Promise<boolean> {
  const [row] = await db.run(findOrdered, names, []);
  return row?.found === true;
}
