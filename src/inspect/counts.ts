/** How many jobs a queue holds in each state, exactly. It reads the whole queue: not for a dashboard. */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { int8, statement } from '../postgres/statement.js';

export const countJobs = statement({
  name: 'count_jobs',
  text: `
SELECT count(*) FILTER (WHERE status = 'pending') AS pending,
  count(*) FILTER (WHERE status = 'processing') AS processing,
  count(*) FILTER (WHERE status = 'dead_letter') AS dead_letters,
  (SELECT count(*) FROM holdfast.inbox_archive WHERE status = 'completed') AS completed
FROM holdfast.inbox`,
  columns: { pending: int8, processing: int8, dead_letters: int8, completed: int8 },
});

export async function counts(db: Executor, names: Names) {
  const [row] = await db.run(countJobs, names, []);
  return row as NonNullable<typeof row>;
}
