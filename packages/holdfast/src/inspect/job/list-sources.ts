/**
 * Where the jobs of a list come from. Dead letters are read from their own index, and jobs that run, in a large
 * queue, from the workers' claims. The jobs of one key have an index where the queue has an order per key, or where
 * somebody made one on the column (`own`); elsewhere they are searched for among all: where keys take turns, a key
 * alone does not say in which group to look.
 */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { bool, int8, statement } from '../../postgres/statement.js';
import { FROM_HELD } from '../fleet/held.js';
import { EXACT_ROWS } from '../queue/counts.js';
import { queueSize } from '../queue/size.js';
import { type JobFilter, only } from './filter.js';

export const ORDERS = ['newest', 'oldest'] as const;
/** The oldest job first, or the newest. */
export type Order = (typeof ORDERS)[number];
export type Source = 'every' | 'dead' | 'held' | 'key' | 'own';

/** A key with more jobs is not read as a whole to bring them into the order of their ids. */
const MAX_KEY_ROWS = 20_000;

/** The rows of a source on the far side of $7, at most $8 of them, in the order of their ids. */
export function rowsOf(source: Source, order: Order): string {
  const beyond =
    order === 'newest'
      ? "id < coalesce($7::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')"
      : "id > coalesce($7::uuid, '00000000-0000-0000-0000-000000000000')";
  const direction = order === 'newest' ? 'DESC' : 'ASC';
  if (source === 'held') {
    return `SELECT k.* FROM (
    SELECT i.* ${FROM_HELD('i.*')}
  ) AS k
  WHERE k.${beyond} ORDER BY k.id ${direction} LIMIT $8::integer`;
  }
  if (source === 'own') {
    // First by the index on the key, whatever the plan for the order of ids would cost.
    return `SELECT k.* FROM (
    SELECT i.* FROM holdfast.inbox AS i WHERE i.partition_key = $3::text OFFSET 0
  ) AS k
  WHERE k.${beyond} ORDER BY k.id ${direction} LIMIT $8::integer`;
  }
  if (source !== 'key') {
    const dead = source === 'dead' ? " AND i.available_at = 'infinity'" : '';
    return `SELECT i.* FROM holdfast.inbox AS i
  WHERE i.${beyond}${dead} ORDER BY i.id ${direction} LIMIT $8::integer`;
  }
  // Dead letters that hold no key are not in the index of keys: they are searched for among the letters, as many
  // as a page may read; and the page ends where they do.
  const within = order === 'newest' ? '>=' : '<=';
  return `WITH dead AS MATERIALIZED (
    SELECT i.* FROM holdfast.inbox AS i
    WHERE i.${beyond} AND i.available_at = 'infinity'
      AND ($1::text[] IS NULL OR 'dead_letter' = ANY ($1::text[]))
    ORDER BY i.id ${direction} LIMIT $8::integer
  ), edge AS MATERIALIZED (
    SELECT CASE WHEN count(*) >= $8::integer
      THEN (array_agg(d.id ORDER BY d.id ${direction}))[count(*)::integer] END AS id
    FROM dead AS d
  )
  SELECT i.* FROM edge
  CROSS JOIN holdfast.inbox AS i
  WHERE i.partition_bucket = holdfast.bucket_of($3::text) AND i.partition_key COLLATE "C" = $3::text
    AND NOT i.parked AND i.available_at < 'infinity' AND i.${beyond}
    AND (edge.id IS NULL OR i.id ${within} edge.id)
  UNION ALL
  SELECT d.* FROM dead AS d`;
}

export const keySize = statement({
  name: 'key_size',
  text: `
SELECT k.keyed, o.own, CASE WHEN k.keyed THEN (
  SELECT count(*) FROM (
    SELECT FROM holdfast.inbox AS i
    WHERE i.partition_bucket = holdfast.bucket_of($1::text) AND i.partition_key COLLATE "C" = $1::text
      AND NOT i.parked
    ORDER BY i.position LIMIT $2::integer
  ) AS line) WHEN o.own THEN (
  SELECT count(*) FROM (
    SELECT FROM holdfast.inbox AS i WHERE i.partition_key = $1::text LIMIT $2::integer
  ) AS line) ELSE 0 END AS rows
FROM (SELECT q.ordering IN ('key', 'key_strict') AS keyed FROM holdfast.queues AS q WHERE q.name = 'inbox') AS k
CROSS JOIN (
  SELECT EXISTS (
    SELECT FROM pg_index AS x
    JOIN pg_attribute AS a ON a.attrelid = x.indrelid AND a.attnum = x.indkey[0]
    JOIN pg_class AS c ON c.oid = x.indexrelid
    JOIN pg_am AS m ON m.oid = c.relam
    WHERE x.indrelid = 'holdfast.inbox'::regclass AND x.indisvalid AND x.indpred IS NULL
      AND a.attname = 'partition_key' AND x.indcollation[0] = a.attcollation
      AND m.amname IN ('btree', 'hash')
  ) AS own
) AS o`,
  columns: { keyed: bool, own: bool, rows: int8 },
});

export async function sourceFor(
  db: Executor,
  names: Names,
  filter: JobFilter,
  byClaims: boolean,
): Promise<Source> {
  if (only(filter, 'dead_letter')) return 'dead';
  if (byClaims && only(filter, 'processing') && (await isLarge(db, names))) return 'held';
  if (filter.key === undefined) return 'every';
  const [key] = await db.run(keySize, names, [filter.key, MAX_KEY_ROWS]);
  if (!key || key.rows >= MAX_KEY_ROWS) return 'every';
  if (key.keyed) return 'key';
  return key.own ? 'own' : 'every';
}

async function isLarge(db: Executor, names: Names): Promise<boolean> {
  const { liveRows, expectedRows } = await queueSize(db, names);
  return Math.max(liveRows, expectedRows) > EXACT_ROWS;
}
