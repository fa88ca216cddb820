/**
 * What a worker says of the permits that it holds. Claims raise the figure (allow.sql.ts); here the worker lowers it when
 * jobs have left, and says it for the first time when it learns of a limit. Never while a claim of the same queue is under
 * way: that would undo what the claim counts.
 */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { int4, statement, textArray } from '../postgres/statement.js';
import type { Held } from './take.js';

export const publishPermits = statement({
  name: 'publish_permits',
  text: `
INSERT INTO holdfast.permits AS p (limit_id, worker_id, held)
SELECT l.id, $1::text, coalesce(($2::jsonb ->> coalesce(l.type, ''))::integer, 0)
FROM holdfast.limits AS l
WHERE l.queue = 'inbox' AND l.concurrency IS NOT NULL AND (l.type IS NULL OR l.type = ANY ($3::text[]))
ORDER BY l.id
ON CONFLICT (limit_id, worker_id) DO UPDATE SET held = excluded.held WHERE p.held <> excluded.held
RETURNING p.limit_id`,
  columns: { limit_id: int4 },
});

/** `types`: those that the worker handles. */
export async function publish(
  db: Executor,
  names: Names,
  workerId: string,
  held: Held,
  types: readonly string[],
): Promise<void> {
  await db.run(publishPermits, names, [workerId, JSON.stringify(held), textArray(types)]);
}
