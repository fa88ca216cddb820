/**
 * What is read of a queue whose keys take turns. These are functions in SQL of one query, so Postgres puts them into the
 * queries that call them, at no cost.
 */
import type { FunctionFile } from '../../function-file.js';

/** Nobody has it or its owner has vanished; this worker handles it, and its type is not paused. */
export const READY = (paused: string) => `(i.status = 'pending' OR i.lease_expires_at <= now())
      AND (i.version = 1 AND i.type = ANY (types) OR i.version <= (versions -> i.type)::integer)
      AND (i.type = ANY (${paused})) IS NOT TRUE`;

/** A place in the index, and the order of its rows. */
const PLACE = `i.partition_bucket, coalesce(i.group_key, '') COLLATE "C", i.partition_key COLLATE "C", i.available_at, i.position`;

/** Of the line of one key. */
const OF_LINE = `NOT i.parked AND i.crashes < 2 AND i.partition_bucket = of_bucket
    AND coalesce(i.group_key, '') COLLATE "C" = of_group COLLATE "C" AND i.partition_key COLLATE "C" = of_key COLLATE "C"`;

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

-- When the next job of a key is due, if that is before a time and was asked for.
CREATE OR REPLACE FUNCTION holdfast.inbox_turns_due(
  of_bucket integer, of_group text, of_key text, before timestamptz, asked boolean
) RETURNS TABLE (at timestamptz) LANGUAGE sql STABLE AS $fn$
  SELECT i.available_at FROM holdfast.inbox AS i
  WHERE ${OF_LINE} AND i.available_at > now() AND i.available_at < before AND asked
  ORDER BY i.available_at, i.position
  LIMIT 1
$fn$;

-- The line of a key behind a job, as its jobs become due, until a time. At most so many are read; cut: it is the last of those.
CREATE OR REPLACE FUNCTION holdfast.inbox_turns_line(
  types text[], versions jsonb, paused text[], of_bucket integer, of_group text, of_key text,
  after_at timestamptz, after_position bigint, until timestamptz, most bigint
) RETURNS TABLE (place tid, at timestamptz, place_in_line bigint, nth bigint, cut boolean, ready boolean, runs boolean)
  LANGUAGE sql STABLE AS $fn$
  SELECT i.ctid, i.available_at, i.position, i.nth, i.nth >= most, ${READY('paused')},
    i.lease_expires_at > now()
  FROM (
    SELECT i.ctid, i.available_at, i.position, i.status, i.lease_expires_at, i.version, i.type,
      row_number() OVER (ORDER BY i.available_at, i.position) AS nth
    FROM holdfast.inbox AS i
    WHERE ${OF_LINE}
      AND (i.available_at, i.position) > (after_at, after_position) AND i.available_at <= until
    ORDER BY i.available_at, i.position
    LIMIT most
  ) AS i
$fn$;

-- What of the first jobs of such a line may be taken, if there is room for so many. What runs stands before the rest, nearly
-- always. read: how many were read. goes_on: there is room left, and there may be others behind.
CREATE OR REPLACE FUNCTION holdfast.inbox_turns_front(
  types text[], versions jsonb, paused text[], of_bucket integer, of_group text, of_key text,
  after_at timestamptz, after_position bigint, per_key integer, room integer
) RETURNS TABLE (places tid[], jobs integer, read integer, goes_on boolean) LANGUAGE sql STABLE AS $fn$
  SELECT f.places, least(f.fits, f.ready), f.read, f.ready < f.fits AND f.read >= room + coalesce(per_key, 0)
  FROM (
    SELECT array_agg(l.ctid) FILTER (WHERE l.ready) AS places, count(*) FILTER (WHERE l.ready)::integer AS ready,
      greatest(0, least(room, per_key - count(*) FILTER (WHERE l.lease_expires_at > now())))::integer AS fits, count(*)::integer AS read
    FROM (
      SELECT i.ctid, i.lease_expires_at, ${READY('paused')} AS ready
      FROM holdfast.inbox AS i
      WHERE ${OF_LINE}
        AND (i.available_at, i.position) > (after_at, after_position) AND i.available_at <= now() AND room > 0
      ORDER BY i.available_at, i.position
      LIMIT room + coalesce(per_key, 0)
    ) AS l
    OFFSET 0
  ) AS f
$fn$;

-- The same of at most so many jobs of a line. cut_at, cut_position: the last of those, if there is room left and there may
-- be others. It is rarely called, so it is not put into the query of the caller.
CREATE OR REPLACE FUNCTION holdfast.inbox_turns_deep(
  types text[], versions jsonb, paused text[], of_bucket integer, of_group text, of_key text,
  after_at timestamptz, after_position bigint, per_key integer, room integer, most bigint
) RETURNS TABLE (places tid[], jobs integer, read integer, cut_at timestamptz, cut_position bigint)
  LANGUAGE plpgsql STABLE AS $fn$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT f.places, least(f.fits, f.ready), f.read,
    CASE WHEN f.ready < f.fits THEN f.cut_at END, CASE WHEN f.ready < f.fits THEN f.cut_position END
  FROM (
    SELECT array_agg(l.place) FILTER (WHERE l.ready) AS places, count(*) FILTER (WHERE l.ready)::integer AS ready,
      greatest(0, least(room, per_key - count(*) FILTER (WHERE l.runs)))::integer AS fits, coalesce(max(l.nth), 1)::integer AS read,
      max(l.at) FILTER (WHERE l.cut) AS cut_at, max(l.place_in_line) FILTER (WHERE l.cut) AS cut_position
    FROM (
      SELECT l.*
      FROM (
        SELECT l.*, lead(true) OVER (ORDER BY l.nth) IS NULL AS last
        FROM holdfast.inbox_turns_line(types, versions, paused, of_bucket, of_group, of_key, after_at, after_position,
          now(), most) AS l
      ) AS l
      WHERE l.ready OR l.runs AND per_key IS NOT NULL OR l.last
      LIMIT room + coalesce(per_key, 0)
    ) AS l
  ) AS f;
END
$fn$;
`,
};
