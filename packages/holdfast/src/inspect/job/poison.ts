/**
 * Dead letters that took their workers' processes with them: the last thing that is known of each is that its worker
 * vanished. A retry forgets the crashes and may end the next process, so they are told apart.
 */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { statement, uuid } from '../../postgres/statement.js';

/** More are not read. */
export const MOST_POISON = 100;

export const listPoison = statement({
  name: 'list_poison',
  text: `
SELECT i.id
FROM holdfast.inbox AS i
WHERE i.crashes > 1 AND i.status = 'dead_letter' AND i.history -> -1 ->> 'outcome' = 'vanished'
ORDER BY i.id
LIMIT ${MOST_POISON}`,
  columns: { id: uuid },
});

export async function findPoison(db: Executor, names: Names): Promise<string[]> {
  return (await db.run(listPoison, names, [])).map(({ id }) => id);
}
