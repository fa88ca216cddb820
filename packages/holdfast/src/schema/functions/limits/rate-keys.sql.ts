/**
 * Which jobs of keys of a rate may start, in a queue that is read by time.
 *
 * The index has the jobs of one key after those of the other. The walk reads some entries at a time and goes on behind the key
 * of the last one. It reads twice as many as the last entries had keys: keys of one job each are read in long stretches, and
 * of keys with long lines only the first two. Where the last key of a stretch goes on, its line is read by priority.
 */
import { READY } from '../../../postgres/taken.js';
import type { FunctionFile } from '../../function-file.js';
import { TAT, TOKENS } from './allow.sql.js';

/** It is there, and its key is not paused. */
const MAY_START = `i.available_at <= now() AND i.version <= e.version AND ${READY}
          AND (i.partition_key = ANY (paused_keys)) IS NOT TRUE`;

export const rateKeys: FunctionFile = {
  name: 'rate-keys',
  of: 'queue',
  drop: 'DROP FUNCTION IF EXISTS holdfast.inbox_rate_keys(text[], text[], integer, integer);',
  text: `
-- Walks the keys of jobs that have one, from behind a key, at most so many of each type. tokens: how many of the key may
-- start now; again_ms: when there is another. place: a job that may start; NULL: of this entry none. It is a guess:
-- inbox_allow decides.
CREATE OR REPLACE FUNCTION holdfast.inbox_rate_keys(
  types text[], versions integer[], after_keys text[], most_keys integer, most_jobs integer, paused_types text[], paused_keys text[],
  OUT type text, OUT key text, OUT tokens integer, OUT again_ms bigint,
  OUT place tid, OUT rank smallint, OUT available_at timestamptz, OUT "position" bigint
) RETURNS SETOF record LANGUAGE plpgsql AS $fn$
#variable_conflict use_column
DECLARE
  moment timestamptz := clock_timestamp();
BEGIN
  RETURN QUERY
  WITH RECURSIVE entries AS (
    SELECT t.type, t.version, t.after COLLATE "C" AS key, 0::bigint AS keys, 1::bigint AS keys_read, 0::bigint AS nth, 0::bigint AS rows,
      NULL::tid AS place, NULL::smallint AS rank, NULL::timestamptz AS available_at, NULL::bigint AS position, false AS ready
    FROM unnest(types, versions, after_keys) AS t(type, version, after)
    WHERE (t.type = ANY (paused_types)) IS NOT TRUE
    UNION ALL
    SELECT e.type, e.version, i.key, e.keys + i.keys_read, i.keys_read, i.nth, i.rows, i.place, i.rank, i.available_at, i.position, i.ready
    FROM entries AS e
    CROSS JOIN LATERAL (
      SELECT i.*, row_number() OVER () AS nth, dense_rank() OVER (ORDER BY i.key) AS keys_read
      FROM (
        SELECT i.limit_key COLLATE "C" AS key, i.ctid AS place, i.priority::smallint AS rank, i.available_at, i.position,
          least(2 * e.keys_read, most_keys - e.keys) AS rows, ${MAY_START} AS ready
        FROM holdfast.inbox AS i
        WHERE i.type COLLATE "C" = e.type AND i.limit_key COLLATE "C" > e.key AND i.limit_key IS NOT NULL AND i.crashes < 2
        ORDER BY i.limit_key COLLATE "C", i.priority, i.available_at, i.position
        LIMIT least(2 * e.keys_read, most_keys - e.keys)
      ) AS i
    ) AS i
    WHERE e.nth = e.rows AND e.keys < most_keys
  ), keys AS (
    SELECT e.*, coalesce(t.tokens, l.rate_burst, most_jobs) AS tokens,
      ceil((date_part('epoch', coalesce(t.tat, moment) - moment) + (coalesce(t.tokens, l.rate_burst) - (l.rate_burst - 1)) * l.pace)
        * 1000)::bigint AS again_ms
    FROM (
      SELECT e.*, bool_or(e.nth = e.rows) OVER of_key AS goes_on, count(*) FILTER (WHERE e.ready) OVER (of_key ORDER BY e.nth) AS nth_ready
      FROM entries AS e WHERE e.nth > 0
      WINDOW of_key AS (PARTITION BY e.type, e.key)
    ) AS e
    LEFT JOIN (
      SELECT l.id, l.type, l.rate_burst, l.updated_at, date_part('epoch', l.rate_per) / l.rate_limit AS pace
      FROM holdfast.limits AS l WHERE l.queue = 'inbox' AND l.keyed AND l.rate_limit IS NOT NULL
    ) AS l ON l.type = e.type
    LEFT JOIN LATERAL (
      SELECT n.tat, ${TOKENS('l.rate_burst', 'n.tat', 'l.pace')} AS tokens
      FROM (
        -- As its index has it: by another collation every key of the limit would be read.
        SELECT ${TAT('l.pace', 'l.updated_at')} AS tat FROM holdfast.rates AS r
        WHERE r.limit_id = l.id AND r.key = e.key COLLATE "default"
      ) AS n
    ) AS t ON true
    WHERE NOT e.goes_on OR e.nth = e.rows
  )
  SELECT k.type, k.key, least(most_jobs, k.tokens)::integer, k.again_ms,
    CASE WHEN k.ready AND k.nth_ready <= k.tokens THEN k.place END, k.rank, k.available_at, k.position
  FROM keys AS k WHERE NOT k.goes_on
  UNION ALL
  SELECT e.type, e.key, least(most_jobs, e.tokens)::integer, e.again_ms, c.*
  FROM keys AS e
  LEFT JOIN LATERAL (
    SELECT c.* FROM generate_series(1, 4) AS p(priority)
    CROSS JOIN LATERAL (
      SELECT i.ctid, i.priority::smallint, i.available_at, i.position
      FROM holdfast.inbox AS i
      WHERE i.type COLLATE "C" = e.type AND i.limit_key COLLATE "C" = e.key AND i.priority = p.priority::smallint
        AND i.crashes < 2 AND i.limit_key IS NOT NULL AND ${MAY_START}
      ORDER BY i.available_at, i.position
      LIMIT least(most_jobs, e.tokens)
    ) AS c
    LIMIT least(most_jobs, e.tokens)
  ) AS c ON true
  WHERE e.goes_on;
END
$fn$;
`,
};
