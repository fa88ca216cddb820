/**
 * Which types of a queue are limited. Workers leave them out of their ordinary claims, and say with each claim which
 * version of the limits they know: one that has changed since gives them nothing until they have read it.
 */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { bool, int8, statement, text } from '../postgres/statement.js';

export interface LimitedTypes {
  readonly version: number;
  readonly types: readonly string[];
  /** The queue itself has a limit, which holds for all of its types together. */
  readonly whole: boolean;
}

export const listLimitedTypes = statement({
  name: 'limited_types',
  text: `
SELECT q.name AS queue, q.limits_version AS version, l.type, l.id IS NOT NULL AS limited
FROM holdfast.queues AS q
LEFT JOIN holdfast.limits AS l
  ON l.queue = q.name AND (l.concurrency IS NOT NULL OR l.rate_limit IS NOT NULL)
ORDER BY q.name, l.type`,
  columns: { queue: text, version: int8, type: text.orNull, limited: bool },
});

/** By queue. */
export async function limitedTypes(
  db: Executor,
  names: Names,
): Promise<ReadonlyMap<string, LimitedTypes>> {
  const rows = await db.run(listLimitedTypes, names, []);
  const queues = new Map<string, LimitedTypes>();
  for (const { queue, version, type, limited } of rows) {
    const { types, whole } = queues.get(queue) ?? { types: [], whole: false };
    queues.set(queue, {
      version,
      types: type === null ? types : [...types, type],
      whole: whole || (limited && type === null),
    });
  }
  return queues;
}
