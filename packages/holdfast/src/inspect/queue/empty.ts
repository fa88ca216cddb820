/**
 * Queues without a row, all of them by one question: a table without a page has none, and never had one that is seen. So
 * nobody asks each of a thousand queues that do nothing. A table that somebody has locked is left to the usual questions,
 * which say so.
 */
import type { Executor } from '../../postgres/queryable.js';
import { bool, int8, text } from '../../postgres/statement.js';
import { asks } from '../reading/asks.js';
import { moment } from '../reading/columns.js';
import type { QueueSize } from './size.js';

export const askEmpty = asks({
  name: 'empty_queues',
  text: `
WITH space AS MATERIALIZED (SELECT n.oid FROM pg_namespace AS n WHERE n.nspname = $1::text),
locked AS MATERIALIZED (
  SELECT l.relation FROM pg_locks AS l WHERE l.mode = 'AccessExclusiveLock' AND l.relation IS NOT NULL
), tables AS MATERIALIZED (
  SELECT q.name, q.archive_retention > '0' AS archives, q.ordering <> 'none' AS keyed, c.oid, i.inhrelid AS leaf
  FROM holdfast.queues AS q CROSS JOIN space AS s
  JOIN pg_class AS c ON c.relnamespace = s.oid AND c.relname = q.name AND c.relkind = 'r'
  JOIN pg_class AS a ON a.relnamespace = s.oid AND a.relname = q.name || '_archive'
  JOIN pg_inherits AS i ON i.inhparent = a.oid
), shut AS MATERIALIZED (
  SELECT t.name FROM tables AS t JOIN locked AS l ON l.relation IN (t.oid, t.leaf)
), free AS MATERIALIZED (
  -- First these: to ask for the size of a table that is locked would wait.
  SELECT t.* FROM tables AS t
  WHERE t.name NOT IN (SELECT s.name FROM shut AS s) AND has_table_privilege(t.oid, 'SELECT')
), bare AS MATERIALIZED (
  SELECT f.* FROM free AS f WHERE pg_relation_size(f.oid) = 0
)
SELECT b.name AS queue, 0::bigint AS live_rows, 0::bigint AS dead_rows, 0::bigint AS expected_rows, false AS counted,
  pg_table_size(b.oid) AS table_bytes, pg_indexes_size(b.oid) AS index_bytes,
  sum(pg_total_relation_size(b.leaf))::bigint AS archive_bytes,
  pg_stat_get_tuples_inserted(b.oid) AS enqueued,
  CASE WHEN b.archives THEN sum(pg_stat_get_tuples_inserted(b.leaf))::bigint
    ELSE pg_stat_get_tuples_deleted(b.oid) END AS finished,
  b.keyed, bool_and(pg_relation_size(b.leaf) = 0) AS unused, clock_timestamp() AS at
FROM bare AS b
GROUP BY b.name, b.oid, b.archives, b.keyed`,
  columns: {
    ...{ queue: text, live_rows: int8, dead_rows: int8, expected_rows: int8, counted: bool },
    ...{
      table_bytes: int8,
      index_bytes: int8,
      archive_bytes: int8,
      enqueued: int8,
      finished: int8,
    },
    ...{ keyed: bool, unused: bool, at: moment },
  },
  params: (schema: string) => [schema],
});

/** A queue without a row. */
export interface EmptyQueue {
  readonly size: QueueSize;
  /** Its archive has none either. */
  readonly unused: boolean;
}

export type EmptyQueues = ReadonlyMap<string, EmptyQueue>;

/** Fewer queues than that are asked one by one. */
const MANY = 20;

/** By name; empty while there are few queues. */
export async function emptyQueues(
  db: Executor,
  schema: string,
  queues: readonly unknown[],
): Promise<EmptyQueues> {
  if (queues.length < MANY) return new Map();
  const rows = await askEmpty(db, schema, schema);
  return new Map(rows.map(({ queue, unused, ...size }) => [queue, { size, unused }]));
}
