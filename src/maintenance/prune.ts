/**
 * Pruning: what is past its retention is deleted, a batch at a time, oldest first.
 *
 * An idempotency key, a unique key and an effect marker are kept as long as their job is in the queue, however old
 * they are; the archive and the audit are pruned by age alone. A batch is small enough to be over in a moment, so
 * no lock and no snapshot is held for long.
 */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { int8, statement } from '../postgres/statement.js';

const columns = { pruned: int8 } as const;

/** Of a table, the rows that are `old`, but for those that somebody has locked. */
const pruneOld = (name: string, table: string, old: string, lock = 'FOR UPDATE SKIP LOCKED') =>
  statement({
    name,
    text: `
WITH gone AS (
  DELETE FROM holdfast.${table} AS t
  WHERE t.ctid = ANY (ARRAY(
    SELECT old.ctid FROM holdfast.${table} AS old
    WHERE ${old}
    LIMIT $1::integer
    ${lock}))
  RETURNING 1
)
SELECT count(*) AS pruned FROM gone`,
    columns,
  });

/** Archived rows are only ever deleted, so none is locked first. */
export const pruneArchive = pruneOld(
  'prune_archive',
  'inbox_archive',
  `old.completed_at < now() - (SELECT q.archive_retention FROM holdfast.queues AS q WHERE q.name = 'inbox')`,
  '',
);

export const pruneIdempotency = pruneOld(
  'prune_idempotency',
  'inbox_idempotency',
  `old.expires_at <= now()
      AND NOT EXISTS (SELECT FROM holdfast.inbox AS i WHERE i.id = old.job_id)`,
);

/** Those that still stand for a job are looked at again later, so that a batch reads no more than it may delete. */
export const pruneUnique = statement({
  name: 'prune_unique',
  text: `
WITH old AS MATERIALIZED (
  SELECT u.ctid AS place, u.kept_until > now() OR EXISTS (
    SELECT FROM unnest(u.jobs) AS held(id)
    -- One value for each, so that it cannot be planned as a join that reads the whole queue.
    WHERE (SELECT true FROM holdfast.inbox AS i WHERE i.id = held.id LIMIT 1)) AS stands
  FROM holdfast.inbox_unique AS u
  WHERE u.prune_at <= now()
  ORDER BY u.prune_at
  LIMIT $1::integer
  FOR UPDATE SKIP LOCKED
), later AS (
  UPDATE holdfast.inbox_unique AS u
  SET prune_at = greatest(u.kept_until, now() + interval '10 minutes')
  WHERE u.ctid = ANY (ARRAY(SELECT o.place FROM old AS o WHERE o.stands))
), gone AS (
  DELETE FROM holdfast.inbox_unique AS u
  WHERE u.ctid = ANY (ARRAY(SELECT o.place FROM old AS o WHERE o.stands IS NOT TRUE))
  RETURNING 1
)
SELECT (SELECT count(*) FROM gone) AS pruned, (SELECT count(*) FROM old) AS looked_at`,
  columns: { ...columns, looked_at: int8 },
});

/** One batch of unique keys. Those that stand are looked at too: a batch in which some do may be a full one. */
export async function pruneUniqueKeys(db: Executor, names: Names, limit: number) {
  const [row] = await db.run(pruneUnique, names, [limit]);
  return { pruned: row?.pruned ?? 0, lookedAt: row?.lookedAt ?? 0 };
}

export const pruneEffects = pruneOld(
  'prune_effects',
  'inbox_effects',
  `old.created_at < now() - (SELECT q.effect_retention FROM holdfast.queues AS q WHERE q.name = 'inbox')
      AND NOT EXISTS (SELECT FROM holdfast.inbox AS i WHERE i.id = old.job_id)`,
);

/** Of all queues. */
export const pruneAudit = statement({
  name: 'prune_audit',
  text: 'SELECT holdfast.prune_audit($1::integer) AS pruned',
  columns,
});

/** Of rates that have keys: those under which nothing has started lately. */
export const pruneRates = pruneOld(
  'prune_rates',
  'rates',
  // Its time has passed, so it says nothing; one that is claimed under just now is left alone.
  `old.started_tat < now() - interval '10 seconds'
      AND EXISTS (SELECT FROM holdfast.limits AS l WHERE l.id = old.limit_id AND l.queue = 'inbox' AND l.keyed)`,
);

/** One batch of one of the statements above. Returns how many rows it removed. */
export async function prune(
  db: Executor,
  names: Names,
  what: typeof pruneArchive,
  limit: number,
): Promise<number> {
  const [row] = await db.run(what, names, [limit]);
  return row?.pruned ?? 0;
}
