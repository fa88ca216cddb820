/**
 * How fast jobs end, from the archive. Its block ranges find the last minute without an index to maintain.
 *
 * A minute of a fast queue is more than a question should read, so at most `MAX_ROWS` are counted; where a
 * minute holds more, the rate is that of the last seconds.
 */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { int8, statement } from '../../postgres/statement.js';

const MAX_ROWS = 50_000;
const WINDOWS_MS = [60_000, 5_000, 500];

export interface Rate {
  readonly windowMs: number;
  readonly completed: number;
  readonly cancelled: number;
  readonly discarded: number;
  readonly completedPerSecond: number;
  /** More ended than were counted. */
  readonly atLeast: boolean;
}

export const countEnded = statement({
  name: 'count_ended',
  text: `
SELECT count(*) FILTER (WHERE ended.status = 'completed') AS completed,
  count(*) FILTER (WHERE ended.status = 'cancelled') AS cancelled,
  count(*) FILTER (WHERE ended.status = 'dead_letter') AS discarded, count(*) AS jobs
FROM (
  SELECT a.status FROM holdfast.inbox_archive AS a
  WHERE a.completed_at > now() - $1::bigint * interval '1 millisecond'
  LIMIT $2::integer
) AS ended`,
  columns: { completed: int8, cancelled: int8, discarded: int8, jobs: int8 },
});

export async function rate(db: Executor, names: Names): Promise<Rate> {
  for (const windowMs of WINDOWS_MS) {
    const [row] = await db.run(countEnded, names, [windowMs, MAX_ROWS]);
    if (!row) continue;
    const { jobs, ...counts } = row;
    const atLeast = jobs >= MAX_ROWS;
    if (atLeast && windowMs !== WINDOWS_MS.at(-1)) continue;
    return { windowMs, ...counts, atLeast, completedPerSecond: (row.completed * 1000) / windowMs };
  }
  throw new Error('the archive did not answer');
}
