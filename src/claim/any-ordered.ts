/**
 * Are there ordered jobs in this queue? A worker whose queue and handlers say nothing of order asks when it
 * reads the fleet, because a producer may ask for order job by job; between, its claims ask along (claim.ts).
 */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { bool, statement } from '../postgres/statement.js';

export const ANY_ORDERED = `EXISTS (
  SELECT FROM holdfast.inbox AS o
  WHERE o.ordering IN ('key', 'key_strict') AND o.partition_bucket >= 0)`;

export const findOrdered = statement({
  name: 'any_ordered',
  text: `SELECT ${ANY_ORDERED} AS found`,
  columns: { found: bool },
});

export async function anyOrdered(db: Executor, names: Names): Promise<boolean> {
  const [row] = await db.run(findOrdered, names, []);
  return row?.found === true;
}
