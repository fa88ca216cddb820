/**
 * Choosing the jobs of a claim where keys take turns (`ordering` is `turns`).
 *
 * At most so many jobs of a key, and of a group, are in somebody's hands. A snapshot cannot promise that: two claims
 * that read at the same time both see room for one more. So jobs of a bucket are taken under its mutex, an advisory
 * lock of the transaction, and what is held is counted by a statement that begins after the mutex was taken: each
 * statement of a VOLATILE function has a snapshot of its own. A mutex is released after the commit is visible, so the
 * count misses nothing. What leaves meanwhile makes the count too high, never too low. A bucket that somebody else is
 * claiming from is passed over and reported.
 *
 * What is held is read from the workers' claims, so a settle writes nothing for it and a dead worker leaves nothing
 * behind. A job counts until its row says otherwise, also after its lease ran out.
 */
import type { FunctionFile } from '../../function-file.js';
import { QUEUE_OF_TURNS } from './held.sql.js';

export const turns: FunctionFile = {
  name: 'turns',
  of: 'queue',
  text: `
-- Which jobs a claim may take where keys take turns. It returns one row for each, locked, with its place in the order in
-- which they are to be started; rows with a time at which a bucket is to be read again; and last one row about the whole claim.
-- A stretch is read from behind a place to another one; for places see inbox_turns_walk.
CREATE OR REPLACE FUNCTION holdfast.inbox_turns(
  most integer, types text[], versions jsonb,
  from_buckets integer[], after_places text[], until_buckets integer[],
  again boolean, soon_ms integer, max_keys integer,
  OUT place tid, OUT turn bigint, OUT more boolean, OUT due text,
  OUT stop_stretch integer, OUT stop_bucket integer, OUT stop_place text, OUT busy text
) RETURNS SETOF record LANGUAGE plpgsql AS $fn$
DECLARE
  queue   record;
  soon    timestamptz := now() + soon_ms * interval '1 millisecond';
  held    jsonb := '{}';
  walked  record;
  mine    integer[];
  rounds  integer := 1;
BEGIN
  SELECT ${QUEUE_OF_TURNS} INTO queue FROM holdfast.queues AS q
  WHERE q.name = 'inbox' AND NOT q.paused AND q.ordering = 'turns'
    AND coalesce(q.limits_version = (versions -> '')::bigint, true);
  IF NOT FOUND OR most < 1 THEN
    RETURN;
  ELSIF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'claims of queue % need READ COMMITTED: nothing was claimed', quote_literal('inbox')
      USING ERRCODE = '0A000', HINT = 'In a stricter transaction a claim cannot see what others hold.';
  END IF;
  IF queue.per_group IS NOT NULL THEN
    held := holdfast.inbox_turns_held(NULL, queue.per_group);
  END IF;

  -- Which keys have room and something to take. This is a guess; it says which mutexes to take.
  SELECT w.*, w.stretch > cardinality(from_buckets) AS came_round INTO walked
  FROM holdfast.inbox_turns_walk(queue, held, most, types, versions, from_buckets, after_places[1], until_buckets,
    soon, max_keys) AS w;
  SELECT array_agg(m.bucket) FILTER (WHERE m.locked), string_agg(m.bucket::text, ',') FILTER (WHERE NOT m.locked)
  INTO mine, busy
  FROM (
    SELECT b.bucket, pg_try_advisory_xact_lock('holdfast.inbox'::regclass::oid::integer, b.bucket + 1) AS locked
    FROM (SELECT DISTINCT u.bucket FROM unnest(walked.buckets) AS u(bucket)) AS b
  ) AS m;
  IF mine IS NOT NULL AND (queue.per_key IS NOT NULL OR queue.per_group IS NOT NULL OR queue.windows) THEN
    held := holdfast.inbox_turns_held(mine, NULL);
  END IF;
  IF walked.wanted >= most THEN
    RETURN QUERY SELECT f.*, NULL::integer, NULL::integer, NULL::text, NULL::text
    FROM holdfast.inbox_turns_found(queue, held, types, versions, mine, walked.buckets, walked.groups, walked.keys,
      walked.jobs, walked.ends, walked.places) AS f;
  ELSIF mine IS NOT NULL THEN
    -- As many rounds as fill the room, and more, because lines may be short.
    IF again AND queue.fair AND walked.came_round THEN
      rounds := 2 * ceil(most::numeric / walked.turn_size)::integer;
    END IF;
    RETURN QUERY SELECT r.*, NULL::integer, NULL::integer, NULL::text, NULL::text
    FROM holdfast.inbox_turns_rounds(queue, held, types, versions, mine, walked.buckets, walked.groups, walked.keys,
      walked.weights, walked.parts, walked.from_ats, walked.from_positions, walked.reads, most, rounds, soon) AS r;
  END IF;
  stop_stretch := CASE WHEN NOT walked.came_round THEN walked.stretch END;
  stop_bucket := walked.bucket;
  stop_place := walked.stop;
  due := walked.due;
  RETURN NEXT;
END
$fn$;
`,
};
