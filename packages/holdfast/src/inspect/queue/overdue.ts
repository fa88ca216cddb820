/** How long the schedule of a queue that is due longest has been due: 0 while a worker writes ticks on time. */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { int8, statement } from '../../postgres/statement.js';

export const oldestDueSchedule = statement({
  name: 'oldest_due_schedule',
  text: `
SELECT floor(extract(epoch FROM statement_timestamp() - s.next_at) * 1000)::bigint AS overdue_ms
FROM holdfast.schedules AS s
WHERE s.queue = 'inbox' AND NOT s.paused AND s.next_at <= statement_timestamp()
ORDER BY s.next_at
LIMIT 1`,
  columns: { overdue_ms: int8 },
});

export async function overdueMs(db: Executor, names: Names): Promise<number> {
  const [row] = await db.run(oldestDueSchedule, names, []);
  return row?.overdueMs ?? 0;
}
