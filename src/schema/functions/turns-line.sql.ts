/**
 * What is read of a queue whose keys take turns. These are functions in SQL of one query, so Postgres puts them into the
 * queries that call them, at no cost.
 */
import type { FunctionFile } from '../function-file.js';

/** Nobody has it or its owner has vanished; this worker handles it, and its type is not paused. */
export const READY = (paused: string) => `(i.status = 'pending' OR i.lease_expires_at <= now())
      AND (i.version = 1 AND i.type = ANY (types) OR i.version <= (versions -> i.type)::integer)
      AND (i.type = ANY (${paused})) IS NOT TRUE`;

/** A place in the index, and the order of its rows. */
const PLACE = `i.partition_bucket, coalesce(i.group_key, '') COLLATE "C", i.partition_key COLLATE "C", i.available_at, i.position`;

export const turnsLine: FunctionFile = {
  name: 'turns-line',
  of: 'queue',
  text: `
-- The first job behind a place, if it is in a bucket before another one. same: the place is in its line.
CREATE OR REPLACE FUNCTION holdfast.inbox_turns_next(
  types text[], versions jsonb, paused text[],
  after_bucket integer, after_group text, after_key text, after_at timestamptz, after_position bigint, until_bucket integer
) RETURNS TABLE (place tid, bucket integer, grp text, key text, at timestamptz, ready boolean, same boolean)
  LANGUAGE sql STABLE AS $fn$
  SELECT i.ctid, i.partition_bucket, coalesce(i.group_key, '') COLLATE "C", i.partition_key COLLATE "C", i.available_at,
    i.available_at <= now() AND ${READY('paused')},
    i.partition_key COLLATE "C" = after_key COLLATE "C" AND coalesce(i.group_key, '') COLLATE "C" = after_group COLLATE "C"
  FROM holdfast.inbox AS i
  WHERE NOT i.parked AND i.crashes < 2 AND i.partition_bucket < until_bucket
    AND (${PLACE}) > (after_bucket, after_group COLLATE "C", after_key COLLATE "C", after_at, after_position)
  ORDER BY ${PLACE}
  LIMIT 1
$fn$;

-- The line of a key behind a job, as its jobs become due, until a time: those that are ready, those that run if asked for,
-- and the last one. At most so many are read. cut: it is the last of those, and there may be others.
CREATE OR REPLACE FUNCTION holdfast.inbox_turns_line(
  types text[], versions jsonb, paused text[], of_bucket integer, of_group text, of_key text,
  after_at timestamptz, after_position bigint, until timestamptz, most bigint, show_running boolean
) RETURNS TABLE (place tid, at timestamptz, place_in_line bigint, nth bigint, ready boolean, runs boolean, cut boolean)
  LANGUAGE sql STABLE AS $fn$
  SELECT l.ctid, l.available_at, l.position, l.nth, l.ready, l.runs, l.nth >= most
  FROM (
    SELECT i.*, ${READY('paused')} AS ready,
      show_running AND i.lease_expires_at > now() AS runs
    FROM (
      SELECT i.ctid, i.available_at, i.position, i.status, i.lease_expires_at, i.version, i.type,
        row_number() OVER q AS nth, lead(true) OVER q IS NULL AS last
      FROM holdfast.inbox AS i
      WHERE NOT i.parked AND i.crashes < 2 AND i.partition_bucket = of_bucket
        AND coalesce(i.group_key, '') COLLATE "C" = of_group COLLATE "C" AND i.partition_key COLLATE "C" = of_key COLLATE "C"
        AND (i.available_at, i.position) > (after_at, after_position) AND i.available_at < until
      WINDOW q AS (ORDER BY i.available_at, i.position)
      ORDER BY i.available_at, i.position
      LIMIT most
    ) AS i
  ) AS l
  WHERE l.ready OR l.runs OR l.last OR l.nth >= most
$fn$;
`,
};
