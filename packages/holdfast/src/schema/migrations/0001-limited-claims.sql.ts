/**
 * The part of migration 1 that claims under limits; what a limit is: 0001-limits.sql.ts. A claim counts the places that
 * are free (concurrency) and the tokens that are left (rate) under one lock, and takes no more jobs than both allow.
 *
 * Where a queue is read by key a job keeps its place until it starts, so nothing is given a slot: `inbox_allowance` says
 * how many may start now, and the ordinary claims take no more. In order, a job that must wait holds its key; in turns,
 * slots would let a key that came first have the whole line.
 *
 * `inbox_claim_limited` has the parameters of the other claims in their order, so it takes a job with the same text
 * as they do (src/claim/taking.ts); a test compares.
 */

/** Due jobs without a slot until a time, priority by priority from where the worker is: the columns of `due`. */
const DUE = (
  until: string,
  most: string,
) => `unnest($8::smallint[], $9::timestamptz[], $10::bigint[]) AS p(priority, after_at, after_position)
      CROSS JOIN LATERAL (
        SELECT i.ctid, i.priority, i.available_at, i.position, i.status = 'pending',
          false, CASE WHEN rate.keyed THEN coalesce(i.limit_key, '') ELSE '' END
        FROM holdfast.inbox AS i
        WHERE NOT $12::boolean AND i.priority = p.priority
          AND (i.available_at, i.position) > (p.after_at, p.after_position)
          AND i.available_at <= ${until}
          AND i.crashes < 2
          AND (pace IS NULL OR i.limit_slot IS DISTINCT FROM i.available_at)
          AND (i.status = 'pending' OR (i.status = 'processing' AND i.lease_expires_at <= now()))
          AND (i.version = 1 AND i.type = ANY ($6::text[])
        OR i.version <= ($7::jsonb -> i.type)::integer)
        AND (i.type = ANY (shut.paused_types)) IS NOT TRUE
        AND (i.partition_key = ANY (shut.paused_keys)) IS NOT TRUE
        ORDER BY i.available_at, i.position
        LIMIT ${most}
      ) AS c(place, priority, available_at, position, pending, reserved, key)`;

