/**
 * Pruning: what is past its retention is deleted, oldest first, in chunks that hold no lock and no snapshot for long; of the
 * archive, whole segments are dropped. An idempotency key, a unique key and an effect marker are kept as long as their job
 * is in the queue; the archive and the audit go by age alone. A round reads what it deletes and no more: it costs as much
 * after a year as on the first day.
 */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { int8, statement, text } from '../postgres/statement.js';

const columns = { pruned: int8 } as const;

/** Whole segments, so it takes no limit; about how many jobs were in them. */
export const pruneSegments = statement({
  name: 'prune_archive',
  text: 'SELECT holdfast.inbox_prune_archive() AS pruned',
  columns,
});

export async function pruneArchive(db: Executor, names: Names): Promise<number> {
  const [row] = await db.run(pruneSegments, names, []);
  return row?.pruned ?? 0;
}

interface Aged {
  readonly name: string;
  readonly table: string;
  /** The column that says when a row `t` is checked. */
  readonly at: string;
  /** Rows up to this time are due. */
  readonly due: string;
  /** True of a row that is still needed: it is checked again `later`. */
  readonly stands: string;
  readonly later: string;
  /** All rows go that have the same value here as a row that is not needed. */
  readonly by?: string;
}

/**
 * Checks the rows that are due, oldest first, and deletes those that are not needed. Every row that it has checked is
 * gone or moved, but for those that somebody has locked. So the next chunk begins at `up_to`, and does not pass over what
 * was deleted before: where a long transaction keeps vacuum away, that may be millions of dead rows. A transaction that
 * lasts longer than the retention may leave a row behind.
 */
const pruneAged = ({ name, table, at, due, stands, later, by }: Aged) =>
  statement({
    name,
    text: `
WITH seen AS MATERIALIZED (
  SELECT t.ctid AS place, t.${at} AS at, ${stands} AS stands
  FROM holdfast.${table} AS t
  WHERE t.${at} <= ${due} AND t.${at} >= coalesce($2::text::timestamptz, (
      SELECT (q.serviced_at ->> '${MARK(name)}')::timestamptz FROM holdfast.queues AS q WHERE q.name = 'inbox'
    ), '-infinity')
  ORDER BY t.${at}
  LIMIT $1::integer
), mine AS MATERIALIZED (
  SELECT s.place, s.stands${by ? `, t.${by}` : ''}
  FROM seen AS s JOIN holdfast.${table} AS t ON t.ctid = s.place
  FOR UPDATE OF t SKIP LOCKED
), moved AS (
  UPDATE holdfast.${table} AS t SET ${at} = ${later}
  WHERE t.ctid = ANY (ARRAY(SELECT m.place FROM mine AS m WHERE m.stands))
), gone AS (
  DELETE FROM holdfast.${table} AS t
  WHERE t.${by ?? 'ctid'} = ANY (ARRAY(SELECT m.${by ?? 'place'} FROM mine AS m WHERE m.stands IS NOT TRUE))
  RETURNING 1
), counted AS MATERIALIZED (
  SELECT count(*) AS seen, max(s.at) AS last, (SELECT count(*) FROM mine) AS mine FROM seen AS s
)
SELECT (SELECT count(*) FROM gone) AS pruned, c.seen, least(
    CASE WHEN c.seen < $1::integer THEN ${due} ELSE c.last END,
    CASE WHEN c.mine < c.seen THEN (
      SELECT min(s.at) FROM seen AS s WHERE s.place <> ALL (ARRAY(SELECT m.place FROM mine AS m))) END)::text AS up_to
FROM counted AS c`,
    columns: { ...columns, seen: int8, up_to: text },
  });

/** Beside the times of the services stands how far each has pruned. */
const MARK = (name: string) => `${name}_up_to`;

/** One value, so that it cannot be planned as a join that reads the whole queue. */
const inQueue = (id: string) => `(SELECT true FROM holdfast.inbox AS i WHERE i.id = ${id} LIMIT 1)`;
const setting = (column: string) =>
  `(SELECT q.${column} FROM holdfast.queues AS q WHERE q.name = 'inbox')`;

