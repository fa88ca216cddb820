/**
 * Which types of a queue are limited. Workers leave them out of their ordinary claims, and say with each claim which
 * version of the limits they know: one that has changed since gives them nothing until they have read it.
 */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { bool, int8, json, statement, text } from '../postgres/statement.js';

export interface LimitedTypes {
  readonly version: number;
  readonly types: readonly string[];
  /** The queue itself has a limit, which holds for all of its types together. */
  readonly whole: boolean;
}

export const listLimitedTypes = statement({
  name: 'limited_types',
  text: `
SELECT q.name AS queue, q.limits_version AS version,
  coalesce(jsonb_agg(l.type ORDER BY l.type) FILTER (WHERE l.type IS NOT NULL), '[]') AS types,
  count(*) FILTER (WHERE l.id IS NOT NULL AND l.type IS NULL) > 0 AS whole
FROM holdfast.queues AS q
LEFT JOIN holdfast.limits AS l
  ON l.queue = q.name AND (l.concurrency IS NOT NULL OR l.rate_limit IS NOT NULL)
GROUP BY q.name`,
  columns: { queue: text, version: int8, types: json, whole: bool },
});

/** By queue. */
export async function limitedTypes(
  db: Executor,
  names: Names,
): Promise<ReadonlyMap<string, LimitedTypes>> {
  const rows = await db.run(listLimitedTypes, names, []);
  return new Map(
    rows.map(({ queue, version, types, whole }) => {
      return [queue, { version, types: JSON.parse(types), whole }];
    }),
  );
}
