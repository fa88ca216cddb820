/**
 * What workers of version 0.1 call. They leave jobs of limited types to newer workers, which count permits in another way,
 * and are told to ask again in a second. Everything else they go on doing.
 */
import type { FunctionFile } from '../../function-file.js';

export const legacy: FunctionFile = {
  name: 'legacy',
  of: 'queue',
  text: `
CREATE OR REPLACE FUNCTION holdfast.inbox_allowance(
  wanted integer, under text, OUT jobs integer, OUT again_ms bigint, OUT rate_id integer, OUT base timestamptz,
  OUT pace interval
) LANGUAGE sql AS $fn$
  SELECT CASE WHEN under IS NULL THEN wanted ELSE 0 END, CASE WHEN under IS NOT NULL THEN 1000 END,
    NULL::integer, NULL::timestamptz, NULL::interval
$fn$;

CREATE OR REPLACE FUNCTION holdfast.inbox_claim_limited(
  worker text, lease_ms integer, number bigint, finished bigint[], wanted integer, types text[], versions jsonb,
  priorities smallint[], after_at timestamptz[], after_position bigint[], of_type text, suspects boolean,
  suspect_lock integer, lag_ms integer
) RETURNS TABLE (
  epoch bigint, clock bigint, seen_until timestamptz, again_ms bigint, throttled bigint, more boolean, waits boolean,
  left_priority smallint, left_at timestamptz, left_position bigint, isolated boolean,
  id uuid, type text, version integer, partition_key text, payload jsonb, headers jsonb, attempts integer,
  max_attempts integer, lease_generation bigint, crashes integer, created_at timestamptz, partition_bucket integer,
  priority smallint, taken boolean, cursor_at timestamptz, cursor_position bigint
) LANGUAGE sql SET enable_hashjoin = on AS $fn$
  SELECT f.epoch, (date_part('epoch', now()) * 1000)::bigint, now() - lag_ms * interval '1 millisecond', 1000::bigint,
    0::bigint, false, true, NULL::smallint, NULL::timestamptz, NULL::bigint, false,
    NULL::uuid, NULL::text, NULL::integer, NULL::text, NULL::jsonb, NULL::jsonb, NULL::integer,
    NULL::integer, NULL::bigint, NULL::integer, NULL::timestamptz, NULL::integer,
    NULL::smallint, NULL::boolean, NULL::timestamptz, NULL::bigint
  FROM holdfast.fleet AS f WHERE f.one
$fn$;
`,
};
