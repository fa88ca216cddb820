/** Which keys of a rate have jobs and a token, in a queue that is read by time. */
import type { FunctionFile } from '../../function-file.js';
import { TAT, TOKENS } from './allow.sql.js';

export const rateKeys: FunctionFile = {
  name: 'rate-keys',
  of: 'queue',
  text: `
-- Walks the keys of jobs that have one, from behind a key, at most so many of each type. tokens: how many of the key may
-- start now; again_ms: when there is another. It is a guess: inbox_allow decides.
CREATE OR REPLACE FUNCTION holdfast.inbox_rate_keys(
  types text[], after_keys text[], most_keys integer, most_jobs integer,
  OUT type text, OUT key text, OUT tokens integer, OUT again_ms bigint
) RETURNS SETOF record LANGUAGE plpgsql AS $fn$
#variable_conflict use_column
DECLARE
  moment timestamptz := clock_timestamp();
BEGIN
  RETURN QUERY
  WITH RECURSIVE keys AS (
    SELECT t.type, t.after COLLATE "C" AS key, 0 AS nth FROM unnest(types, after_keys) AS t(type, after)
    UNION ALL
    SELECT k.type, (
      SELECT i.limit_key COLLATE "C" FROM holdfast.inbox AS i
      WHERE i.type COLLATE "C" = k.type AND i.limit_key COLLATE "C" > k.key AND i.limit_key IS NOT NULL AND i.crashes < 2
      ORDER BY i.limit_key COLLATE "C" LIMIT 1), k.nth + 1
    FROM keys AS k
    WHERE k.key IS NOT NULL AND k.nth < most_keys
  )
  SELECT k.type, k.key, least(most_jobs, coalesce(t.tokens, most_jobs))::integer,
    ceil(extract(epoch FROM coalesce(t.tat, moment)
      + (coalesce(t.tokens, l.rate_burst) - (l.rate_burst - 1)) * l.pace * interval '1 second' - moment) * 1000)::bigint
  FROM keys AS k
  LEFT JOIN (
    SELECT l.id, l.type, l.rate_burst, l.updated_at, extract(epoch FROM l.rate_per)::double precision / l.rate_limit AS pace
    FROM holdfast.limits AS l WHERE l.queue = 'inbox' AND l.keyed AND l.rate_limit IS NOT NULL
  ) AS l ON l.type = k.type
  LEFT JOIN LATERAL (
    SELECT n.tat, ${TOKENS('l.rate_burst', 'n.tat', 'l.pace')} AS tokens
    FROM (
      -- As its index has it: by another collation every key of the limit would be read.
      SELECT ${TAT('l.pace', 'l.updated_at')} AS tat FROM holdfast.rates AS r
      WHERE r.limit_id = l.id AND r.key = k.key COLLATE "default"
    ) AS n
  ) AS t ON true
  WHERE k.nth > 0 AND k.key IS NOT NULL;
END
$fn$;
`,
};
