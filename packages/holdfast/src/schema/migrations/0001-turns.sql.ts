/**
 * The part of migration 1 that chooses the jobs of a claim where keys take turns (`ordering` is `turns`).
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

/** One name for a key, with its group; and one for a group. */
const KEY_NAME = (group: string, key: string) =>
  `concat('k', length(${group}), ':', ${group}, ${key})`;
const GROUP_NAME = (group: string) => `concat('g', ${group})`;

/** How many jobs of each key and group are held, as a map. `from`: of which claimed jobs, with their buckets. */
const HELD = (from: string) => `(
    SELECT coalesce(jsonb_object_agg(h.name, h.jobs), '{}')
    FROM (
      SELECT n.name, count(*) AS jobs
      FROM (
        SELECT DISTINCT i.id, i.group_key, i.partition_key
        FROM ${from} AS j
        -- It has a limit, so it cannot be planned as a join that reads the whole queue.
        CROSS JOIN LATERAL (
          SELECT i.id, i.group_key, i.partition_key FROM holdfast.inbox AS i
          WHERE i.id = j.id AND i.status = 'processing' LIMIT 1
        ) AS i
        OFFSET 0
      ) AS i
      CROSS JOIN LATERAL (VALUES
        (${KEY_NAME("coalesce(i.group_key, '')", 'i.partition_key')}),
        (CASE WHEN i.group_key IS NOT NULL THEN ${GROUP_NAME('i.group_key')} END)
      ) AS n(name)
      WHERE n.name IS NOT NULL
      GROUP BY n.name
    ) AS h)`;

/** A claim that does not say where its jobs are has them anywhere. */
const CLAIMED = `holdfast.inbox_claims AS c CROSS JOIN LATERAL unnest(c.jobs, c.buckets) AS u(id, bucket)`;
const OF_CROWDED_BUCKETS = `(
          SELECT t.id FROM (
            SELECT u.id, u.bucket, count(*) OVER (PARTITION BY u.bucket) AS jobs FROM ${CLAIMED}
          ) AS t
          WHERE t.bucket IS NULL OR t.jobs >= queue.per_group)`;
const OF_MY_BUCKETS = `(
          SELECT u.id FROM ${CLAIMED}
          WHERE u.bucket IS NULL OR u.bucket BETWEEN lowest AND highest AND u.bucket = ANY (mine))`;
const OF_ALL = `(SELECT u.id FROM ${CLAIMED})`;

const ROOM_OF_KEY = (group: string, key: string) =>
  `(queue.per_key - coalesce((held ->> ${KEY_NAME(group, key)})::integer, 0))`;
const ROOM_OF_GROUP = (group: string) =>
  `(CASE WHEN ${group} <> '' THEN queue.per_group - coalesce((held ->> ${GROUP_NAME(group)})::integer, 0) END)`;

/** Due, and nobody has it or its owner has vanished; this worker handles it, and its type is not paused. */
const READY = `(i.status = 'pending' OR i.lease_expires_at <= now())
          AND (i.version = 1 AND i.type = ANY (types) OR i.version <= (versions -> i.type)::integer)
          AND (i.type = ANY (queue.paused_types)) IS NOT TRUE`;

/** The line of one key, `of`, as its jobs become due. */
const LINE = (of: string) => `holdfast.inbox AS i
          WHERE NOT i.parked AND i.crashes < 2 AND i.partition_bucket = ${of}.bucket
            AND coalesce(i.group_key, '') COLLATE "C" = ${of}.grp AND i.partition_key COLLATE "C" = ${of}.key`;

/** Jobs of a key that run, and those of types that this worker does not handle, stand before the others. */
const READ_OVER = 5_000;
/** Each is one lock of the server's table of locks. */
const MOST_BUCKETS = 128;

