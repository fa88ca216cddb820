/**
 * The first step of a claim where keys take turns: from key to key, which have room and something to take. It is a guess
 * of one snapshot, without locks: it says which mutexes to take.
 *
 * Every walk is bounded: in keys, in buckets with jobs, and in jobs read. It says where it stopped, also in the middle of a
 * line, and the next claim goes on from there. So jobs that cannot start never hide one that can, however many they are.
 */
import type { FunctionFile } from '../../function-file.js';
import { ROOM_OF_GROUP, WINDOW_OF } from './held.sql.js';

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
-- The keys that have room and jobs, as lists in the order of their turns. jobs: how many of each may be taken; their places
-- stand one after the other, and those of a key end with number ends. They were found by reading reads jobs of its line
-- behind the one at from_ats and from_positions. due: when there may be more, and where. stop: where the walk ended, in the
-- stretch and bucket: the JSON of a group, a key, how much of its turn is left, and, in the middle of a line, the due time and
-- position of the last job read. '' is the start of a bucket. Only the first stretch may begin at such a place.
CREATE OR REPLACE FUNCTION holdfast.inbox_turns_walk(
  queue record, held jsonb, most integer, types text[], versions jsonb,
  from_buckets integer[], after_place text, until_buckets integer[], soon timestamptz, max_keys integer
) RETURNS TABLE (
  stretch integer, bucket integer, stop jsonb, wanted integer, buckets integer[], groups text[], keys text[], jobs integer[],
  ends integer[], weights integer[], parts integer[], from_ats timestamptz[], from_positions bigint[], reads integer[],
  turn_size bigint, places tid[], due text
) LANGUAGE plpgsql AS $fn$
#variable_conflict use_column
DECLARE
  start     jsonb := nullif(after_place, '')::jsonb;
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
      n.left, CASE WHEN n.left = 0 THEN ${END_AT} ELSE coalesce(l.cut_at, r.from_at) END,
      CASE WHEN n.left = 0 THEN ${END_POSITION} ELSE coalesce(l.cut_position, r.from_position) END,
      w.wanted + n.jobs, w.buckets + CASE WHEN n.jobs > 0 AND h.bucket <> w.last_bucket THEN 1 ELSE 0 END,
      CASE WHEN n.jobs > 0 THEN h.bucket ELSE w.last_bucket END, n.jobs, n.places, r.weight, r.part,
      r.from_at, r.from_position, n.read, w.read_all + n.read, CASE WHEN h.at > now() THEN h.at ELSE d.at END
    FROM walk AS w
    LEFT JOIN LATERAL holdfast.inbox_turns_next(
      types, versions, queue.paused_types, w.bucket, w.grp, w.key, w.at, w.position, until_buckets[w.stretch]) AS h ON true
    CROSS JOIN LATERAL (
      SELECT o.*, CASE WHEN h.key = ANY (queue.paused_keys) OR h.at > now() THEN 0
        ELSE greatest(0, least(most - w.wanted, o.per_key, o.of_group, o.part)) END AS room FROM (
        SELECT k.weight, k.per_key, CASE WHEN h.same AND queue.fair THEN w.left ELSE k.weight END AS part, ${ROOM_OF_GROUP('h.grp')} AS of_group,
          CASE WHEN h.same THEN w.at ELSE '-infinity' END AS from_at, CASE WHEN h.same THEN w.position ELSE 0 END AS from_position
        FROM (SELECT CASE WHEN queue.fair THEN coalesce((queue.weights ->> h.key)::integer, 1) ELSE most END AS weight,
          ${WINDOW_OF('h.key')} AS per_key OFFSET 0) AS k OFFSET 0 -- Without it, each would be computed again wherever it is used.
      ) AS o OFFSET 0
    ) AS r
    CROSS JOIN LATERAL (
      -- The head alone tells, nearly always.
      SELECT ARRAY[h.place] AS places, 1 AS jobs, 1 AS read, false AS goes_on WHERE h.ready AND r.room = 1
      UNION ALL
      SELECT f.* FROM holdfast.inbox_turns_front(types, versions, queue.paused_types, h.bucket, h.grp, h.key,
        r.from_at, r.from_position, r.per_key, r.room) AS f
      WHERE (h.ready AND r.room = 1) IS NOT TRUE
    ) AS f
    LEFT JOIN LATERAL (
      SELECT l.* FROM holdfast.inbox_turns_deep(types, versions, queue.paused_types, h.bucket, h.grp, h.key,
        r.from_at, r.from_position, r.per_key, r.room, most_read - w.read_all) AS l
      WHERE f.goes_on OFFSET 0
    ) AS l ON true
    CROSS JOIN LATERAL (
      SELECT coalesce(l.jobs, f.jobs) AS jobs, coalesce(l.places, f.places) AS places, greatest(1, l.read, f.read) AS read,
        CASE WHEN l.cut_at IS NOT NULL OR queue.fair AND w.wanted + coalesce(l.jobs, f.jobs) >= most
          THEN r.part - coalesce(l.jobs, f.jobs) ELSE 0 END AS left
    ) AS n
    -- A key of which nothing can be taken yet: when will that be?
    LEFT JOIN LATERAL holdfast.inbox_turns_due(
      h.bucket, h.grp, h.key, soon, n.jobs = 0 AND r.room > 0 AND l.cut_at IS NULL) AS d ON true
    WHERE w.wanted < most AND w.step < max_keys AND w.buckets < ${MOST_BUCKETS} AND w.read_all < most_read
      AND w.stretch <= cardinality(from_buckets)
  )
  SELECT e.stretch, e.bucket, jsonb_build_array(e.grp, e.key, e.left) || CASE WHEN e.left > 0 AND e.at > '-infinity'
      THEN jsonb_build_array(e.at, e.position) ELSE '[]' END, e.wanted, k.*,
    (SELECT array_agg(p.place) FROM (SELECT unnest(w.places[1 : w.jobs]) AS place FROM walk AS w WHERE w.jobs > 0) AS p),
    (SELECT string_agg(ceil(extract(epoch FROM w.due_at - now()) * 1000) || ':' || w.bucket, ',') FROM walk AS w WHERE w.due_at < soon)
  FROM (SELECT w.* FROM walk AS w ORDER BY w.step DESC LIMIT 1) AS e
  CROSS JOIN (
    SELECT array_agg(w.bucket), array_agg(w.grp), array_agg(w.key), array_agg(w.jobs), array_agg(w.wanted), array_agg(w.weight),
      array_agg(w.part), array_agg(w.from_at), array_agg(w.from_position), array_agg(w.read), sum(least(w.weight, most))
    FROM walk AS w WHERE w.jobs > 0
  ) AS k;
END
$fn$;
`,
};
