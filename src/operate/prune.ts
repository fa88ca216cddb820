/**
 * Pruning the archive by hand, beyond what its retention does by itself: finished jobs that ended before a
 * time are deleted for good, a batch at a time.
 */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { int8, statement } from '../postgres/statement.js';

export const pruneOlder = statement({
  name: 'prune_archive_older',
  text: `
WITH gone AS (
  DELETE FROM holdfast.inbox_archive AS a
  WHERE a.ctid = ANY (ARRAY(
    SELECT old.ctid FROM holdfast.inbox_archive AS old
    WHERE old.completed_at < now() - $1::bigint * interval '1 millisecond'
    LIMIT $2::integer))
    -- Checked again: the place may have been taken by another row since.
    AND a.completed_at < now() - $1::bigint * interval '1 millisecond'
  RETURNING 1
)
SELECT count(*) AS pruned FROM gone`,
  columns: { pruned: int8 },
});

/** How many were deleted: fewer than `limit` means that none are left. */
export async function pruneArchiveOlder(
  db: Executor,
  names: Names,
  olderMs: number,
  limit: number,
): Promise<number> {
  const [row] = await db.run(pruneOlder, names, [olderMs, limit]);
  return row?.pruned ?? 0;
}
