/**
 * The last step of a claim where keys take turns: which jobs of the keys that a walk found are taken, with the mutexes of
 * their buckets and the count of what is held. The rows are locked, in the version that was seen, or left.
 *
 * The lists `buckets`, `groups` and `keys` name the keys, in the order of their turns.
 */
import type { FunctionFile } from '../../function-file.js';
import { ROOM_OF_GROUP, ROOM_OF_KEY } from './held.sql.js';
import { READY } from './turns-line.sql.js';
import { MOST_READ } from './turns-walk.sql.js';

export const turnsChoose: FunctionFile = {
  name: 'turns-choose',
  of: 'queue',
  text: `
-- The walk has found enough: what it read is taken as far as there is room, and more may wait anywhere. places are those of
-- all keys, one after the other; jobs and ends say how many a key has of them and with which they end.
CREATE OR REPLACE FUNCTION holdfast.inbox_turns_found(
  queue record, held jsonb, types text[], versions jsonb, mine integer[],
  buckets integer[], groups text[], keys text[], jobs integer[], ends integer[], places tid[]
) RETURNS TABLE (place tid, turn bigint, more boolean, due text) LANGUAGE plpgsql AS $fn$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH chosen AS MATERIALIZED (
    SELECT o.place
    FROM (
      SELECT c.of_group, places[c.ends - c.jobs + c.nth] AS place,
        CASE WHEN c.of_group IS NOT NULL THEN row_number() OVER (PARTITION BY c.grp ORDER BY c.n, c.nth) END AS in_group
      FROM (
        SELECT k.*, ${ROOM_OF_GROUP('k.grp')} AS of_group,
          generate_series(1, least(k.jobs, ${ROOM_OF_KEY('k.grp', 'k.key')})) AS nth
        FROM unnest(buckets, groups, keys, jobs, ends) WITH ORDINALITY AS k(bucket, grp, key, jobs, ends, n)
        WHERE k.bucket = ANY (mine)
      ) AS c
    ) AS o
    WHERE o.in_group IS NULL OR o.in_group <= o.of_group
  ), locked AS MATERIALIZED (
    SELECT i.ctid AS place FROM holdfast.inbox AS i
    WHERE i.ctid = ANY (ARRAY(SELECT c.place FROM chosen AS c)) AND ${READY('queue.paused_types')}
    FOR UPDATE SKIP LOCKED
  )
  -- No key has more than its turn here, so they start as they became due.
  SELECT l.place, 0::bigint, true, NULL::text FROM locked AS l
  UNION ALL
  SELECT NULL, 0, NULL, NULL FROM generate_series(1, (SELECT count(*) FROM chosen) - (SELECT count(*) FROM locked));
END
$fn$;

-- Every key has had its turn and there is room: their lines are read again, for so many rounds and to say what is left of
-- each. Of a line as much is read as the walk read of it, and a part of what a claim may read.
CREATE OR REPLACE FUNCTION holdfast.inbox_turns_rounds(
  queue record, held jsonb, types text[], versions jsonb, mine integer[],
  buckets integer[], groups text[], keys text[], weights integer[], parts integer[],
  from_ats timestamptz[], from_positions bigint[], reads integer[], most integer, rounds integer, soon timestamptz
) RETURNS TABLE (place tid, turn bigint, more boolean, due text) LANGUAGE plpgsql AS $fn$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH line AS MATERIALIZED (
    SELECT k.n, k.bucket, k.grp, l.place, l.at, l.nth, l.seen, k.of_group, l.ready,
      -- Part of a turn may have been taken before.
      CASE WHEN l.nth <= k.part THEN 0 ELSE (l.nth - k.part - 1) / k.weight + 1 END AS round,
      l.ready AND l.at <= now() AND l.nth <= k.room AS fits
    FROM (
      SELECT c.*, ${ROOM_OF_GROUP('c.grp')} AS of_group,
        least(most, ${ROOM_OF_KEY('c.grp', 'c.key')}, c.part + c.weight * (rounds - 1)) AS room
      FROM unnest(buckets, groups, keys, weights, parts, from_ats, from_positions, reads) WITH ORDINALITY
        AS c(bucket, grp, key, weight, part, from_at, from_position, read, n)
      WHERE c.bucket = ANY (mine)
      OFFSET 0
    ) AS k
    CROSS JOIN LATERAL (
      SELECT s.*, row_number() OVER () AS nth, count(*) OVER () AS seen
      FROM (
        SELECT i.place, i.at, i.ready
        FROM holdfast.inbox_turns_line(types, versions, queue.paused_types, k.bucket, k.grp, k.key, k.from_at, k.from_position,
          greatest(soon, now()), k.read + (most + ${MOST_READ}) / cardinality(keys)) AS i
        -- The last one that may be read counts as one more.
        WHERE i.ready OR i.cut
        -- One more: it says whether something is left.
        LIMIT greatest(k.room, 0) + 1
      ) AS s
    ) AS l
  ), chosen AS MATERIALIZED (
    SELECT o.n, o.place, o.seen, o.crowded, row_number() OVER (ORDER BY o.round, o.n, o.nth) AS turn
    FROM (
      SELECT l.*, CASE WHEN l.of_group IS NOT NULL
        THEN row_number() OVER (PARTITION BY l.grp ORDER BY l.round, l.n, l.nth) END AS in_group,
        -- Other keys of its group wait for its place.
        coalesce(count(*) OVER (PARTITION BY l.grp) > l.of_group, false) AS crowded
      FROM line AS l WHERE l.fits
    ) AS o
    WHERE o.in_group IS NULL OR o.in_group <= o.of_group
    ORDER BY o.round, o.n, o.nth
    LIMIT most
  )
  -- Of some keys and groups more was seen than is taken.
  SELECT l.place, c.turn, c.crowded OR c.seen > count(*) OVER (PARTITION BY c.n), NULL::text
  FROM chosen AS c
  -- Somebody may have changed the row, or holds it: then it is not taken, and counted as wanted.
  LEFT JOIN LATERAL (
    SELECT i.ctid AS place FROM holdfast.inbox AS i WHERE i.ctid = c.place FOR UPDATE SKIP LOCKED
  ) AS l ON l.place = c.place
  UNION ALL
  SELECT NULL, NULL, NULL, ceil(extract(epoch FROM l.at - now()) * 1000) || ':' || l.bucket
  FROM line AS l WHERE l.ready AND l.at > now();
END
$fn$;
`,
};
