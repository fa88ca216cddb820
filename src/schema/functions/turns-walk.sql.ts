/**
 * The first step of a claim where keys take turns: from key to key, which have room and something to take. It is a guess
 * of one snapshot, without locks: it says which mutexes to take.
 *
 * Every walk is bounded: in keys, in buckets with jobs, and in jobs read. It says where it stopped, also in the middle of a
 * line, and the next claim goes on from there. So jobs that cannot start never hide one that can, however many they are.
 */
import type { FunctionFile } from '../function-file.js';
import { ROOM_OF_GROUP } from './held.sql.js';

/** Each is one lock of the server's table of locks. */
const MOST_BUCKETS = 128;
/**
 * A claim reads at most so many jobs, beyond those that it wants. Jobs that run, and those of types that are paused or not
 * handled here, stand before the others in the line of a key.
 */
export const MOST_READ = 5_000;
/** Behind the last job of a key. */
const END_AT = `'infinity'::timestamptz`;
const END_POSITION = '9223372036854775807';

export const turnsWalk: FunctionFile = {
  name: 'turns-walk',
  of: 'queue',
  text: `
-- One row for each step from key to key. jobs and places: what may be taken of the key. That was found by reading so many
-- jobs (read) of its line behind the one at from_at and from_position. due_at: when there may be more. stop: the place
-- behind this step, the JSON of a group, a key, how much of its turn is left, and, in the middle of a line, the due time and
-- position of the last job read. '' is the start of a bucket. Only the first stretch may begin at a place.
CREATE OR REPLACE FUNCTION holdfast.inbox_turns_walk(
  queue holdfast.queues, held jsonb, most integer, types text[], versions jsonb,
  from_buckets integer[], after_place text, until_buckets integer[], soon timestamptz, max_keys integer
) RETURNS TABLE (
  step integer, stretch integer, bucket integer, grp text, key text, stop jsonb, wanted integer, jobs integer, places tid[],
  weight integer, part integer, from_at timestamptz, from_position bigint, read integer, due_at timestamptz
) LANGUAGE plpgsql AS $fn$
#variable_conflict use_column
DECLARE
  start     jsonb := nullif(after_place, '')::jsonb;
  now_due   timestamptz := now() + interval '1 microsecond';
  most_read integer := most + ${MOST_READ};
BEGIN
  RETURN QUERY WITH RECURSIVE walk AS (
    SELECT 0 AS step, 1 AS stretch, from_buckets[1] AS bucket, coalesce(start ->> 0, '') COLLATE "C" AS grp,
      coalesce(start ->> 1, '') COLLATE "C" AS key, coalesce((start ->> 2)::integer, 0) AS left,
      coalesce((start ->> 3)::timestamptz, CASE WHEN (start ->> 2)::integer > 0 THEN '-infinity' ELSE ${END_AT} END) AS at,
      coalesce((start ->> 4)::bigint, ${END_POSITION}) AS position, 0 AS wanted, 0 AS buckets, -1 AS last_bucket, 0 AS jobs,
      NULL::tid[] AS places, 0 AS weight, 0 AS part, NULL::timestamptz AS from_at, 0::bigint AS from_position, 0 AS read,
      0 AS read_all, NULL::timestamptz AS due_at
    UNION ALL
    SELECT w.step + 1, CASE WHEN h.bucket IS NULL THEN w.stretch + 1 ELSE w.stretch END,
      CASE WHEN h.bucket IS NULL THEN from_buckets[w.stretch + 1] ELSE h.bucket END,
      -- A full group is passed as a whole: no other group stands between it and this place.
      CASE WHEN h.bucket IS NULL THEN '' WHEN r.of_group <= 0 THEN h.grp || chr(1) ELSE h.grp END COLLATE "C",
      CASE WHEN h.bucket IS NULL OR r.of_group <= 0 THEN '' ELSE h.key END COLLATE "C",
      -- In the middle of a turn or of a line: the next walk goes on with the rest of it.
      n.left, CASE WHEN n.left = 0 THEN ${END_AT} ELSE coalesce(n.cut_at, r.from_at) END,
      CASE WHEN n.left = 0 THEN ${END_POSITION} ELSE coalesce(n.cut_position, r.from_position) END,
      w.wanted + n.jobs, w.buckets + CASE WHEN n.jobs > 0 AND h.bucket <> w.last_bucket THEN 1 ELSE 0 END,
      CASE WHEN n.jobs > 0 THEN h.bucket ELSE w.last_bucket END, n.jobs, n.places, r.weight, r.part,
      r.from_at, r.from_position, n.read, w.read_all + n.read, CASE WHEN h.at > now() THEN h.at ELSE d.at END
    FROM walk AS w
    LEFT JOIN LATERAL holdfast.inbox_turns_next(
      types, versions, queue.paused_types, w.bucket, w.grp, w.key, w.at, w.position, until_buckets[w.stretch]) AS h ON true
    CROSS JOIN LATERAL (
      SELECT o.*, CASE WHEN h.key = ANY (queue.paused_keys) OR h.at > now() THEN 0
        ELSE greatest(0, least(most - w.wanted, queue.per_key, o.of_group, o.part)) END AS room
      FROM (
        SELECT k.weight, CASE WHEN h.same AND queue.fair THEN w.left ELSE k.weight END AS part, ${ROOM_OF_GROUP('h.grp')} AS of_group,
          CASE WHEN h.same THEN w.at ELSE '-infinity' END AS from_at, CASE WHEN h.same THEN w.position ELSE 0 END AS from_position
        FROM (SELECT CASE WHEN queue.fair THEN coalesce((queue.weights ->> h.key)::integer, 1) ELSE most END AS weight OFFSET 0) AS k
        -- Without it, each of these would be computed again wherever it is used.
        OFFSET 0
      ) AS o OFFSET 0
    ) AS r
    CROSS JOIN LATERAL (
      SELECT p.*, CASE WHEN p.cut_at IS NOT NULL AND p.jobs < p.fits OR queue.fair AND w.wanted + p.jobs >= most
        THEN r.part - p.jobs ELSE 0 END AS left
      FROM (
        -- The head alone tells, nearly always. What of the key runs stands before the rest, nearly always.
        SELECT CASE WHEN h.ready AND r.room = 1 THEN ARRAY[h.place] ELSE array_agg(l.place) FILTER (WHERE l.ready) END AS places,
          least(r.room, queue.per_key - count(*) FILTER (WHERE l.runs)) AS fits, coalesce(max(l.nth), 1)::integer AS read,
          CASE WHEN h.ready AND r.room = 1 THEN 1 ELSE greatest(0, least(r.room, count(*) FILTER (WHERE l.ready),
            queue.per_key - count(*) FILTER (WHERE l.runs))) END::integer AS jobs,
          max(l.at) FILTER (WHERE l.cut) AS cut_at, max(l.place_in_line) FILTER (WHERE l.cut) AS cut_position
        FROM (
          SELECT l.* FROM holdfast.inbox_turns_line(types, versions, queue.paused_types, h.bucket, h.grp, h.key,
            r.from_at, r.from_position, now_due, most_read - w.read_all, queue.per_key IS NOT NULL) AS l
          WHERE r.room > 1 OR r.room = 1 AND NOT h.ready
          LIMIT r.room + coalesce(queue.per_key, 0)
        ) AS l OFFSET 0
      ) AS p OFFSET 0
    ) AS n
    -- A key of which nothing can be taken yet: when will that be?
    LEFT JOIN LATERAL holdfast.inbox_turns_next(types, versions, queue.paused_types,
      CASE WHEN n.jobs = 0 AND r.room > 0 AND n.cut_at IS NULL THEN h.bucket END, h.grp, h.key, now(), ${END_POSITION}, h.bucket + 1
    ) AS d ON d.same AND d.at < soon
    WHERE w.wanted < most AND w.step < max_keys AND w.buckets < ${MOST_BUCKETS} AND w.read_all < most_read
      AND w.stretch <= cardinality(from_buckets)
  )
  SELECT w.step, w.stretch, w.bucket, w.grp, w.key,
    jsonb_build_array(w.grp, w.key, w.left) || CASE WHEN w.left > 0 AND w.at > '-infinity'
      THEN jsonb_build_array(w.at, w.position) ELSE '[]' END,
    w.wanted, w.jobs, w.places, w.weight, w.part, w.from_at, w.from_position, w.read, w.due_at
  FROM walk AS w;
END
$fn$;
`,
};
