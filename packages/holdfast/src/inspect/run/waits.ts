/**
 * What the runs of a queue wait for, and since when. All that is open is read, up to a bound: behind it the half that waits
 * longest and the half that waits shortest stand for all, scaled by what the server expects to be open.
 */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { bool, int8, type Row, statement, text } from '../../postgres/statement.js';
import { moment } from '../reading/columns.js';
import { waits } from './state.js';

/** So many markers are read. */
const OPEN_ROWS = 50_000;
const MAX_GROUPS = 1_000;

/** `half` of the markers, from one end. */
const END = (order: 'ASC' | 'DESC') => `
    (SELECT s.run_id, s.at, s.kind, s.name, s.attempt FROM holdfast.inbox_steps AS s
     WHERE s.place IS NULL OR s.kind = '!' ORDER BY s.run_id ${order} LIMIT $1::integer / 2)`;

export const groupWaits = statement({
  name: 'group_waits',
  text: `
WITH open AS MATERIALIZED (${END('ASC')} UNION ${END('DESC')}
), seen AS (
  SELECT count(*) AS markers FROM open
), runs AS (
  SELECT i.type, o.kind, o.name, o.run_id, o.at
  FROM open AS o
  CROSS JOIN LATERAL (
    SELECT i.type FROM holdfast.inbox AS i
    WHERE i.id = o.run_id AND i.status = 'pending' AND ${waits('i')} LIMIT 1
  ) AS i
  WHERE o.kind IN ('w', 'z', 'c') OR o.attempt IS NOT NULL
)
SELECT r.type AS workflow, CASE r.kind WHEN 'u' THEN substr(r.name, 2) ELSE r.name END AS name, r.kind::text AS kind,
  CASE WHEN s.markers < $1::integer THEN count(DISTINCT r.run_id)
    ELSE round(count(DISTINCT r.run_id)::numeric * greatest(x.expected, s.markers) / s.markers) END::bigint AS runs,
  min(r.at) AS oldest, s.markers >= $1::integer AS approximate
FROM runs AS r
CROSS JOIN seen AS s
CROSS JOIN (
  SELECT c.reltuples::bigint AS expected FROM pg_class AS c WHERE c.oid = to_regclass('holdfast.inbox_steps_open_idx')
) AS x
GROUP BY r.type, r.kind, r.name, s.markers, x.expected
ORDER BY runs DESC, r.type, r.name
LIMIT ${MAX_GROUPS}`,
  columns: {
    ...{ workflow: text, name: text, kind: text, runs: int8, oldest: moment },
    /** More is open than was read. */
    approximate: bool,
  },
});

export type WaitGroup = Row<typeof groupWaits.columns>;

/** A run that waits for several things is counted for each. */
export function waitGroups(db: Executor, names: Names, rows = OPEN_ROWS): Promise<WaitGroup[]> {
  return db.run(groupWaits, names, [rows]);
}
