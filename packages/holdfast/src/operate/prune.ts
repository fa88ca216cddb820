/** Pruning the archive by hand: finished jobs that ended before a time are deleted for good, a batch at a time. */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { int8, statement } from '../postgres/statement.js';

export const pruneOlder = statement({
  name: 'prune_archive_older',
  text: `
WITH old AS MATERIALIZED (
  SELECT a.ctid AS place FROM holdfast.inbox_archive AS a
  WHERE a.completed_at < now() - $1::bigint * interval '1 millisecond'
  LIMIT $2::integer
), gone AS (
  DELETE FROM holdfast.inbox_archive AS a
  WHERE a.ctid = ANY (ARRAY(SELECT o.place FROM old AS o))
    -- Checked again: each segment has such a place, and it may have been taken by another row since.
    AND a.completed_at < now() - $1::bigint * interval '1 millisecond'
  RETURNING 1
)
SELECT (SELECT count(*) FROM old) AS found, (SELECT count(*) FROM gone) AS pruned`,
  columns: { found: int8, pruned: int8 },
});

/** A right of its own: it runs in the database, with the rights of the owner. */
export const callPruneOlder = statement({
  name: 'call_prune_archive_older',
  text: `
SELECT p.jobs_found AS found, p.pruned
FROM holdfast.inbox_verb_prune_archive_older($1::bigint, $2::integer) AS p`,
  columns: pruneOlder.columns,
});

export interface Pruned {
  /** Fewer than `limit`: none are left. */
  readonly found: number;
  /** Others may have deleted some of them meanwhile. */
  readonly pruned: number;
}

export async function pruneArchiveOlder(
  db: Executor,
  names: Names,
  olderMs: number,
  limit: number,
): Promise<Pruned> {
  const [row] = await db.run(callPruneOlder, names, [olderMs, limit]);
  return row ?? { found: 0, pruned: 0 };
}