export const limitedClaims = `
-- How many jobs a claim may take from a queue that is read by key, of those that it wants. under: NULL: nothing limits
-- them; a type whose limit holds; '': types that only the queue's limit holds for. Whoever claims under a limit at the
-- same moment has its lock, and then it is none. The lock lasts until the claim has committed, and the count begins
-- when it is held. base and pace are what the starts are paid with (taking.ts); again_ms: when there may be more.
CREATE FUNCTION holdfast.inbox_allowance(
  wanted integer, under text, OUT jobs integer, OUT again_ms bigint, OUT rate_id integer, OUT base timestamptz,
  OUT pace interval
) LANGUAGE plpgsql AS $fn$
DECLARE
  held holdfast.limits[];
  own holdfast.limits;
  rate holdfast.limits;
  of_queue holdfast.limits;
  moment timestamptz;
  tokens bigint;
  seconds double precision;
BEGIN
  jobs := wanted;
  IF under IS NULL OR wanted < 1 THEN
    RETURN;
  END IF;
  SELECT array_agg(h.l) INTO held
  FROM (
    SELECT l FROM holdfast.limits AS l
    WHERE l.queue = 'inbox' AND (l.type IS NULL OR l.type = under) ORDER BY l.id FOR UPDATE SKIP LOCKED
  ) AS h;
  IF coalesce(cardinality(held), 0) < (
    SELECT count(*) FROM holdfast.limits AS l WHERE l.queue = 'inbox' AND (l.type IS NULL OR l.type = under)) THEN
    jobs := 0;
    again_ms := 5;
    RETURN;
  END IF;
  SELECT h.* INTO of_queue FROM unnest(held) AS h WHERE h.type IS NULL;
  SELECT h.* INTO own FROM unnest(held) AS h WHERE h.type IS NOT NULL;
  moment := clock_timestamp();
  IF of_queue.concurrency IS NOT NULL OR own.concurrency IS NOT NULL THEN
    SELECT greatest(0, least(wanted, of_queue.concurrency - count(*),
      own.concurrency - count(*) FILTER (WHERE r.type = under)))
    INTO jobs
    FROM (SELECT DISTINCT j.id FROM holdfast.inbox_claims AS c CROSS JOIN LATERAL unnest(c.jobs) AS j(id)) AS h
    CROSS JOIN LATERAL (
      SELECT i.type FROM holdfast.inbox AS i WHERE i.id = h.id AND i.status = 'processing' LIMIT 1
    ) AS r;
  END IF;
  -- A job has one rate: that of its type, or else that of its queue.
  IF own.rate_limit IS NOT NULL THEN
    rate := own;
  ELSIF of_queue.rate_limit IS NOT NULL THEN
    rate := of_queue;
  ELSE
    RETURN;
  END IF;
  seconds := extract(epoch FROM rate.rate_per) / rate.rate_limit;
  SELECT greatest(max(r.started_tat), moment) INTO base
  FROM holdfast.rates AS r WHERE r.limit_id = rate.id AND r.key = '';
  tokens := greatest(0, floor(rate.rate_burst + 1e-6
    - extract(epoch FROM base - moment)::double precision / seconds));
  rate_id := rate.id;
  pace := seconds * interval '1 second';
  IF tokens <= jobs THEN
    jobs := tokens;
    again_ms := ceil(extract(epoch FROM base + (tokens - (rate.rate_burst - 1)) * pace - moment) * 1000);
  END IF;
END
$fn$;

-- Claims jobs of a limited type ($11; NULL: types that only the queue's limit holds for). The first row is about the
-- whole claim: again_ms says when to come again, throttled how many jobs got a slot, more that it did not see all,
-- waits that some that are due were not taken; left_* is the first job that is due and was not taken, or where all that
-- it read got a slot the last of them: there the next claim begins.
CREATE FUNCTION holdfast.inbox_claim_limited(
  worker text, lease_ms integer, number bigint, finished bigint[], wanted integer, types text[], versions jsonb,
  priorities smallint[], after_at timestamptz[], after_position bigint[], of_type text, suspects boolean,
  suspect_lock integer, lag_ms integer
) RETURNS TABLE (
  epoch bigint, clock bigint, seen_until timestamptz, again_ms bigint, throttled bigint, more boolean, waits boolean,
  left_priority smallint, left_at timestamptz, left_position bigint, isolated boolean,
  id uuid, type text, version integer, partition_key text, payload jsonb, headers jsonb, attempts integer,
  max_attempts integer, lease_generation bigint, crashes integer, created_at timestamptz, partition_bucket integer,
  priority smallint, taken boolean, cursor_at timestamptz, cursor_position bigint
)
  -- Its lists are joined by key, up to a thousand with a thousand; the queue is read by its indexes all the same.
  LANGUAGE plpgsql SET enable_hashjoin = on AS $fn$
#variable_conflict use_column
DECLARE
  of_queue holdfast.limits;
  own holdfast.limits;
  rate holdfast.limits;
  moment timestamptz;
  places bigint;
  -- Seconds from one start to the next.
  pace double precision;
  -- One more than is wanted: it says where the next claim has to begin.
  reads integer := $5 + 1;
  -- The same of those whose slot has come.
  ready integer := $5 + 1;
  queued boolean;
  -- How many of those whose slot has not come may start; none where a rate has keys. In the line of a queue a token is
  -- left for a while to those whose slot has come: others may handle their types.
  early bigint := 0;
  grace interval := '0';
  shut record;
  aged_until timestamptz;
BEGIN
  -- The mutex, always in this order.
  SELECT l.* INTO of_queue FROM holdfast.limits AS l WHERE l.queue = 'inbox' AND l.type IS NULL FOR UPDATE;
  SELECT l.* INTO own FROM holdfast.limits AS l WHERE l.queue = 'inbox' AND l.type = $11 FOR UPDATE;
  SELECT q.paused_types, q.paused_keys, q.age_after INTO shut FROM holdfast.queues AS q WHERE q.name = 'inbox';
  moment := clock_timestamp();
  -- A quarter of the claims begin with what more urgent jobs have kept waiting for too long.
  IF random() < 0.25 THEN
    aged_until := moment - shut.age_after;
  END IF;
  -- Who runs: the claims name all that workers hold, so the queue is not read. A job may stand in two of them.
  IF of_queue.concurrency IS NOT NULL OR own.concurrency IS NOT NULL THEN
    SELECT least(of_queue.concurrency - count(*),
      own.concurrency - count(*) FILTER (WHERE r.type = $11))
    INTO places
    FROM (SELECT DISTINCT j.id FROM holdfast.inbox_claims AS c CROSS JOIN LATERAL unnest(c.jobs) AS j(id)) AS h
    CROSS JOIN LATERAL (
      SELECT i.type FROM holdfast.inbox AS i WHERE i.id = h.id AND i.status = 'processing' LIMIT 1
    ) AS r;
  END IF;
  -- A job has one rate: that of its type, or else that of its queue.
  IF own.rate_limit IS NOT NULL THEN
    rate := own;
  ELSE
    rate := of_queue;
  END IF;
  IF rate.rate_limit IS NOT NULL THEN
    pace := extract(epoch FROM rate.rate_per) / rate.rate_limit;
    -- Those that find no token get their slots by so many at a time.
    reads := 1000;
    IF own.rate_limit IS NULL THEN
      grace := '250 milliseconds';
    END IF;
    IF rate.keyed THEN
      ready := reads;
    ELSIF NOT $12 THEN
      SELECT greatest(0, floor(rate.rate_burst + 1e-6
        - greatest(extract(epoch FROM max(r.started_tat) + grace - moment)::double precision, 0) / pace)),
        coalesce(max(r.slot_tat) > moment, false)
      INTO early, queued FROM holdfast.rates AS r WHERE r.limit_id = rate.id AND r.key = '';
      -- There are more tokens than places, or than is wanted: nobody needs a slot.
      IF NOT queued AND early > greatest(0, least($5, places)) THEN
        reads := $5 + 1;
      END IF;
      early := least($5, early);
    END IF;
  END IF;

  RETURN QUERY
  WITH aged AS MATERIALIZED (
    SELECT c.* FROM ${DUE('aged_until', '$5')}
    WHERE aged_until IS NOT NULL AND p.priority > 1
    ORDER BY c.available_at
    LIMIT $5
  ), due AS MATERIALIZED (
    SELECT d.*, row_number() OVER (ORDER BY d.reserved DESC, d.available_at > moment,
      EXISTS (SELECT FROM aged AS a WHERE a.place = d.place) DESC, d.priority, d.available_at, d.position) AS nth
    FROM (
      -- Those whose slot has come. A key without a token is passed over: its jobs have all that they can get.
      (SELECT c.* FROM unnest($6::text[]) AS t(type) CROSS JOIN LATERAL (
      SELECT i.ctid AS place, i.priority, i.available_at, i.position, i.status = 'pending' AS pending,
        true AS reserved, CASE WHEN rate.keyed THEN coalesce(i.limit_key, '') ELSE '' END AS key
      FROM holdfast.inbox AS i
      WHERE pace IS NOT NULL AND NOT $12::boolean AND i.type = t.type
        AND i.limit_slot <= moment AND i.limit_slot = i.available_at AND i.crashes < 2
        AND (i.status = 'pending' OR (i.status = 'processing' AND i.lease_expires_at <= now()))
        AND (i.version = 1 AND i.type = ANY ($6::text[])
        OR i.version <= ($7::jsonb -> i.type)::integer)
        AND (i.type = ANY (shut.paused_types)) IS NOT TRUE
        AND (i.partition_key = ANY (shut.paused_keys)) IS NOT TRUE
        AND NOT (rate.keyed AND EXISTS (SELECT FROM holdfast.rates AS r
          WHERE r.limit_id = rate.id AND r.key = coalesce(i.limit_key, '')
            AND r.started_tat > moment + (rate.rate_burst - 1 + 1e-6) * pace * interval '1 second'))
      ORDER BY i.limit_slot
      LIMIT ready
      ) AS c ORDER BY c.available_at LIMIT ready)
      UNION ALL
      -- There is a token before the next slot, because others have left the line: whoever comes next comes early.
      (SELECT c.* FROM unnest($6::text[]) AS t(type) CROSS JOIN LATERAL (
      SELECT i.ctid, i.priority, i.available_at, i.position, true, true, ''
      FROM holdfast.inbox AS i
      WHERE early > 0 AND i.type = t.type AND i.limit_slot > moment AND i.limit_slot = i.available_at
        AND i.crashes < 2 AND i.status = 'pending'
        AND (i.version = 1 AND i.type = ANY ($6::text[])
        OR i.version <= ($7::jsonb -> i.type)::integer)
        AND (i.type = ANY (shut.paused_types)) IS NOT TRUE
        AND (i.partition_key = ANY (shut.paused_keys)) IS NOT TRUE
      ORDER BY i.limit_slot
      LIMIT early
      ) AS c(place, priority, available_at, position, pending, reserved, key)
      ORDER BY c.available_at LIMIT early)
      UNION ALL
      (SELECT c.* FROM ${DUE('moment', 'reads')}
      WHERE NOT EXISTS (SELECT FROM aged AS a WHERE a.place = c.place)
      LIMIT reads)
      UNION ALL
      SELECT a.* FROM aged AS a
      UNION ALL
      -- A suspect comes alone: one of them runs at a time in the whole fleet.
      (SELECT i.ctid, i.priority, i.available_at, i.position, true,
        i.limit_slot IS NOT DISTINCT FROM i.available_at,
        CASE WHEN rate.keyed THEN coalesce(i.limit_key, '') ELSE '' END
      FROM holdfast.inbox AS i
      WHERE $12::boolean AND i.crashes > 1 AND i.status = 'pending' AND i.available_at <= moment
        AND (i.version = 1 AND i.type = ANY ($6::text[])
        OR i.version <= ($7::jsonb -> i.type)::integer)
        AND (i.type = ANY (shut.paused_types)) IS NOT TRUE
        AND (i.partition_key = ANY (shut.paused_keys)) IS NOT TRUE
        AND NOT EXISTS (SELECT FROM holdfast.inbox AS r
          WHERE r.crashes > 1 AND r.status = 'processing' AND r.lease_expires_at > now())
        AND (SELECT pg_try_advisory_xact_lock($13::integer, 'holdfast.inbox'::regclass::oid::integer))
      ORDER BY (i.history -> -1 ->> 'at')::timestamptz NULLS FIRST, i.crashes, i.id
      LIMIT 1)
    ) AS d
    WHERE EXISTS (SELECT FROM holdfast.queues AS q
      WHERE q.name = 'inbox' AND NOT q.paused AND q.ordering = 'none'
        AND coalesce(q.limits_version = ($7::jsonb -> '')::bigint, true))
  ), lines AS MATERIALIZED (
    -- Whoever left the line was cancelled or changed; a line in which nobody is left is none.
    SELECT r.key, r.started_tat, CASE WHEN r.slot_tat > moment AND CASE
        -- In the line of a queue others may stand, of types that this worker does not handle.
        WHEN own.rate_limit IS NULL THEN true
        WHEN rate.keyed AND r.key = '' THEN EXISTS (SELECT FROM holdfast.inbox AS i
          WHERE i.type = $11 AND i.limit_key IS NULL AND i.limit_slot > moment AND i.limit_slot = i.available_at
            AND i.status = 'pending')
        WHEN rate.keyed THEN EXISTS (SELECT FROM holdfast.inbox AS i
          WHERE i.type = $11 AND i.limit_key = r.key AND i.limit_slot > moment AND i.limit_slot = i.available_at
            AND i.status = 'pending')
        ELSE EXISTS (SELECT FROM holdfast.inbox AS i
          WHERE i.type = $11 AND i.limit_slot > moment AND i.limit_slot = i.available_at AND i.status = 'pending')
      END THEN r.slot_tat END AS slot_tat
    FROM (SELECT DISTINCT d.key FROM due AS d WHERE pace IS NOT NULL) AS d
    CROSS JOIN LATERAL (
      SELECT r.* FROM holdfast.rates AS r WHERE r.limit_id = rate.id AND r.key = d.key LIMIT 1
    ) AS r
  ), turns AS MATERIALIZED (
    SELECT t.*
    FROM (
      SELECT d.*, r.started_tat, r.slot_tat, r.slot_tat IS NOT NULL AS line,
        row_number() OVER (PARTITION BY d.key ORDER BY d.nth) AS turn,
        -- How many may start now. Rounded down, but for what a time of microseconds cannot hold.
        CASE WHEN pace IS NULL THEN 2147483647 ELSE greatest(0, floor(rate.rate_burst + 1e-6
          - greatest(extract(epoch FROM r.started_tat - moment)::double precision, 0) / pace)) END AS tokens
      FROM due AS d
      LEFT JOIN lines AS r ON r.key = d.key
    ) AS t
    -- Who would come early and finds no token waits on.
    WHERE t.available_at <= moment OR t.turn <= t.tokens
  ), picked AS MATERIALIZED (
    SELECT k.nth, k.place
    FROM (
      SELECT t.nth, t.place, t.pending, count(*) FILTER (WHERE t.pending) OVER (ORDER BY t.nth) AS pendings
      FROM turns AS t
      -- Nobody overtakes the line. A suspect does not wait in it.
      WHERE t.turn <= t.tokens AND (t.reserved OR NOT t.line OR $12::boolean)
      ORDER BY t.nth
      LIMIT $5::integer
    ) AS k
    -- One whose lease ran out is counted already: it has a place.
    WHERE places IS NULL OR NOT k.pending OR k.pendings <= places
  ), locked AS MATERIALIZED (
    SELECT p.nth, l.place
    FROM picked AS p
    CROSS JOIN LATERAL (
      SELECT i.ctid AS place FROM holdfast.inbox AS i WHERE i.ctid = p.place FOR UPDATE SKIP LOCKED
    ) AS l
    WHERE l.place = p.place
  ), claimed AS (
    UPDATE holdfast.inbox AS i
    SET status = 'processing',
      claimed_by = $1::text,
      claimed_at = now(),
      lease_expires_at = (SELECT now() + $2::integer * interval '1 millisecond'),
      lease_generation = i.lease_generation + 1,
      attempts = i.attempts + CASE WHEN i.status = 'processing' THEN 0 ELSE 1 END,
      crashes = i.crashes + CASE WHEN i.status = 'processing' AND (i.crashes = 0 OR i.started) THEN 1 ELSE 0 END,
      started = false,
      last_error = CASE WHEN i.status = 'processing'
        THEN 'The worker ' || i.claimed_by || ' vanished while it held this job.' ELSE i.last_error END,
      history = CASE WHEN i.status = 'processing'
        THEN jsonb_path_query_array(
          coalesce(i.history, '[]') || jsonb_build_object('attempt', i.attempts, 'at', now(),
            'worker', i.claimed_by, 'outcome', 'vanished', 'spent', false),
          '$[last-19 to last]')
        ELSE i.history END, isolated = $12::boolean AND i.crashes >= 4,
      -- The slot of one that comes early has come.
      available_at = least(i.available_at, moment),
      limit_slot = CASE WHEN i.limit_slot = i.available_at THEN least(i.limit_slot, moment) ELSE i.limit_slot END
    WHERE i.ctid = ANY (ARRAY(SELECT l.place FROM locked AS l))
    RETURNING i.id, i.type, nullif(i.version, 1) AS version, i.partition_key, i.payload,
    i.headers, nullif(i.attempts, 1) AS attempts, nullif(i.max_attempts, 5) AS max_attempts,
    nullif(i.lease_generation, 1) AS lease_generation, nullif(i.crashes, 0) AS crashes,
    nullif(i.created_at, i.available_at) AS created_at, i.partition_bucket,
    nullif(i.priority, 2) AS priority,
    -- Its owner vanished, and this claim was the one to write it down.
    CASE WHEN i.crashes > 0 AND (i.history -> -1 ->> 'at')::timestamptz = now() THEN true END AS taken,
    i.available_at AS cursor_at, i.position AS cursor_position, i.isolated,
    CASE WHEN rate.keyed THEN coalesce(i.limit_key, '') ELSE '' END AS rate_key
  ), recorded AS (
  INSERT INTO holdfast.inbox_claims (worker_id, number, jobs)
  SELECT $1::text, $3::bigint, array_agg(c.id) FROM claimed AS c HAVING count(*) > 0
), forgotten AS (
  DELETE FROM holdfast.inbox_claims AS f
  WHERE f.worker_id = $1::text AND f.number = ANY ($4::bigint[])
), used AS MATERIALIZED (
    SELECT t.key, max(t.tokens) AS tokens, bool_or(t.line) AS line, max(t.started_tat) AS started_tat,
      max(t.slot_tat) AS slot_tat, greatest(max(t.started_tat), moment) AS base, coalesce(max(c.jobs), 0) AS jobs
    FROM turns AS t
    LEFT JOIN (SELECT c.rate_key, count(*) AS jobs FROM claimed AS c GROUP BY c.rate_key) AS c ON c.rate_key = t.key
    WHERE pace IS NOT NULL
    GROUP BY t.key
  ), slots AS MATERIALIZED (
    -- The line: whoever finds no token and has no slot gets the next free one, once.
    SELECT t.nth, t.place, t.key,
      greatest(u.slot_tat, u.base + (u.jobs - (rate.rate_burst - 1)) * pace * interval '1 second')
        + (row_number() OVER (PARTITION BY t.key ORDER BY t.nth) - 1) * pace * interval '1 second' AS slot
    FROM turns AS t
    JOIN used AS u ON u.key = t.key
    WHERE t.pending AND NOT t.reserved AND (u.line OR u.jobs >= u.tokens) AND NOT $12::boolean
      AND NOT EXISTS (SELECT FROM picked AS p WHERE p.nth = t.nth)
      -- What lies beyond waits without one; a time has an end.
      AND (coalesce(u.slot_tat, moment) < moment + interval '3650 days')
  ), moved AS (
    UPDATE holdfast.inbox AS i
    SET available_at = s.slot, limit_slot = s.slot
    FROM (
      SELECT s.key, s.slot, l.place
      FROM slots AS s
      CROSS JOIN LATERAL (
        SELECT i.ctid AS place FROM holdfast.inbox AS i WHERE i.ctid = s.place FOR UPDATE SKIP LOCKED
      ) AS l
      WHERE l.place = s.place AND s.slot < moment + interval '7300 days'
    ) AS s
    WHERE i.ctid = s.place
    RETURNING s.key, s.slot
  ), paid AS (
    INSERT INTO holdfast.rates (limit_id, key, started_tat, slot_tat)
    SELECT rate.id, u.key, u.base + u.jobs * pace * interval '1 second',
      greatest(u.slot_tat, m.slot + pace * interval '1 second', moment)
    FROM used AS u
    LEFT JOIN (SELECT m.key, max(m.slot) AS slot FROM moved AS m GROUP BY m.key) AS m ON m.key = u.key
    WHERE u.jobs > 0 OR m.slot IS NOT NULL
    ON CONFLICT (limit_id, key) DO UPDATE
    SET started_tat = excluded.started_tat, slot_tat = excluded.slot_tat
  )
  SELECT f.epoch, (SELECT (date_part('epoch', now()) * 1000)::bigint),
    (SELECT now() - $14::integer * interval '1 millisecond'),
    ceil(extract(epoch FROM least(
      -- A token for somebody who is due; the next slot, of those before and of those from now; a job whose time comes.
      (SELECT min(u.base + (u.jobs - (rate.rate_burst - 1)) * pace * interval '1 second')
        FROM used AS u WHERE u.jobs >= u.tokens AND EXISTS (
          SELECT FROM turns AS t WHERE t.key = u.key AND t.reserved AND t.turn > t.tokens)),
      (SELECT min(u.base + (u.jobs - (rate.rate_burst - 1)) * pace * interval '1 second') + grace
        FROM used AS u WHERE EXISTS (SELECT FROM turns AS t WHERE t.key = u.key AND t.available_at > moment)),
      (SELECT min(n.limit_slot)
        FROM unnest($6::text[]) AS t(type)
        CROSS JOIN LATERAL (
          SELECT i.limit_slot FROM holdfast.inbox AS i
          WHERE i.type = t.type AND i.limit_slot > moment ORDER BY i.limit_slot LIMIT 1
        ) AS n),
      (SELECT min(m.slot) FROM moved AS m),
      (SELECT min(n.available_at)
        FROM unnest($8::smallint[]) AS p(priority)
        CROSS JOIN LATERAL (
          SELECT i.available_at FROM holdfast.inbox AS i
          WHERE i.priority = p.priority AND i.available_at > moment AND i.available_at < 'infinity'
            AND i.crashes < 2
          ORDER BY i.available_at LIMIT 1
        ) AS n)
    ) - moment) * 1000)::bigint,
    (SELECT count(*) FROM moved),
    EXISTS (SELECT FROM moved) AND (SELECT count(*) FROM due AS d WHERE NOT d.reserved) >= reads,
    EXISTS (SELECT FROM turns AS t WHERE NOT EXISTS (SELECT FROM locked AS l WHERE l.nth = t.nth)
      AND NOT EXISTS (SELECT FROM slots AS s WHERE s.nth = t.nth)),
    w.priority::smallint, w.available_at, w.position, false,
    NULL::uuid, NULL::text, NULL::integer, NULL::text, NULL::jsonb, NULL::jsonb, NULL::integer,
    NULL::integer, NULL::bigint, NULL::integer, NULL::timestamptz, NULL::integer,
    NULL::smallint, NULL::boolean, NULL::timestamptz, NULL::bigint
  FROM holdfast.fleet AS f
  LEFT JOIN LATERAL (
    SELECT b.priority, b.available_at, b.position
    FROM (
      SELECT t.priority, t.available_at, t.position
      FROM turns AS t
      WHERE NOT t.reserved AND NOT EXISTS (SELECT FROM locked AS l WHERE l.nth = t.nth)
        AND NOT EXISTS (SELECT FROM slots AS s WHERE s.nth = t.nth)
      UNION ALL
      (SELECT d.priority, d.available_at, d.position
      FROM due AS d
      WHERE NOT d.reserved AND (SELECT count(*) FROM due AS n WHERE NOT n.reserved) >= reads
        AND NOT EXISTS (SELECT FROM aged AS a WHERE a.place = d.place)
      ORDER BY d.priority DESC, d.available_at DESC, d.position DESC
      LIMIT 1)
    ) AS b
    ORDER BY b.priority, b.available_at, b.position
    LIMIT 1
  ) AS w ON true
  WHERE f.one
  UNION ALL
  SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, c.isolated,
    c.id, c.type, c.version::integer, c.partition_key, c.payload, c.headers, c.attempts::integer,
    c.max_attempts::integer, c.lease_generation, c.crashes::integer, c.created_at, c.partition_bucket::integer,
    c.priority::smallint, c.taken, c.cursor_at, c.cursor_position
  FROM claimed AS c;
END
$fn$;
`;