export const turns = `
-- Which jobs a claim may take where keys take turns. It returns one row for each, locked, with its place in the order in
-- which they are to be started; rows with a time at which a bucket is to be read again; and last one row about the whole claim.
-- A stretch is read from behind a place to another one; a place is the JSON of a group, a key, and how much of its
-- turn is left, or '' for the start of a bucket.
CREATE FUNCTION holdfast.inbox_turns(
  most integer, types text[], versions jsonb,
  from_buckets integer[], after_places text[], until_buckets integer[],
  again boolean, soon_ms integer, max_keys integer,
  OUT place tid, OUT turn bigint, OUT more boolean, OUT due text,
  OUT stop_stretch integer, OUT stop_bucket integer, OUT stop_place text, OUT busy text
) RETURNS SETOF record LANGUAGE plpgsql AS $fn$
DECLARE
  queue   holdfast.queues;
  soon    timestamptz := now() + soon_ms * interval '1 millisecond';
  held    jsonb := '{}';
  groups  text[];
  keys    text[];
  lefts   integer[];
  walked  record;
  mine    integer[];
  lowest  integer;
  highest integer;
  rounds  integer := 1;
BEGIN
  SELECT q.* INTO queue FROM holdfast.queues AS q
  WHERE q.name = 'inbox' AND NOT q.paused AND q.ordering = 'turns'
    AND coalesce(q.limits_version = (versions -> '')::bigint, true);
  IF NOT FOUND OR most < 1 THEN
    RETURN;
  ELSIF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'claims of queue % need READ COMMITTED: nothing was claimed', quote_literal('inbox')
      USING ERRCODE = '0A000', HINT = 'In a stricter transaction a claim cannot see what others hold.';
  END IF;
  SELECT array_agg(coalesce(p.at ->> 0, '') ORDER BY p.n), array_agg(coalesce(p.at ->> 1, '') ORDER BY p.n),
    array_agg(coalesce((p.at ->> 2)::integer, 0) ORDER BY p.n)
  INTO groups, keys, lefts
  FROM (
    SELECT u.n, nullif(u.place, '')::jsonb AS at FROM unnest(after_places) WITH ORDINALITY AS u(place, n)
  ) AS p;
  IF queue.per_group IS NOT NULL THEN
    held := ${HELD(OF_CROWDED_BUCKETS)};
  END IF;

  -- From key to key: which have room and something to take. This is a guess; it says which mutexes to take.
  WITH RECURSIVE walk AS (
    SELECT 0 AS step, 1 AS stretch, from_buckets[1] AS bucket, groups[1] COLLATE "C" AS grp,
      keys[1] COLLATE "C" AS key, lefts[1] AS left, 0 AS wanted, 0 AS buckets, NULL::integer AS last_bucket,
      0 AS jobs, NULL::tid[] AS places, 0 AS weight, 0 AS part, NULL::timestamptz AS due_at
    UNION ALL
    SELECT w.step + 1,
      CASE WHEN h.bucket IS NULL THEN w.stretch + 1 ELSE w.stretch END,
      CASE WHEN h.bucket IS NULL THEN from_buckets[w.stretch + 1] ELSE h.bucket END,
      -- A full group is passed as a whole: no other group stands between it and this place.
      CASE WHEN h.bucket IS NULL THEN groups[w.stretch + 1]
        WHEN r.of_group <= 0 THEN h.grp || chr(1) ELSE h.grp END COLLATE "C",
      CASE WHEN h.bucket IS NULL THEN keys[w.stretch + 1]
        WHEN r.of_group <= 0 THEN '' ELSE h.key END COLLATE "C",
      CASE WHEN h.bucket IS NULL THEN lefts[w.stretch + 1]
        -- The claim has enough in the middle of a turn: the next one goes on with the rest of it.
        WHEN w.wanted + n.jobs >= most AND queue.fair THEN r.part - n.jobs ELSE 0 END,
      w.wanted + n.jobs,
      w.buckets + CASE WHEN n.jobs > 0 AND h.bucket IS DISTINCT FROM w.last_bucket THEN 1 ELSE 0 END,
      CASE WHEN n.jobs > 0 THEN h.bucket ELSE w.last_bucket END,
      n.jobs, n.places, r.weight, r.part, coalesce(CASE WHEN h.available_at > now() THEN h.available_at END, d.available_at)
    FROM walk AS w
    LEFT JOIN LATERAL (
      SELECT i.ctid AS place, i.partition_bucket AS bucket, coalesce(i.group_key, '') COLLATE "C" AS grp,
        i.partition_key COLLATE "C" AS key, i.available_at, i.available_at <= now() AND ${READY} AS ready
      FROM holdfast.inbox AS i
      WHERE NOT i.parked AND i.crashes < 2
        AND (i.partition_bucket, coalesce(i.group_key, '') COLLATE "C", i.partition_key COLLATE "C", i.available_at)
          > (w.bucket, w.grp, w.key, CASE WHEN w.left > 0 THEN '-infinity'::timestamptz ELSE 'infinity'::timestamptz END)
        AND i.partition_bucket < until_buckets[w.stretch]
      ORDER BY i.partition_bucket, coalesce(i.group_key, '') COLLATE "C", i.partition_key COLLATE "C",
        i.available_at, i.position
      LIMIT 1
    ) AS h ON true
    CROSS JOIN LATERAL (
      SELECT o.*, p.part,
        -- Of a paused key nothing is read.
        CASE WHEN h.key = ANY (queue.paused_keys) THEN 0
          ELSE least(most - w.wanted, queue.per_key, o.of_group, p.part) END AS room
      FROM (
        SELECT CASE WHEN queue.fair THEN coalesce((queue.weights ->> h.key)::integer, 1) ELSE most END AS weight,
          ${ROOM_OF_GROUP('h.grp')} AS of_group
        -- Without it, each of these would be computed again wherever it is used.
        OFFSET 0
      ) AS o
      CROSS JOIN LATERAL (
        SELECT CASE WHEN w.left > 0 AND h.grp = w.grp AND h.key = w.key THEN w.left ELSE o.weight END AS part
      ) AS p
      OFFSET 0
    ) AS r
    CROSS JOIN LATERAL (
      SELECT p.places, coalesce(cardinality(p.places), 0) AS jobs
      FROM (
        SELECT CASE WHEN h.bucket IS NULL OR r.room <= 0 THEN NULL
          -- The head alone tells, nearly always.
          WHEN h.ready AND r.room = 1 THEN ARRAY[h.place]
          WHEN h.available_at > now() THEN NULL
          -- What of the key runs stands before the rest, nearly always.
          ELSE (SELECT (array_agg(l.place) FILTER (WHERE l.ready))
              [1 : greatest(0, least(r.room, queue.per_key - count(*) FILTER (WHERE NOT l.ready)))] FROM (
            SELECT i.place, ${READY} AS ready FROM (
              SELECT i.ctid AS place, i.status, i.lease_expires_at, i.version, i.type FROM ${LINE('h')}
                AND i.available_at <= now()
              ORDER BY i.available_at, i.position LIMIT most + ${READ_OVER}
            ) AS i
            WHERE queue.per_key IS NOT NULL AND i.lease_expires_at > now() OR ${READY}
            LIMIT r.room + coalesce(queue.per_key, 0)
          ) AS l) END AS places
        OFFSET 0
      ) AS p
      OFFSET 0
    ) AS n
    -- A key of which nothing can be taken yet: when will that be?
    LEFT JOIN LATERAL (
      SELECT i.available_at FROM ${LINE('h')}
        AND i.available_at > now() AND i.available_at < soon AND n.jobs = 0 AND r.room > 0 AND h.available_at <= now()
      ORDER BY i.available_at, i.position LIMIT 1
    ) AS d ON true
    WHERE w.wanted < most AND w.step < max_keys AND w.buckets < ${MOST_BUCKETS}
      AND w.stretch <= cardinality(from_buckets)
  ), ready AS MATERIALIZED (
    SELECT w.* FROM walk AS w WHERE w.jobs > 0 ORDER BY w.step
  ), ended AS (
    SELECT w.* FROM walk AS w ORDER BY w.step DESC LIMIT 1
  )
  SELECT e.stretch, e.bucket, jsonb_build_array(e.grp, e.key, e.left)::text AS place, e.wanted,
    e.stretch > cardinality(from_buckets) AS came_round, r.*, w.due,
    (SELECT array_agg(p.place) FROM (SELECT unnest(r.places) AS place FROM ready AS r) AS p) AS places
  INTO walked
  FROM ended AS e
  CROSS JOIN (
    SELECT array_agg(r.bucket) AS buckets, array_agg(r.grp) AS groups, array_agg(r.key) AS keys,
      array_agg(r.jobs) AS jobs, array_agg(r.wanted) AS ends, array_agg(r.weight) AS weights,
      array_agg(r.part) AS parts, sum(least(r.weight, most)) AS turn_size
    FROM ready AS r
  ) AS r
  CROSS JOIN (
    SELECT string_agg(ceil(extract(epoch FROM w.due_at - now()) * 1000) || ':' || w.bucket, ',') AS due
    FROM walk AS w WHERE w.due_at < soon
  ) AS w;

  SELECT array_agg(m.bucket) FILTER (WHERE m.locked), min(m.bucket), max(m.bucket),
    string_agg(m.bucket::text, ',') FILTER (WHERE NOT m.locked)
  INTO mine, lowest, highest, busy
  FROM (
    SELECT b.bucket, pg_try_advisory_xact_lock('holdfast.inbox'::regclass::oid::integer, b.bucket + 1) AS locked
    FROM (SELECT DISTINCT u.bucket FROM unnest(walked.buckets) AS u(bucket)) AS b
  ) AS m;
  IF mine IS NOT NULL AND (queue.per_key IS NOT NULL OR queue.per_group IS NOT NULL) THEN
    held := ${HELD(OF_MY_BUCKETS)};
  END IF;
  IF walked.wanted >= most THEN
    -- The walk has found enough: what it read is taken as far as there is room, and more may wait anywhere.
    RETURN QUERY
    WITH chosen AS MATERIALIZED (
      SELECT o.place
      FROM (
        SELECT c.of_group, walked.places[c.until - c.jobs + c.nth] AS place,
          CASE WHEN c.of_group IS NOT NULL THEN row_number() OVER (PARTITION BY c.grp ORDER BY c.n, c.nth) END AS in_group
        FROM (
          SELECT k.*, ${ROOM_OF_GROUP('k.grp')} AS of_group,
            generate_series(1, least(k.jobs, ${ROOM_OF_KEY('k.grp', 'k.key')})) AS nth
          FROM unnest(walked.buckets, walked.groups, walked.keys, walked.jobs, walked.ends) WITH ORDINALITY
            AS k(bucket, grp, key, jobs, until, n)
          WHERE k.bucket = ANY (mine)
        ) AS c
      ) AS o
      WHERE o.in_group IS NULL OR o.in_group <= o.of_group
    ), locked AS MATERIALIZED (
      SELECT i.ctid AS place FROM holdfast.inbox AS i
      WHERE i.ctid = ANY (ARRAY(SELECT c.place FROM chosen AS c)) AND ${READY}
      FOR UPDATE SKIP LOCKED
    )
    -- No key has more than its turn here, so they start as they became due.
    SELECT l.place, 0::bigint, true, NULL::text, NULL::integer, NULL::integer, NULL::text, NULL::text
    FROM locked AS l
    UNION ALL
    SELECT NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL
    FROM generate_series(1, (SELECT count(*) FROM chosen) - (SELECT count(*) FROM locked));
  ELSIF mine IS NOT NULL THEN
    -- Every key has had its turn and there is room: as many turns as fill it, and more, because lines may be short.
    IF again AND queue.fair AND walked.came_round THEN
      rounds := 2 * ceil(most::numeric / walked.turn_size)::integer;
    END IF;
    RETURN QUERY
    WITH line AS MATERIALIZED (
      SELECT k.n, k.bucket, k.grp, l.place, l.available_at, l.nth, l.seen, k.of_group,
        -- Part of a turn may have been taken before.
        CASE WHEN l.nth <= k.part THEN 0 ELSE (l.nth - k.part - 1) / k.weight + 1 END AS round,
        l.available_at <= now() AND l.nth <= k.room AS fits
      FROM (
        SELECT c.*, ${ROOM_OF_GROUP('c.grp')} AS of_group,
          least(most, ${ROOM_OF_KEY('c.grp', 'c.key')}, c.part + c.weight * (rounds - 1)) AS room
        FROM unnest(walked.buckets, walked.groups, walked.keys, walked.weights, walked.parts) WITH ORDINALITY
          AS c(bucket, grp, key, weight, part, n)
        WHERE c.bucket = ANY (mine)
        OFFSET 0
      ) AS k
      CROSS JOIN LATERAL (
        SELECT s.*, row_number() OVER () AS nth, count(*) OVER () AS seen
        FROM (
          SELECT i.place, i.available_at FROM (
            SELECT i.ctid AS place, i.available_at, i.status, i.lease_expires_at, i.version, i.type FROM ${LINE('k')}
              AND i.available_at < greatest(soon, now() + interval '1 microsecond')
            ORDER BY i.available_at, i.position LIMIT most + ${READ_OVER}
          ) AS i
          WHERE ${READY}
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
    SELECT l.place, c.turn, c.crowded OR c.seen > count(*) OVER (PARTITION BY c.n), NULL::text,
      NULL::integer, NULL::integer, NULL::text, NULL::text
    FROM chosen AS c
    -- Somebody may have changed the row, or holds it: then it is not taken, and counted as wanted.
    LEFT JOIN LATERAL (
      SELECT i.ctid AS place FROM holdfast.inbox AS i WHERE i.ctid = c.place FOR UPDATE SKIP LOCKED
    ) AS l ON l.place = c.place
    UNION ALL
    SELECT NULL, NULL, NULL, ceil(extract(epoch FROM l.available_at - now()) * 1000) || ':' || l.bucket,
      NULL, NULL, NULL, NULL
    FROM line AS l WHERE l.available_at > now();
  END IF;
  stop_stretch := CASE WHEN NOT walked.came_round THEN walked.stretch END;
  stop_bucket := walked.bucket;
  stop_place := walked.place;
  due := walked.due;
  RETURN NEXT;
END
$fn$;

-- Which of these jobs may be started where keys take turns; with the mutexes of their buckets.
CREATE FUNCTION holdfast.inbox_room(jobs uuid[]) RETURNS SETOF uuid LANGUAGE plpgsql AS $fn$
DECLARE
  queue holdfast.queues;
  held  jsonb;
  mine  uuid[];
BEGIN
  SELECT q.* INTO queue FROM holdfast.queues AS q WHERE q.name = 'inbox';
  SELECT array_agg(i.id) INTO mine
  FROM (SELECT i.id, i.partition_bucket FROM holdfast.inbox AS i WHERE i.id = ANY (jobs) OFFSET 0) AS i
  WHERE pg_try_advisory_xact_lock('holdfast.inbox'::regclass::oid::integer, i.partition_bucket + 1);
  held := ${HELD(OF_ALL)};
  RETURN QUERY
  SELECT r.id
  FROM (
    SELECT i.id, ${ROOM_OF_KEY('i.grp', 'i.partition_key')} AS of_key, ${ROOM_OF_GROUP('i.grp')} AS of_group,
      row_number() OVER (PARTITION BY i.grp, i.partition_key ORDER BY i.id) AS in_key,
      row_number() OVER (PARTITION BY i.grp ORDER BY i.id) AS in_group
    FROM (
      SELECT i.id, i.partition_key, coalesce(i.group_key, '') AS grp FROM holdfast.inbox AS i WHERE i.id = ANY (mine)
    ) AS i
  ) AS r
  WHERE (r.of_key IS NULL OR r.in_key <= r.of_key) AND (r.of_group IS NULL OR r.in_group <= r.of_group);
END
$fn$;
`;