export const pruneIdempotency = pruneAged({
  name: 'prune_idempotency',
  table: 'inbox_idempotency',
  at: 'expires_at',
  due: 'now()',
  stands: inQueue('t.job_id'),
  later: `now() + ${setting('idempotency_retention')} / 8`,
});

export const pruneUnique = pruneAged({
  name: 'prune_unique',
  table: 'inbox_unique',
  at: 'prune_at',
  due: 'now()',
  stands: `t.kept_until > now() OR EXISTS (
    SELECT FROM unnest(t.jobs) AS held(id) WHERE ${inQueue('held.id')})`,
  later: `greatest(t.kept_until, now() + interval '10 minutes')`,
});

export const pruneEffects = pruneAged({
  name: 'prune_effects',
  table: 'inbox_effects',
  at: 'created_at',
  due: `now() - ${setting('effect_retention')}`,
  stands: inQueue('t.job_id'),
  later: `now() - ${setting('effect_retention')} * 0.875`,
});

/** A run's first marker says when the run is looked at; all of them go together. */
export const pruneSteps = pruneAged({
  name: 'prune_steps',
  table: 'inbox_steps',
  at: 'check_at',
  due: `now() - ${setting('effect_retention')}`,
  stands: inQueue('t.run_id'),
  later: `now() - ${setting('effect_retention')} * 0.875`,
  by: 'run_id',
});

const ofRuns = (name: string, table: string) =>
  pruneAged({
    ...{ name, table, at: 'check_at', due: `now() - ${setting('effect_retention')}` },
    stands: inQueue('t.run_id'),
    later: `now() - ${setting('effect_retention')} * 0.875`,
  });

export const pruneSignals = ofRuns('prune_signals', 'inbox_signals');
export const pruneChildren = ofRuns('prune_children', 'inbox_children');

export type AgedPruning = typeof pruneIdempotency;

export interface PrunedChunk {
  readonly pruned: number;
  /** Fewer than `limit`: none are left. Some of them stand. */
  readonly seen: number;
  readonly upTo: string;
}

/** One chunk, from where the last one came to; null: from where the last round came to. */
export async function pruneChunk(
  db: Executor,
  names: Names,
  what: AgedPruning,
  limit: number,
  from: string | null,
): Promise<PrunedChunk> {
  const [row] = await db.run(what, names, [limit, from]);
  return row as PrunedChunk;
}

export const keepPruned = statement({
  name: 'keep_pruned',
  text: `
UPDATE holdfast.queues AS q
SET serviced_at = q.serviced_at || jsonb_build_object($1::text, $2::text::timestamptz)
WHERE q.name = 'inbox'
RETURNING q.name`,
  columns: { name: text },
});

/** The next round begins there. Not in the statement that prunes, which holds rows that enqueues may want. */
export async function rememberPruned(db: Executor, names: Names, what: AgedPruning, upTo: string) {
  await db.run(keepPruned, names, [MARK(what.name), upTo]);
}

/** Of all queues. */
export const pruneAudit = statement({
  name: 'prune_audit',
  text: 'SELECT holdfast.prune_audit($1::integer) AS pruned',
  columns,
});

/** Of rates that have keys: those that nobody has waited for lately. It reads the keys that are in use, and no others. */
export const pruneRates = statement({
  name: 'prune_rates',
  text: `
WITH gone AS (
  DELETE FROM holdfast.rates AS t
  WHERE t.ctid = ANY (ARRAY(
    SELECT old.ctid FROM holdfast.rates AS old
    -- Its times have passed, so it says nothing; one that is claimed under just now is left alone.
    WHERE old.started_tat < now() - interval '10 seconds'
      AND EXISTS (SELECT FROM holdfast.limits AS l WHERE l.id = old.limit_id AND l.queue = 'inbox' AND l.keyed)
    LIMIT $1::integer
    FOR UPDATE SKIP LOCKED))
  RETURNING 1
)
SELECT count(*) AS pruned FROM gone`,
  columns,
});

/** One chunk of the audit or of rates. Returns how many rows it removed. */
export async function prune(db: Executor, names: Names, what: typeof pruneAudit, limit: number) {
  const [row] = await db.run(what, names, [limit]);
  return row?.pruned ?? 0;
}
