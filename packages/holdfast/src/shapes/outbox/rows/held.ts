/** Whether a claim still holds, by the database's clock: the fence, for a reader. */
import type { Names } from '../../../postgres/names.js';
import type { Executor } from '../../../postgres/queryable.js';
import { bool, statement } from '../../../postgres/statement.js';

export const outboxHeld = statement({
  name: 'outbox_held',
  text: `
SELECT EXISTS (
  SELECT FROM holdfast.inbox AS i
  WHERE i.id = $1::uuid AND i.lease_generation = $2::bigint AND i.status = 'processing'
    AND i.lease_expires_at > statement_timestamp()
) AS held`,
  columns: { held: bool },
});

export async function isHeld(
  db: Executor,
  names: Names,
  id: string,
  generation: number,
): Promise<boolean> {
  const [row] = await db.run(outboxHeld, names, [id, generation]);
  return row?.held ?? false;
}
