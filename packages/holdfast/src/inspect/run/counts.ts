/**
 * How many runs each workflow has, by what they do, for metrics. Runs that wait or undo are found by what is open of them, up
 * to a bound, as in waits.ts; those that run by the claims of their workers; dead letters by their index, the newest first.
 */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { int8, type Row, statement, text, textArray } from '../../postgres/statement.js';
import { asleep } from '../../postgres/taken.js';
import { FROM_HELD } from '../fleet/held.js';
import { workflowTypes } from './types.js';

const OPEN_ROWS = 50_000;
const DEAD_ROWS = 10_000;
/** More workflows than these have no figures. */
const MAX_GROUPS = 500;

const END = (order: 'ASC' | 'DESC') => `
    (SELECT s.run_id, s.at, s.kind FROM holdfast.inbox_steps AS s
     WHERE s.place IS NULL OR s.kind = '!' ORDER BY s.run_id ${order} LIMIT ${OPEN_ROWS} / 2)`;

export const countRuns = statement({
  name: 'count_runs',
  text: `
WITH open AS MATERIALIZED (
  SELECT o.run_id, min(o.at) FILTER (WHERE o.kind <> '!') AS at, bool_or(o.kind = '!') AS undoing, count(*) AS markers
  FROM (${END('ASC')} UNION ${END('DESC')}) AS o
  GROUP BY o.run_id
), scale AS (
  SELECT CASE WHEN sum(o.markers) < ${OPEN_ROWS} THEN 1
    ELSE greatest(1, (SELECT c.reltuples FROM pg_class AS c
      WHERE c.oid = to_regclass('holdfast.inbox_steps_open_idx')) / sum(o.markers)) END AS by
  FROM open AS o
)
SELECT r.type AS workflow, r.state, r.runs,
  floor(extract(epoch FROM clock_timestamp() - r.oldest) * 1000)::bigint AS oldest_ms
FROM (
  SELECT i.type, CASE WHEN o.undoing THEN 'undoing' ELSE 'waiting' END AS state,
    round((count(*) * max(s.by))::numeric)::bigint AS runs, min(o.at) FILTER (WHERE i.asleep) AS oldest
  FROM open AS o
  CROSS JOIN scale AS s
  CROSS JOIN LATERAL (
    SELECT i.type, ${asleep('i')} AS asleep FROM holdfast.inbox AS i
    WHERE i.id = o.run_id AND i.status <> 'dead_letter' LIMIT 1
  ) AS i
  WHERE i.asleep OR o.undoing
  GROUP BY 1, 2
  UNION ALL
  SELECT i.type, 'running', count(*), NULL
  ${FROM_HELD('i.type')}
  WHERE i.type = ANY ($1::text[])
    AND NOT EXISTS (SELECT FROM holdfast.inbox_steps AS u WHERE u.run_id = held.id AND u.kind = '!')
  GROUP BY 1
  UNION ALL
  SELECT d.type, 'dead_letter', count(*), NULL
  FROM (
    SELECT i.type, i.status FROM holdfast.inbox AS i
    WHERE i.available_at = 'infinity' ORDER BY i.id DESC LIMIT ${DEAD_ROWS}
  ) AS d
  WHERE d.status = 'dead_letter' AND d.type = ANY ($1::text[])
  GROUP BY 1
) AS r
ORDER BY r.runs DESC, r.type, r.state
LIMIT ${MAX_GROUPS}`,
  columns: { workflow: text, state: text, runs: int8, oldest_ms: int8.orNull },
});

export type RunCount = Row<typeof countRuns.columns>;

/** A queue that no worker serves with a workflow is asked no more than that. */
export async function runCounts(db: Executor, names: Names): Promise<RunCount[]> {
  const types = (await workflowTypes(db, names)).map(({ type }) => type);
  return types.length === 0 ? [] : db.run(countRuns, names, [textArray(types)]);
}
