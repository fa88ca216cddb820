/**
 * How large a queue is, from the server's statistics, and how fast its jobs end, from the archive. The size is never exact
 * and has the same price at any size. Its counters rise, so two readings give the rates at which jobs come and go. They
 * fall when the server restarts after a crash, and `finished` when a segment of the archive is dropped.
 */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { bool, int8, statement } from '../../postgres/statement.js';
import { type Answer, asksOne } from '../reading/asks.js';
import { moment } from '../reading/columns.js';

export const queueSize = asksOne({
  name: 'queue_size',
  text: `
SELECT coalesce(s.n_live_tup, 0) AS live_rows, coalesce(s.n_dead_tup, 0) AS dead_rows,
  -- What the planner expects: rows per page when it was last counted, times the pages of today.
  CASE WHEN c.reltuples > 0 AND c.relpages > 0
    THEN (c.reltuples / c.relpages * pg_relation_size(c.oid) / current_setting('block_size')::integer)::bigint
    ELSE 0 END AS expected_rows,
  -- Null after a reset or a crash: since then only changes were counted.
  coalesce(s.last_vacuum, s.last_autovacuum, s.last_analyze, s.last_autoanalyze) IS NOT NULL AS counted,
  pg_table_size(c.oid) AS table_bytes, pg_indexes_size(c.oid) AS index_bytes,
  a.bytes AS archive_bytes,
  coalesce(s.n_tup_ins, 0) AS enqueued,
  -- Where no archive is kept, a completed job only leaves the queue.
  CASE WHEN (SELECT q.archive_retention > '0' FROM holdfast.queues AS q WHERE q.name = 'inbox')
    THEN a.inserted
    ELSE coalesce(s.n_tup_del, 0) END AS finished,
  (SELECT q.ordering <> 'none' FROM holdfast.queues AS q WHERE q.name = 'inbox') AS keyed,
  clock_timestamp() AS at
FROM pg_class AS c
LEFT JOIN pg_stat_all_tables AS s ON s.relid = c.oid
CROSS JOIN (
  SELECT coalesce(sum(pg_total_relation_size(t.relid)), 0)::bigint AS bytes,
    coalesce(sum(pg_stat_get_tuples_inserted(t.relid)), 0)::bigint AS inserted
  FROM pg_partition_tree('holdfast.inbox_archive'::regclass) AS t WHERE t.isleaf
) AS a
WHERE c.oid = 'holdfast.inbox'::regclass`,
  columns: {
    live_rows: int8,
    dead_rows: int8,
    expected_rows: int8,
    /** `live_rows` began with a count of the table. */
    counted: bool,
    table_bytes: int8,
    index_bytes: int8,
    archive_bytes: int8,
    enqueued: int8,
    finished: int8,
    /** It is read by key. */
    keyed: bool,
    at: moment,
  },
});

export type QueueSize = Answer<typeof queueSize>;

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

/** Of an archive without a row. */
export const NO_RATE: Rate = {
  ...{ windowMs: 60_000, completed: 0, cancelled: 0, discarded: 0 },
  ...{ completedPerSecond: 0, atLeast: false },
};

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
