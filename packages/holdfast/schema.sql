-- The net schema of Holdfast, read back from the catalogs; it loads into an empty database as it stands.
-- Written by `npm test -- -u`; do not edit.

BEGIN;
SET LOCAL check_function_bodies = off;
CREATE SCHEMA holdfast;

CREATE TYPE holdfast.inbox_status AS ENUM ('pending', 'processing', 'completed', 'failed', 'dead_letter', 'cancelled');

CREATE TYPE holdfast.ordering AS ENUM ('none', 'key', 'key_strict', 'turns');

CREATE DOMAIN holdfast.bucket AS integer CONSTRAINT bucket_check CHECK (((VALUE >= 0) AND (VALUE < 1024)));

CREATE DOMAIN holdfast.positive AS integer CONSTRAINT positive_check CHECK ((VALUE > 0));

CREATE DOMAIN holdfast.priority AS smallint CONSTRAINT priority_check CHECK (((VALUE >= 1) AND (VALUE <= 4)));

CREATE SEQUENCE holdfast.inbox_position_seq;

-- Time-ordered ids: the server's own uuidv7() from Postgres 18 on, the same layout built here before.
DO $do$
BEGIN
  IF to_regprocedure('pg_catalog.uuidv7()') IS NOT NULL THEN
    CREATE OR REPLACE FUNCTION holdfast.new_id() RETURNS uuid
      LANGUAGE sql VOLATILE PARALLEL SAFE AS 'SELECT pg_catalog.uuidv7()';
  ELSE
    CREATE OR REPLACE FUNCTION holdfast.new_id() RETURNS uuid
      LANGUAGE sql VOLATILE PARALLEL SAFE AS $fn$
        SELECT encode(
          set_byte(
            overlay(uuid_send(gen_random_uuid())
              PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3)
              FROM 1 FOR 6),
            6, (get_byte(uuid_send(gen_random_uuid()), 6) & 15) | 112),
          'hex')::uuid
      $fn$;
  END IF;
END
$do$;

CREATE OR REPLACE FUNCTION holdfast.bucket_of(key text)
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE STRICT
AS $function$SELECT (holdfast.hash32(key) & 1023)::integer$function$;

CREATE OR REPLACE FUNCTION holdfast.check_job(type text, payload jsonb, key text, group_key text, idempotency_key text, headers jsonb, max_bytes integer)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
BEGIN
  IF type IS NULL OR type !~ '^[A-Za-z][A-Za-z0-9_.:-]{0,99}$' THEN
    RAISE EXCEPTION 'job type % is not valid: nothing was enqueued', quote_nullable(type)
      USING ERRCODE = 'HF002', HINT = 'Start with a letter; then letters, digits and _ . : - (at most 100).';
  ELSIF payload IS NULL THEN
    RAISE EXCEPTION 'the payload is NULL: nothing was enqueued'
      USING ERRCODE = 'HF002', HINT = 'Pass a jsonb value; the JSON null is ''null''.';
  ELSIF octet_length(payload::text) > max_bytes THEN
    RAISE EXCEPTION 'the payload has % bytes, the limit is %: nothing was enqueued',
      octet_length(payload::text), max_bytes
      USING ERRCODE = 'HF002', HINT = 'Store the data elsewhere and enqueue a reference to it.';
  ELSIF key = '' OR octet_length(key) > 512 THEN
    RAISE EXCEPTION 'the partition key is empty or longer than 512 bytes: nothing was enqueued'
      USING ERRCODE = 'HF002', HINT = 'Pass 1 to 512 bytes, or NULL for a stream of its own.';
  ELSIF group_key = '' OR octet_length(group_key) > 512 THEN
    RAISE EXCEPTION 'the group is empty or longer than 512 bytes: nothing was enqueued'
      USING ERRCODE = 'HF002', HINT = 'Pass 1 to 512 bytes, or NULL for none.';
  ELSIF idempotency_key = '' OR octet_length(idempotency_key) > 512 THEN
    RAISE EXCEPTION 'the idempotency key is empty or longer than 512 bytes: nothing was enqueued'
      USING ERRCODE = 'HF002', HINT = 'Pass 1 to 512 bytes, or NULL for none.';
  ELSIF jsonb_typeof(headers) <> 'object'
    OR jsonb_path_exists(headers, '$.* ? (@.type() <> "string")') THEN
    RAISE EXCEPTION 'headers must be a JSON object of strings: nothing was enqueued'
      USING ERRCODE = 'HF002';
  END IF;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.check_unique(unique_key text, unique_while text, on_conflict text, unique_window interval)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
BEGIN
  IF unique_key IS NULL OR unique_key = '' OR octet_length(unique_key) > 512 THEN
    RAISE EXCEPTION 'the unique key is empty or longer than 512 bytes: nothing was enqueued'
      USING ERRCODE = 'HF002', HINT = 'Pass 1 to 512 bytes.';
  ELSIF unique_while IS NULL OR unique_while NOT IN ('pending', 'running', 'kept')
    OR on_conflict IS NULL OR on_conflict NOT IN ('ignore', 'replace', 'later') THEN
    RAISE EXCEPTION 'unique_while % or on_conflict % is not known: nothing was enqueued',
      quote_nullable(unique_while), quote_nullable(on_conflict)
      USING ERRCODE = 'HF002', HINT = 'unique_while is pending, running or kept; on_conflict is ignore, replace or later.';
  ELSIF unique_while = 'kept' AND on_conflict <> 'ignore' THEN
    RAISE EXCEPTION 'unique_while kept goes with on_conflict ignore: nothing was enqueued'
      USING ERRCODE = 'HF002', HINT = 'What has ended cannot be replaced.';
  ELSIF unique_window <= '0' OR unique_window > '3650 days' OR unique_window IS NOT NULL AND unique_while <> 'kept' THEN
    RAISE EXCEPTION 'the window of the unique key is out of range, or it is not kept: nothing was enqueued'
      USING ERRCODE = 'HF002', HINT = 'Give up to 3650 days, with unique_while kept.';
  END IF;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.children_ended(ids uuid[], parents jsonb[], outcome "char", results jsonb)
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  step record;
  left_over integer;
  woken integer := 0;
  last_of text[] := '{}';
BEGIN
  FOR step IN
    SELECT e.parent ->> 'q' AS queue, (e.parent ->> 'r')::uuid AS run, e.parent ->> 's' AS name, left(e.id::text, 24) AS first, count(*)::integer AS jobs,
      array_agg((e.parent ->> 'n')::integer) AS ns,
      array_agg(results -> e.id::text) AS results
    FROM unnest(ids, parents) AS e(id, parent)
    WHERE e.parent IS NOT NULL
    GROUP BY 1, 2, 3, 4
    ORDER BY 1, 2, 3, 4
  LOOP
    IF to_regclass(format('holdfast.%I', step.queue || '_steps')) IS NULL THEN
      CONTINUE;
    END IF;
    EXECUTE format('UPDATE holdfast.%I AS s SET remaining = s.remaining - %s
      WHERE s.run_id = %L AND s.name = %L AND s.kind = ''c'' AND left(s.value ->> ''first'', 24) = %L RETURNING s.remaining',
      step.queue || '_steps', step.jobs, step.run, step.name, step.first)
    INTO left_over;
    IF left_over IS NULL THEN
      CONTINUE;
    END IF;
    EXECUTE format('INSERT INTO holdfast.%I (run_id, n, step, outcome, value)
      SELECT %L, e.n, %L, %L, nullif(e.value, ''null'') FROM unnest(%L::integer[], %L::jsonb[]) AS e(n, value)
      WHERE %L <> ''c'' OR nullif(e.value, ''null'') IS NOT NULL
      ON CONFLICT (run_id, step, n) DO NOTHING', step.queue || '_children', step.run, step.name, outcome, step.ns,
      step.results, outcome);
    IF left_over = 0 THEN
      last_of := last_of || ARRAY[step.queue, step.run::text];
    END IF;
  END LOOP;
  FOR nth IN 1 .. coalesce(array_length(last_of, 1), 0) / 2 LOOP
    PERFORM holdfast.wake_run(last_of[2 * nth - 1], last_of[2 * nth]::uuid);
    woken := woken + 1;
  END LOOP;
  RETURN woken;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.cluster_id()
 RETURNS text
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  IF NOT has_function_privilege('pg_catalog.pg_control_system()', 'EXECUTE') THEN
    RETURN NULL;
  END IF;
  RETURN (SELECT s.system_identifier::text FROM pg_control_system() AS s);
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.count_act(counted uuid, more bigint)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  UPDATE holdfast.audit AS a SET jobs = a.jobs + more
  WHERE a.id = counted AND a.role = session_user AND a.at > now() - interval '1 day' AND more > 0;
  RETURN FOUND;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.cut_text(words text, most integer)
 RETURNS text
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE STRICT
AS $function$
DECLARE
  mark CONSTANT text := '... [cut, ' || octet_length(words) || ' bytes]';
BEGIN
  IF octet_length(words) <= most THEN
    RETURN words;
  END IF;
  words := left(words, most);
  WHILE octet_length(words) > most - octet_length(mark) LOOP
    words := left(words, greatest(0, length(words) - greatest(1, (octet_length(words) - most + octet_length(mark)) / 4)));
  END LOOP;
  RETURN words || mark;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.dead_letter_hook(of_queue text, job uuid, of_type text, parent jsonb DEFAULT NULL::jsonb)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
DECLARE
  hook holdfast.on_dead_letter;
  dead record;
  its_ordering holdfast.ordering;
  hook_id uuid;
  stream text;
  told jsonb;
  problem text;
BEGIN
  IF parent IS NOT NULL THEN
    EXECUTE format('UPDATE holdfast.%I AS i SET parent = NULL WHERE i.id = %L RETURNING i.last_error', of_queue, job) INTO problem;
    PERFORM holdfast.children_ended(ARRAY[job], ARRAY[parent], 'd', jsonb_build_object(job, problem));
    problem := NULL;
  END IF;
  SELECT h.* INTO hook FROM holdfast.on_dead_letter AS h
  WHERE h.queue = of_queue AND h.type IN (of_type, '')
  ORDER BY h.type = '' LIMIT 1;
  IF NOT FOUND THEN
    RETURN NULL;
  END IF;
  EXECUTE format('SELECT i.* FROM holdfast.%I AS i WHERE i.id = %L', of_queue, job) INTO dead;
  IF dead.headers ? 'holdfast_dead_letter' THEN
    RETURN NULL;
  END IF;
  SELECT q.ordering INTO its_ordering FROM holdfast.queues AS q WHERE q.name = hook.to_queue;
  told := jsonb_build_object('queue', hook.to_queue, 'type', hook.to_type);
  IF its_ordering IS NULL THEN
    problem := format('there is no queue %I', hook.to_queue);
  ELSE
    hook_id := holdfast.new_id();
    -- Behind a dead letter that holds its key it would wait for the human whom it is to tell.
    stream := CASE WHEN its_ordering = 'key_strict' AND hook.to_queue = of_queue THEN hook_id::text ELSE dead.partition_key END;
    IF its_ordering <> 'turns' THEN
      dead.group_key := NULL;
    END IF;
    BEGIN
      EXECUTE format('INSERT INTO holdfast.%I (id, type, version, partition_key, group_key, partition_bucket, payload,
        headers, priority, max_attempts, parked) VALUES (%L, %L, %L, %L, %L, %L, %L, %L, %L, %L, false)', hook.to_queue,
        hook_id, hook.to_type, hook.version, stream, dead.group_key,
        holdfast.bucket_of(coalesce(dead.group_key, stream)),
        jsonb_build_object('id', job, 'queue', of_queue, 'type', of_type, 'version', dead.version,
          'key', dead.partition_key, 'payload', dead.payload, 'error', dead.last_error, 'attempts', dead.attempts,
          'outcome', dead.history -> -1 -> 'outcome', 'diedAt', dead.history -> -1 -> 'at'),
        coalesce(dead.headers, '{}') - '{holdfast_schedule,holdfast_scheduled_at}'::text[] || jsonb_build_object('holdfast_dead_letter', job),
        hook.priority, hook.max_attempts);
      told := told || jsonb_build_object('id', hook_id);
    EXCEPTION WHEN OTHERS THEN
      IF left(SQLSTATE, 2) IN ('08', '25', '40', '53', '55', '57', '58', 'XX') THEN
        RAISE;
      END IF;
      problem := SQLERRM;
    END;
  END IF;
  IF problem IS NOT NULL THEN
    told := told || jsonb_build_object('error', left(problem, 500));
  END IF;
  EXECUTE format('UPDATE holdfast.%I AS i SET history = jsonb_set(i.history, ''{-1,told}'', %L) WHERE i.id = %L', of_queue, told, job);
  RETURN problem;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.due_queues(asked jsonb, OUT queue text, OUT due_in_ms bigint, OUT suspects boolean, OUT maintained_ms bigint, OUT recount boolean, OUT unused boolean)
 RETURNS SETOF record
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
AS $function$
DECLARE
  one record;
BEGIN
  FOR one IN
    SELECT q.name, a.value -> 'types' AS types, a.value -> 'versions' AS versions
    FROM jsonb_each(asked) AS a JOIN holdfast.queues AS q ON q.name = a.key ORDER BY q.name
  LOOP
    queue := one.name;
    EXECUTE format('SELECT d.* FROM holdfast.%I(ARRAY(SELECT jsonb_array_elements_text(%L)), '
      'ARRAY(SELECT jsonb_array_elements_text(%L)::integer)) AS d', one.name || '_due', one.types, one.versions)
      INTO due_in_ms, suspects, maintained_ms, recount, unused;
    RETURN NEXT;
  END LOOP;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.event_fill()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  NEW.bucket := holdfast.bucket_of(NEW.key);
  NEW.id := coalesce(NEW.id, gen_random_uuid());
  RETURN NEW;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.event_page(log text, first_slice integer, last_slice integer, seen pg_snapshot, mark xid8, top bigint, until pg_snapshot, until_top bigint, after bigint, most integer)
 RETURNS TABLE(window_until pg_snapshot, window_top bigint, event_position bigint, event_slice smallint, event_id uuid, event_key text, event_type text, event_version integer, event_data jsonb, event_headers jsonb, event_occurred_at timestamp with time zone, event_written_at timestamp with time zone)
 LANGUAGE plpgsql
 STABLE
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
BEGIN
  RETURN QUERY
  WITH w AS MATERIALIZED (
    SELECT coalesce(until, pg_current_snapshot()) AS snap,
      -- Not last_value of the relation: a plain read may see the value that nextval() writes to the log ahead of itself.
      coalesce(until_top, pg_sequence_last_value('holdfast.event_log_position_seq'::regclass), 0) AS upto
  )
  SELECT w.snap, w.upto, e.position, e.slice, e.id, e.key, e.type, e.version, e.data, e.headers, e.occurred_at,
    e.written_at
  FROM w LEFT JOIN LATERAL (
    (SELECT r.* FROM pg_snapshot_xip(seen) AS x(xid), LATERAL (
      SELECT l.* FROM holdfast.event_log AS l
      -- The additions keep (1) and (2) off the primary key, which the planner may take for the shorter way.
      WHERE l.xid = x.xid AND l.position > after AND l.stream || '' = log
        AND l.slice + 0 BETWEEN first_slice AND last_slice AND pg_visible_in_snapshot(l.xid, w.snap)
      ORDER BY l.position LIMIT most) AS r)
    UNION ALL
    (SELECT l.* FROM holdfast.event_log AS l
      WHERE l.xid >= pg_snapshot_xmax(seen) AND l.xid <= mark AND l.position > after AND l.stream || '' = log
        AND l.slice + 0 BETWEEN first_slice AND last_slice AND pg_visible_in_snapshot(l.xid, w.snap)
      ORDER BY l.position LIMIT most)
    UNION ALL
    (SELECT r.* FROM generate_series(first_slice, last_slice) AS s(slice), LATERAL (
      SELECT l.* FROM holdfast.event_log AS l
      WHERE l.stream = log AND l.slice = s.slice AND l.position > greatest(top, after) AND l.position <= w.upto
        AND l.xid > mark AND l.xid >= pg_snapshot_xmax(seen) AND pg_visible_in_snapshot(l.xid, w.snap)
      ORDER BY l.position LIMIT most) AS r)
    ORDER BY position LIMIT most
  ) AS e ON true
  ORDER BY e.position;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.events_wake()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
AS $function$
BEGIN
  IF pg_catalog.pg_try_advisory_lock(TG_RELID::integer, 0) THEN
    PERFORM pg_catalog.pg_advisory_unlock(TG_RELID::integer, 0);
    RETURN NULL;
  END IF;
  -- Off for two-phase commits, which Postgres refuses after a notification. And a full queue of
  -- notifications would fail the commit.
  IF (pg_catalog.current_setting('holdfast.notify', true) OPERATOR(pg_catalog.=) 'off') IS TRUE
    OR pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.>) 0.5 THEN
    RETURN NULL;
  END IF;
  PERFORM pg_catalog.pg_notify(pg_catalog.concat('holdfast_', TG_RELID), '');
  RETURN NULL;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.fleet_changed()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  UPDATE holdfast.fleet SET epoch = epoch + 1;
  PERFORM pg_notify('holdfast_fleet', TG_TABLE_SCHEMA);
  RETURN NULL;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.hash32(key text)
 RETURNS bigint
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE STRICT
AS $function$
DECLARE
  bytes bytea := convert_to(key, 'UTF8');
  h bigint := 2166136261;
BEGIN
  FOR i IN 0 .. length(bytes) - 1 LOOP
    h := ((h # get_byte(bytes, i)) * 16777619) & 4294967295;
  END LOOP;
  -- The products are taken in two halves, because a bigint cannot hold 32 by 32 bits.
  h := h # (h >> 16);
  h := (h * 51819 + (((h * 34283) & 65535) << 16)) & 4294967295;  -- 0x85ebca6b
  h := h # (h >> 13);
  h := (h * 44597 + (((h * 49842) & 65535) << 16)) & 4294967295;  -- 0xc2b2ae35
  RETURN h # (h >> 16);
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_allow(worker text, worker_holds jsonb, places tid[], types text[], keys text[], OUT nth bigint, OUT place tid, OUT type text, OUT ok boolean, OUT again_ms bigint, OUT whole boolean)
 RETURNS SETOF record
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
DECLARE
  mine integer[];
  moment timestamptz;
BEGIN
  SELECT coalesce(array_agg(l.id), '{}') INTO mine FROM (
    SELECT l.id FROM holdfast.limits AS l
    WHERE l.queue = 'inbox' AND (l.type IS NULL OR l.type = ANY (types))
    ORDER BY l.id FOR UPDATE SKIP LOCKED
  ) AS l;
  moment := clock_timestamp();
  RETURN QUERY
  WITH limits AS MATERIALIZED (
    SELECT l.id, l.type, l.keyed, l.concurrency, l.rate_burst, l.updated_at, l.id = ANY (mine) AS locked,
      date_part('epoch', l.rate_per) / l.rate_limit AS pace,
      CASE WHEN NOT l.id = ANY (mine) THEN 0 WHEN l.concurrency IS NULL THEN 2147483647
        ELSE l.concurrency - coalesce((worker_holds ->> coalesce(l.type, ''))::integer, 0)
          - holdfast.inbox_held(l.id, l.type, CASE WHEN worker_holds IS NOT NULL THEN worker END) END AS room
    FROM holdfast.limits AS l
    WHERE l.queue = 'inbox' AND (l.type IS NULL OR l.type = ANY (types))
  ), jobs AS MATERIALIZED (
    SELECT j.*, t.tat, CASE WHEN j.rate IS NULL THEN 2147483647 ELSE greatest(0, floor(j.rate_burst + 1e-6::double precision - date_part('epoch', t.tat - moment) / j.pace)) END AS tokens
    FROM (
      SELECT u.place, u.type, u.nth, o.id AS own, coalesce(o.room, 2147483647) AS own_room,
        q.id AS of_queue, coalesce(q.room, 2147483647) AS queue_room, coalesce(o.locked, true) AND coalesce(q.locked, true) AS locked,
        -- A job has one rate: that of its type, or else that of its queue.
        r.id AS rate, r.pace, r.rate_burst, r.updated_at, r.keyed, CASE WHEN r.keyed THEN coalesce(u.key, '') ELSE '' END AS key
      FROM unnest(places, types, keys) WITH ORDINALITY AS u(place, type, key, nth)
      LEFT JOIN limits AS o ON o.type = u.type
      LEFT JOIN limits AS q ON q.type IS NULL
      LEFT JOIN limits AS r ON r.id = CASE WHEN o.pace IS NOT NULL THEN o.id WHEN q.pace IS NOT NULL THEN q.id END
    ) AS j
    LEFT JOIN LATERAL (
      SELECT coalesce(max(greatest(moment, j.updated_at + least(315360000,
      date_part('epoch', r.started_tat - j.updated_at) * j.pace / coalesce(r.pace, j.pace))
      * interval '1 second')), moment) AS tat
      FROM holdfast.rates AS r WHERE r.limit_id = j.rate AND r.key = j.key
    ) AS t ON true
  ), locked AS MATERIALIZED (
    SELECT c.*, i.ctid IS NOT NULL AS ok
    FROM (
      SELECT o.*, o.in_rate <= o.tokens AND o.in_own <= o.own_room AS fits,
        count(*) FILTER (WHERE o.in_rate <= o.tokens AND o.in_own <= o.own_room) OVER (ORDER BY o.nth) AS in_queue
      FROM (
        SELECT r.*, count(*) FILTER (WHERE r.in_rate <= r.tokens) OVER (PARTITION BY r.own ORDER BY r.nth) AS in_own
        FROM (SELECT j.*, row_number() OVER (PARTITION BY j.rate, j.key ORDER BY j.nth) AS in_rate FROM jobs AS j) AS r
      ) AS o
    ) AS c
    LEFT JOIN LATERAL (
      SELECT i.ctid FROM holdfast.inbox AS i
      WHERE i.ctid = c.place AND (i.status = 'pending' OR i.status = 'processing' AND i.lease_expires_at <= now())
        AND c.fits AND c.in_queue <= c.queue_room
      FOR UPDATE SKIP LOCKED
    ) AS i ON true
  ), paid AS (
    INSERT INTO holdfast.rates AS r (limit_id, key, started_tat, slot_tat, pace)
    SELECT l.rate, l.key, max(l.tat) + count(*) * max(l.pace) * interval '1 second', moment, max(l.pace)
    FROM locked AS l WHERE l.ok AND l.rate IS NOT NULL GROUP BY l.rate, l.key
    ON CONFLICT (limit_id, key) DO UPDATE SET started_tat = excluded.started_tat, pace = excluded.pace
  ), held AS (
    INSERT INTO holdfast.permits AS p (limit_id, worker_id, held)
    SELECT l.id, worker, coalesce((worker_holds ->> coalesce(l.type, ''))::integer, 0)
      + (SELECT count(*) FROM locked AS k WHERE k.ok AND (l.type IS NULL OR k.type = l.type))
    FROM limits AS l WHERE l.locked AND l.concurrency IS NOT NULL AND worker_holds IS NOT NULL
    ON CONFLICT (limit_id, worker_id) DO UPDATE SET held = excluded.held WHERE p.held <> excluded.held
  )
  SELECT l.nth, l.place, l.type, l.ok, CASE WHEN l.ok THEN NULL WHEN NOT l.locked THEN 5
      WHEN l.in_rate > l.tokens THEN ceil((date_part('epoch', l.tat - moment)
        + (l.tokens - (l.rate_burst - 1)) * l.pace) * 1000)::bigint END,
    -- Somebody else has just taken it, or only its key has no token: others of its type may start.
    NOT l.ok AND NOT (l.fits AND l.in_queue <= l.queue_room) AND NOT (l.locked AND l.keyed IS TRUE AND l.in_rate > l.tokens)
  FROM locked AS l;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_allowance(wanted integer, under text, OUT jobs integer, OUT again_ms bigint, OUT rate_id integer, OUT base timestamp with time zone, OUT pace interval)
 RETURNS record
 LANGUAGE sql
AS $function$
  SELECT CASE WHEN under IS NULL THEN wanted ELSE 0 END, CASE WHEN under IS NOT NULL THEN 1000 END,
    NULL::integer, NULL::timestamptz, NULL::interval
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_arrive(run uuid, last integer, again boolean)
 RETURNS TABLE(name text, place integer, value text)
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
#variable_conflict use_column
DECLARE
  step record;
  taken jsonb;
BEGIN
  FOR step IN
    SELECT o.* FROM (
      SELECT s.name, s.kind, s.value, s.remaining, s.due_at, s.place, s.nth FROM holdfast.inbox_steps AS s
      WHERE s.run_id = run AND s.place IS NULL AND s.kind IN ('w', 'z', 'c')
      UNION ALL
      SELECT s.name, s.kind, s.value, s.remaining, s.due_at, s.place, s.nth FROM holdfast.inbox_steps AS s
      WHERE again AND s.run_id = run AND s.place > last AND s.kind NOT IN ('u', '!', '#') AND s.error IS NULL
    ) AS o
    ORDER BY o.place, o.kind <> 'w', o.nth
  LOOP
    IF step.place IS NOT NULL THEN
      name := step.name; place := step.place; value := step.value::text; last := step.place;
      RETURN NEXT;
      CONTINUE;
    END IF;
    taken := NULL;
    IF step.kind = 'w' THEN
      UPDATE holdfast.inbox_signals AS g SET taken_by = step.name, seen = true
      WHERE g.run_id = run AND g.id = (
        SELECT f.id FROM jsonb_array_elements_text(step.value) AS n(name)
        CROSS JOIN LATERAL (
          SELECT f.id FROM holdfast.inbox_signals AS f
          WHERE f.run_id = run AND f.name = n.name AND f.taken_by IS NULL ORDER BY f.id LIMIT 1) AS f
        ORDER BY f.id LIMIT 1)
      RETURNING CASE WHEN g.value IS NULL THEN jsonb_build_object('name', g.name)
        ELSE jsonb_build_object('name', g.name, 'value', g.value) END INTO taken;
    ELSIF step.kind = 'c' AND step.remaining = 0 THEN
      taken := step.value;
    END IF;
    CONTINUE WHEN taken IS NULL AND (step.due_at <= clock_timestamp()) IS NOT TRUE;
    last := last + 1;
    UPDATE holdfast.inbox_steps AS s
    SET place = last, ms = extract(epoch FROM clock_timestamp() - s.at) * 1000, due_at = NULL, value = taken
    WHERE s.run_id = run AND s.name = step.name;
    name := step.name; place := last; value := taken::text;
    RETURN NEXT;
  END LOOP;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_claim(worker text, lease_ms integer, claim_number bigint, finished bigint[], most integer, worker_holds jsonb, types text[], versions integer[], priorities smallint[], after_times timestamp with time zone[], after_positions bigint[], line_rows integer[], aged boolean, lag_ms integer, ask boolean, OUT epoch bigint, OUT seen_until timestamp with time zone, OUT clock bigint, OUT ready_jobs integer, OUT seen text, OUT cut_line integer, OUT cut_at timestamp with time zone, OUT cut_position bigint, OUT refused jsonb, OUT merges boolean, OUT due_in_ms bigint, OUT suspects boolean, OUT maintained_ms bigint, OUT recount boolean, OUT id uuid, OUT type text, OUT version integer, OUT partition_key text, OUT payload jsonb, OUT headers jsonb, OUT attempts integer, OUT max_attempts integer, OUT lease_generation bigint, OUT crashes integer, OUT created_at timestamp with time zone, OUT partition_bucket integer, OUT priority smallint, OUT taken boolean, OUT cursor_at timestamp with time zone, OUT cursor_position bigint)
 RETURNS SETOF record
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
DECLARE
  queue holdfast.queues;
  lease timestamptz := now() + lease_ms * interval '1 millisecond';
  until timestamptz;
  limited text[];
  places tid[];
BEGIN
  SELECT f.epoch INTO epoch FROM holdfast.fleet AS f WHERE f.one;
  SELECT q.* INTO queue FROM holdfast.queues AS q WHERE q.name = 'inbox' AND NOT q.paused AND q.ordering = 'none';
  seen_until := now() - lag_ms * interval '1 millisecond';
  clock := extract(epoch FROM now()) * 1000;
  until := CASE WHEN aged THEN now() - queue.age_after ELSE now() END;
  IF queue.limits_version > 0 AND worker_holds IS DISTINCT FROM 'false' THEN
    SELECT array_agg(coalesce(l.type, '')) INTO limited FROM holdfast.limits AS l
    WHERE l.queue = 'inbox' AND (l.concurrency IS NOT NULL OR l.rate_limit IS NOT NULL)
      AND (l.type IS NULL OR l.type = ANY (types));
  END IF;
  merges := limited IS NOT NULL OR queue.paused_keys IS NOT NULL;
  IF queue.name IS NULL THEN
    ready_jobs := 0;
  ELSE
    SELECT m.* INTO places, ready_jobs, seen, cut_line, cut_at, cut_position, refused
    FROM holdfast.inbox_merge(worker, worker_holds, most, types, versions, priorities, after_times, after_positions,
      line_rows, until, aged, limited, queue.paused_types, queue.paused_keys) AS m;
  END IF;
  IF cardinality(places) > 0 THEN
    -- By the row of the claim others find what this worker holds. A later claim deletes it, when all its jobs have left.
    RETURN QUERY
    WITH claimed AS (
      UPDATE holdfast.inbox AS i SET status = 'processing',
      claimed_by = worker,
      claimed_at = now(),
      lease_expires_at = lease,
      lease_generation = i.lease_generation + 1,
      attempts = i.attempts + CASE WHEN i.status = 'processing' THEN 0 ELSE 1 END,
      crashes = i.crashes + CASE WHEN i.status = 'processing' AND (i.crashes = 0 OR i.started) THEN 1 ELSE 0 END,
      started = false,
      last_error = CASE WHEN i.status = 'processing'
        THEN 'The worker ' || i.claimed_by || ' vanished while it held this job.' ELSE i.last_error END,
      history = CASE WHEN i.status = 'processing'
        THEN jsonb_path_query_array(
      coalesce(i.history, '[]') || jsonb_build_object('attempt', i.attempts, 'at', now(), 'worker', i.claimed_by, 'outcome', 'vanished', 'spent', false),
      '$[last-19 to last]')
        ELSE i.history END, isolated = false
      WHERE i.ctid = ANY (places)
      RETURNING i.id, i.type, nullif(i.version, 1) AS version, i.partition_key, i.payload,
    i.headers, nullif(i.attempts, 1) AS attempts, nullif(i.max_attempts, 5) AS max_attempts,
    nullif(i.lease_generation, 1) AS lease_generation, nullif(i.crashes, 0) AS crashes,
    nullif(i.created_at, i.available_at) AS created_at, i.partition_bucket,
    nullif(i.priority, 2) AS priority,
    -- Its owner vanished, and this claim was the one to write it down.
    CASE WHEN i.crashes > 0 AND (i.history -> -1 ->> 'at')::timestamptz = now() THEN true END AS taken,
    i.available_at AS cursor_at, i.position AS cursor_position
    ), recorded AS (
      INSERT INTO holdfast.inbox_claims (worker_id, number, jobs)
      SELECT worker, claim_number, array_agg(c.id) FROM claimed AS c
    )
    SELECT NULL::bigint, NULL::timestamptz, NULL::bigint, NULL::integer, NULL::text, NULL::integer, NULL::timestamptz, NULL::bigint, NULL::jsonb, NULL::boolean, NULL::bigint, NULL::boolean, NULL::bigint, NULL::boolean, c.id::uuid, c.type::text, c.version::int4, c.partition_key::text, c.payload::jsonb, c.headers::jsonb, c.attempts::int4, c.max_attempts::int4, c.lease_generation::int8, c.crashes::int4, c.created_at::timestamptz, c.partition_bucket::int4, c.priority::int2, c.taken::bool, c.cursor_at::timestamptz, c.cursor_position::int8 FROM claimed AS c;
  END IF;
  IF finished <> '{}' THEN
    DELETE FROM holdfast.inbox_claims AS f WHERE f.worker_id = worker AND f.number = ANY (finished);
  END IF;
  IF ask THEN
    SELECT d.due_in_ms, d.suspects, d.maintained_ms, d.recount INTO due_in_ms, suspects, maintained_ms, recount
    FROM holdfast.inbox_due(types, versions, now()) AS d;
  END IF;
  RETURN NEXT;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_claim_limited(worker text, lease_ms integer, number bigint, finished bigint[], wanted integer, types text[], versions jsonb, priorities smallint[], after_at timestamp with time zone[], after_position bigint[], of_type text, suspects boolean, suspect_lock integer, lag_ms integer)
 RETURNS TABLE(epoch bigint, clock bigint, seen_until timestamp with time zone, again_ms bigint, throttled bigint, more boolean, waits boolean, left_priority smallint, left_at timestamp with time zone, left_position bigint, isolated boolean, id uuid, type text, version integer, partition_key text, payload jsonb, headers jsonb, attempts integer, max_attempts integer, lease_generation bigint, crashes integer, created_at timestamp with time zone, partition_bucket integer, priority smallint, taken boolean, cursor_at timestamp with time zone, cursor_position bigint)
 LANGUAGE sql
 SET enable_hashjoin TO 'on'
AS $function$
  SELECT f.epoch, (date_part('epoch', now()) * 1000)::bigint, now() - lag_ms * interval '1 millisecond', 1000::bigint,
    0::bigint, false, true, NULL::smallint, NULL::timestamptz, NULL::bigint, false,
    NULL::uuid, NULL::text, NULL::integer, NULL::text, NULL::jsonb, NULL::jsonb, NULL::integer,
    NULL::integer, NULL::bigint, NULL::integer, NULL::timestamptz, NULL::integer,
    NULL::smallint, NULL::boolean, NULL::timestamptz, NULL::bigint
  FROM holdfast.fleet AS f WHERE f.one
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_count_waiting()
 RETURNS bigint
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
AS $function$
DECLARE
  settings holdfast.queues;
  began timestamptz := clock_timestamp();
  jobs bigint;
BEGIN
  SELECT q.* INTO settings FROM holdfast.queues AS q WHERE q.name = 'inbox';
  IF settings.max_pending IS NULL OR settings.recount_at > began
    -- Those from 1 on are the mutexes of buckets.
    OR NOT pg_try_advisory_xact_lock('holdfast.inbox'::regclass::oid::integer, -1) THEN
    RETURN settings.waiting;
  END IF;
  SELECT count(*) INTO jobs
  FROM (SELECT FROM holdfast.inbox AS i
    -- Not those of runs that wait for something: they are no work yet.
    WHERE i.status = 'pending' AND (i.wait_until = i.available_at AND i.available_at > now()) IS NOT TRUE ORDER BY i.id
    LIMIT settings.max_pending::bigint + 1) AS w;
  UPDATE holdfast.queues AS q
  SET waiting = jobs, waiting_at = began,
      recount_at = clock_timestamp() + greatest(interval '1 second', 20 * (clock_timestamp() - began))
  WHERE q.name = 'inbox';
  RETURN jobs;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_due(types text[], versions integer[], due_after timestamp with time zone DEFAULT '-infinity'::timestamp with time zone, OUT due_in_ms bigint, OUT suspects boolean, OUT maintained_ms bigint, OUT recount boolean, OUT unused boolean)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
DECLARE
  queue holdfast.queues;
  due   timestamptz;
BEGIN
  SELECT q.* INTO queue FROM holdfast.queues AS q WHERE q.name = 'inbox';
  -- Claims of workers that died are deleted by maintenance.
  unused := NOT EXISTS (SELECT FROM holdfast.inbox AS i) AND NOT EXISTS (SELECT FROM holdfast.inbox_claims AS c);
  maintained_ms := extract(epoch FROM now() - queue.maintained_at) * 1000;
  recount := queue.max_pending IS NOT NULL AND coalesce(queue.recount_at <= now(), true);
  suspects := NOT unused AND EXISTS (SELECT FROM holdfast.inbox AS s
    WHERE s.crashes > 1 AND s.status = 'pending' AND s.available_at <= now());
  IF unused OR queue.paused THEN
    RETURN;
  ELSIF queue.ordering <> 'none' THEN
    due := (SELECT now() FROM holdfast.inbox AS i WHERE NOT i.parked AND i.status = 'pending' LIMIT 1);
  ELSE
    SELECT min(n.available_at) INTO due
    FROM (
      SELECT l.type, hashtextextended(l.type, l.version) AS line FROM unnest(types, versions) AS l(type, version) GROUP BY 1, 2
    ) AS l
    CROSS JOIN generate_series(1, 4) AS p(priority)
    CROSS JOIN LATERAL (
      SELECT i.available_at FROM holdfast.inbox AS i
      WHERE hashtextextended(i.type, i.version) = l.line AND i.priority = p.priority::smallint
        AND i.available_at > due_after AND i.available_at < 'infinity' AND i.crashes < 2 AND i.limit_key IS NULL AND i.status = 'pending'
      ORDER BY i.available_at LIMIT 1
    ) AS n
    WHERE (l.type = ANY (queue.paused_types)) IS NOT TRUE;
    -- Jobs with keys of a rate are found by walks.
    IF due_after = '-infinity' AND EXISTS (SELECT FROM unnest(types) AS l(type) CROSS JOIN LATERAL (
      SELECT FROM holdfast.inbox AS i
      WHERE i.type COLLATE "C" = l.type AND i.limit_key IS NOT NULL AND i.crashes < 2 LIMIT 1) AS n) THEN
      due := now();
    END IF;
  END IF;
  due_in_ms := ceil(extract(epoch FROM due - now()) * 1000);
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_enqueue(type text, payload jsonb, partition_key text DEFAULT NULL::text, idempotency_key text DEFAULT NULL::text, delay interval DEFAULT NULL::interval, available_at timestamp with time zone DEFAULT NULL::timestamp with time zone, priority integer DEFAULT 2, max_attempts integer DEFAULT 5, headers jsonb DEFAULT NULL::jsonb, version integer DEFAULT 1, unique_key text DEFAULT NULL::text, unique_while text DEFAULT 'pending'::text, on_conflict text DEFAULT 'ignore'::text, unique_window interval DEFAULT NULL::interval, group_key text DEFAULT NULL::text, limit_key text DEFAULT NULL::text, OUT id uuid, OUT deduplicated boolean)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
DECLARE
  a_type ALIAS FOR type;  a_payload ALIAS FOR payload;  a_key ALIAS FOR partition_key;  a_idempotency_key ALIAS FOR idempotency_key;
  a_delay ALIAS FOR delay;  a_available_at ALIAS FOR available_at;  a_priority ALIAS FOR priority;
  a_max_attempts ALIAS FOR max_attempts;  a_headers ALIAS FOR headers;  a_version ALIAS FOR version;
  a_unique ALIAS FOR unique_key;  a_while ALIAS FOR unique_while;  a_conflict ALIAS FOR on_conflict;  a_window ALIAS FOR unique_window;
  a_group ALIAS FOR group_key;  a_limit_key ALIAS FOR limit_key;  o_id ALIAS FOR id;  o_deduplicated ALIAS FOR deduplicated;
  standing uuid;
  stream text;
  due timestamptz;
  settings record;
BEGIN
  SELECT q.max_payload_bytes, q.max_pending, q.waiting INTO settings FROM holdfast.queues AS q WHERE q.name = 'inbox';
  PERFORM holdfast.check_job(a_type, a_payload, a_key, a_group, a_idempotency_key, a_headers, settings.max_payload_bytes);
  IF settings.waiting >= settings.max_pending THEN
    RAISE EXCEPTION 'queue % is full, % jobs may wait: nothing was enqueued', quote_literal('inbox'), settings.max_pending
      USING ERRCODE = 'HF006', HINT = 'Try again later, add workers, or raise max_pending.';
  ELSIF a_delay IS NOT NULL AND a_available_at IS NOT NULL THEN
    RAISE EXCEPTION 'both delay and available_at were given: nothing was enqueued'
      USING ERRCODE = 'HF002', HINT = 'Give one of them.';
  ELSIF a_delay < '0' OR a_delay > '3650 days' OR a_available_at > now() + interval '3650 days' THEN
    RAISE EXCEPTION 'the delay is negative or longer than ten years: nothing was enqueued'
      USING ERRCODE = 'HF002', HINT = 'Give a delay between 0 and 3650 days.';
  ELSIF a_priority IS NULL OR a_priority NOT BETWEEN 1 AND 4 THEN
    RAISE EXCEPTION 'the priority is %: nothing was enqueued', coalesce(a_priority::text, 'NULL')
      USING ERRCODE = 'HF002', HINT = 'Give 1 (first) to 4 (last); 2 is the default.';
  ELSIF a_max_attempts NOT BETWEEN 1 AND 10000 OR a_version IS NULL OR a_version < 1 THEN
    RAISE EXCEPTION 'max_attempts or version is out of range: nothing was enqueued'
      USING ERRCODE = 'HF002', HINT = 'max_attempts is 1 to 10000, version is 1 or more.';
  ELSIF a_unique IS NOT NULL AND a_idempotency_key IS NOT NULL THEN
    RAISE EXCEPTION 'both unique_key and idempotency_key were given: nothing was enqueued'
      USING ERRCODE = 'HF002', HINT = 'Give one of them: they may stand for two different jobs.';
  ELSIF a_limit_key = '' OR octet_length(a_limit_key) > 512 THEN
    RAISE EXCEPTION 'the limit key is empty or longer than 512 bytes: nothing was enqueued'
      USING ERRCODE = 'HF002', HINT = 'Pass 1 to 512 bytes, or NULL for none.';
  END IF;

  o_id := holdfast.new_id();
  o_deduplicated := false;
  IF a_idempotency_key IS NOT NULL THEN
    standing := holdfast.inbox_take_key(a_idempotency_key, o_id, a_type, a_payload);
    IF standing <> o_id THEN
      o_id := standing;
      o_deduplicated := true;
      RETURN;
    END IF;
  END IF;

  stream := coalesce(a_key, o_id::text);
  -- A time in the past means now: nobody jumps the queue by naming an old date.
  due := greatest(coalesce(a_available_at, statement_timestamp() + a_delay), statement_timestamp());
  IF a_unique IS NOT NULL THEN
    SELECT u.job_id, u.outcome <> 'written' INTO o_id, o_deduplicated
    FROM holdfast.inbox_enqueue_unique(o_id, a_type, a_version, stream,
      holdfast.bucket_of(coalesce(a_group, stream)), a_payload, a_headers, a_priority, coalesce(a_max_attempts, 5), due,
      a_unique, a_while, a_conflict, a_window, a_group, a_limit_key) AS u;
    RETURN;
  END IF;
  INSERT INTO holdfast.inbox (id, available_at, partition_bucket, type, partition_key, payload,
    priority, max_attempts, headers, version, idempotency_key, group_key, limit_key, parked)
  VALUES (o_id, due, holdfast.bucket_of(coalesce(a_group, stream)), a_type, stream, a_payload, a_priority,
    coalesce(a_max_attempts, 5), a_headers, a_version, a_idempotency_key, a_group, a_limit_key, false);
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_enqueue_unique(id uuid, type text, version integer, partition_key text, partition_bucket integer, payload jsonb, headers jsonb, priority integer, max_attempts integer, available_at timestamp with time zone, unique_key text, unique_while text, on_conflict text, unique_window interval, group_key text, limit_key text, at_position bigint DEFAULT NULL::bigint, OUT job_id uuid, OUT outcome text)
 RETURNS record
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
AS $function$
#variable_conflict use_column
DECLARE
  a_id ALIAS FOR id;  a_type ALIAS FOR type;  a_version ALIAS FOR version;  a_key ALIAS FOR partition_key;
  a_bucket ALIAS FOR partition_bucket;  a_payload ALIAS FOR payload;  a_headers ALIAS FOR headers;  a_priority ALIAS FOR priority;
  a_max_attempts ALIAS FOR max_attempts;  a_due ALIAS FOR available_at;  a_unique ALIAS FOR unique_key;  a_while ALIAS FOR unique_while;
  a_conflict ALIAS FOR on_conflict;  a_window ALIAS FOR unique_window;  a_group ALIAS FOR group_key;  a_limit_key ALIAS FOR limit_key;
  a_position ALIAS FOR at_position;  o_id ALIAS FOR job_id;  o_outcome ALIAS FOR outcome;
  held holdfast.inbox_unique;
  waiting holdfast.inbox;
  live uuid[];
BEGIN
  PERFORM holdfast.check_unique(a_unique, a_while, a_conflict, a_window);
  FOR locked IN 0 .. 1 LOOP
    IF locked = 0 THEN
      -- Whether anything stands, of whatever state, is mostly seen without a lock.
      CONTINUE WHEN a_conflict <> 'ignore' OR a_while = 'pending';
      SELECT u.* INTO held FROM holdfast.inbox_unique AS u WHERE u.type = a_type AND u.key = a_unique;
      CONTINUE WHEN NOT FOUND;
    ELSE
      INSERT INTO holdfast.inbox_unique AS u (type, key, jobs, prune_at)
      VALUES (a_type, a_unique, '{}', now() + interval '10 minutes')
      ON CONFLICT (type, key) DO UPDATE SET key = excluded.key
      RETURNING u.* INTO held;
    END IF;
    SELECT array_agg(i.id ORDER BY i.position) INTO live
    FROM holdfast.inbox AS i
    WHERE i.id = ANY (held.jobs) AND i.status <> 'dead_letter';
    IF a_conflict = 'ignore' AND a_while <> 'pending' THEN
      IF live IS NOT NULL OR a_while = 'kept' AND held.kept_until > statement_timestamp() THEN
        o_id := coalesce(live[cardinality(live)], held.jobs[cardinality(held.jobs)]);
        o_outcome := 'ignored';
        RETURN;
      END IF;
    ELSE
      SELECT i.* INTO waiting
      FROM holdfast.inbox AS i
      WHERE i.id = ANY (held.jobs) AND i.status = 'pending' AND i.lease_generation = 0
      ORDER BY i.position DESC
      LIMIT 1
      FOR UPDATE;
      IF FOUND THEN
        o_id := waiting.id;
        o_outcome := 'ignored';
        IF a_conflict = 'replace' THEN
          -- Written anew and not updated, so that workers get the hint that an insert sends.
          DELETE FROM holdfast.inbox AS i WHERE i.id = waiting.id;
          INSERT INTO holdfast.inbox (id, position, created_at, available_at, partition_bucket, type, partition_key,
            payload, priority, max_attempts, headers, version, group_key, limit_key, unique_key, parked)
          VALUES (waiting.id, waiting.position, waiting.created_at, a_due, waiting.partition_bucket,
            a_type, waiting.partition_key, a_payload, a_priority, a_max_attempts, a_headers, a_version,
            waiting.group_key, a_limit_key, a_unique, false);
          o_outcome := 'replaced';
        END IF;
        RETURN;
      END IF;
    END IF;
  END LOOP;

  INSERT INTO holdfast.inbox (id, position, available_at, partition_bucket, type, partition_key, payload, priority,
    max_attempts, headers, version, group_key, limit_key, unique_key, parked)
  VALUES (a_id, coalesce(a_position, nextval('holdfast.inbox_position_seq')), a_due, a_bucket, a_type, a_key, a_payload,
    a_priority, a_max_attempts, a_headers, a_version, a_group, a_limit_key, a_unique, false);
  UPDATE holdfast.inbox_unique AS u
  SET jobs = live || a_id,
      kept_until = CASE WHEN a_while = 'kept' THEN statement_timestamp() + coalesce(a_window,
        (SELECT q.idempotency_retention FROM holdfast.queues AS q WHERE q.name = 'inbox')) END,
      prune_at = greatest(a_due, statement_timestamp()) + interval '10 minutes'
  WHERE u.type = a_type AND u.key = a_unique;
  o_id := a_id;
  o_outcome := 'written';
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_fill()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  taker uuid := gen_random_uuid();
BEGIN
  -- The bucket of a job with a group is that of its group. Elsewhere that would take a key's line apart.
  IF NEW.group_key IS NOT NULL
    AND (SELECT q.ordering FROM holdfast.queues AS q WHERE q.name = 'inbox') <> 'turns' THEN
    RAISE EXCEPTION 'queue % has no groups: nothing was enqueued', quote_literal('inbox')
      USING ERRCODE = 'HF002', HINT = 'Leave the group out, or make a queue with perGroup, perKey or fair.';
  ELSIF NEW.parked IS NOT NULL THEN
    RETURN NEW;
  END IF;
  NEW.parked := false;
  NEW.type := coalesce(NEW.type, NEW.payload ->> 'type');
  PERFORM holdfast.check_job(NEW.type, NEW.payload, NEW.partition_key, NEW.group_key, NEW.idempotency_key,
    NEW.headers, (SELECT q.max_payload_bytes FROM holdfast.queues AS q WHERE q.name = 'inbox'));
  IF NEW.limit_key = '' OR octet_length(NEW.limit_key) > 512 THEN
    RAISE EXCEPTION 'the limit key is empty or longer than 512 bytes: nothing was enqueued'
      USING ERRCODE = 'HF002', HINT = 'Pass 1 to 512 bytes, or NULL for none.';
  END IF;
  NEW.partition_key := coalesce(NEW.partition_key, NEW.id::text);
  NEW.partition_bucket := holdfast.bucket_of(coalesce(NEW.group_key, NEW.partition_key));
  IF NEW.idempotency_key IS NOT NULL THEN
    -- Under an id that nobody has: an insert that names its id and is sent again is the job for which its key stands.
    IF holdfast.inbox_take_key(NEW.idempotency_key, taker, NEW.type, NEW.payload) <> taker THEN
      RETURN NULL;
    END IF;
    UPDATE holdfast.inbox_idempotency AS k SET job_id = NEW.id WHERE k.key = NEW.idempotency_key;
  END IF;
  RETURN NEW;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_held(of_limit integer, of_type text, but_for text)
 RETURNS bigint
 LANGUAGE sql
 STABLE
AS $function$
  SELECT coalesce(sum(coalesce(p.held, (
    SELECT count(*)
    FROM (
      SELECT DISTINCT j.id FROM holdfast.inbox_claims AS c CROSS JOIN LATERAL unnest(c.jobs) AS j(id)
      WHERE c.worker_id = w.id
    ) AS h
    CROSS JOIN LATERAL (
      SELECT i.type FROM holdfast.inbox AS i WHERE i.id = h.id AND i.status = 'processing' LIMIT 1
    ) AS r
    WHERE of_type IS NULL OR r.type = of_type))), 0)::bigint
  FROM holdfast.workers AS w
  LEFT JOIN holdfast.permits AS p ON p.limit_id = of_limit AND p.worker_id = w.id
  WHERE w.status <> 'dead' AND w.id IS DISTINCT FROM but_for
    AND (p.held IS NOT NULL OR of_type IS NULL AND w.handles ? 'inbox' OR w.handles -> 'inbox' ? of_type)
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_lock_unique(types text[], keys text[], whiles text[], conflicts text[])
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
AS $function$
DECLARE
  wanted record;
  held holdfast.inbox_unique;
  waiting uuid[] := '{}';
BEGIN
  FOR wanted IN
    SELECT w.type, w.key, bool_or(w.conflict <> 'ignore' OR w.during = 'pending') AS takes_job
    FROM unnest(types, keys, whiles, conflicts) AS w(type, key, during, conflict)
    WHERE w.key <> ''
    GROUP BY w.type, w.key
    ORDER BY w.type, w.key
  LOOP
    IF NOT wanted.takes_job THEN
      SELECT u.* INTO held FROM holdfast.inbox_unique AS u WHERE u.type = wanted.type AND u.key = wanted.key;
      CONTINUE WHEN held.kept_until > statement_timestamp() OR EXISTS (
        SELECT FROM holdfast.inbox AS i WHERE i.id = ANY (held.jobs) AND i.status <> 'dead_letter');
    END IF;
    LOOP
      SELECT u.* INTO held FROM holdfast.inbox_unique AS u
      WHERE u.type = wanted.type AND u.key = wanted.key FOR NO KEY UPDATE;
      EXIT WHEN FOUND;
      INSERT INTO holdfast.inbox_unique (type, key, jobs, prune_at)
      VALUES (wanted.type, wanted.key, '{}', now() + interval '10 minutes')
      ON CONFLICT DO NOTHING;
    END LOOP;
    IF wanted.takes_job THEN
      waiting := waiting || held.jobs;
    END IF;
  END LOOP;
  PERFORM FROM holdfast.inbox AS i
  WHERE i.id = ANY (waiting) AND i.status IN ('pending', 'dead_letter') AND i.lease_generation = 0
  ORDER BY i.id
  FOR UPDATE;
  RETURN true;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_merge(worker text, worker_holds jsonb, most integer, types text[], versions integer[], priorities smallint[], after_times timestamp with time zone[], after_positions bigint[], line_rows integer[], until timestamp with time zone, same_rank boolean, limited_types text[], paused_types text[], paused_keys text[], OUT places tid[], OUT ready_jobs integer, OUT seen text, OUT cut_line integer, OUT cut_at timestamp with time zone, OUT cut_position bigint, OUT refused jsonb)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
DECLARE
  plain tid[];
  asked tid[];
  asked_types text[];
BEGIN
  WITH found AS MATERIALIZED (
    SELECT l.nth AS line, l.rows, l.type, c.*
    FROM (
      SELECT l.*, hashtextextended(l.type, l.version) AS line, CASE WHEN same_rank THEN 0::smallint ELSE l.priority END AS rank
      FROM unnest(types, versions, priorities, after_times, after_positions, line_rows)
        WITH ORDINALITY AS l(type, version, priority, after_at, after_position, rows, nth)
      WHERE (l.type = ANY (paused_types)) IS NOT TRUE
      OFFSET 0
    ) AS l
    CROSS JOIN LATERAL (
      SELECT i.ctid AS place, l.rank, i.available_at, i.position, row_number() OVER () AS nth,
        (i.status = 'pending' OR (i.status = 'processing' AND i.lease_expires_at <= now())) AND (i.partition_key = ANY (paused_keys)) IS NOT TRUE AS ready
      FROM holdfast.inbox AS i
      WHERE hashtextextended(i.type, i.version) = l.line AND i.priority = l.priority
        AND (i.available_at, i.position) > (l.after_at, l.after_position)
        AND i.available_at <= until AND i.crashes < 2 AND i.limit_key IS NULL
      ORDER BY i.available_at, i.position
      LIMIT l.rows
    ) AS c
  ), cut AS MATERIALIZED (
    SELECT f.line, f.rank, f.available_at, f.position FROM found AS f
    WHERE f.nth = f.rows
    ORDER BY f.rank, f.available_at, f.position LIMIT 1
  ), picked AS MATERIALIZED (
    SELECT f.place, f.type, (f.type = ANY (limited_types) OR '' = ANY (limited_types)) IS TRUE AS limited
    FROM found AS f
    WHERE f.ready AND ((f.rank, f.available_at, f.position)
      <= (SELECT c.rank, c.available_at, c.position FROM cut AS c)) IS NOT FALSE
    ORDER BY f.rank, f.available_at, f.position
    LIMIT most
  )
  SELECT p.*, (SELECT string_agg(f.line::text, ',') FROM found AS f WHERE f.nth = 1), c.line, c.available_at, c.position
  INTO plain, asked, asked_types, ready_jobs, seen, cut_line, cut_at, cut_position
  FROM (
    SELECT array_agg(p.place) FILTER (WHERE NOT p.limited), array_agg(p.place) FILTER (WHERE p.limited),
      array_agg(p.type) FILTER (WHERE p.limited), count(*)
    FROM picked AS p
  ) AS p
  LEFT JOIN cut AS c ON true;
  IF asked IS NOT NULL THEN
    -- Of each type, what was said of the first that must wait.
    SELECT array_agg(a.place) FILTER (WHERE a.ok),
      jsonb_object_agg(a.type, a.again_ms ORDER BY a.nth DESC) FILTER (WHERE a.whole)
    INTO places, refused
    FROM holdfast.inbox_allow(worker, worker_holds, asked, asked_types, NULL) AS a;
  END IF;
  places := places || ARRAY(
    SELECT i.ctid FROM holdfast.inbox AS i WHERE i.ctid = ANY (plain) AND (i.status = 'pending' OR (i.status = 'processing' AND i.lease_expires_at <= now())) FOR UPDATE SKIP LOCKED);
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_prune_archive()
 RETURNS bigint
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET lock_timeout TO '50ms'
AS $function$
DECLARE
  prefix CONSTANT text := 'inbox' || '_archive_';
  queue  holdfast.queues;
  last   integer;
  is_due boolean;
  old    integer[];
  one    integer;
  pruned bigint := 0;
BEGIN
  FOR pass IN 1 .. 2 LOOP
    IF pass = 1 THEN
      SELECT q.* INTO queue FROM holdfast.queues AS q WHERE q.name = 'inbox';
    ELSE
      -- One at a time. Read again, because somebody else may have done it.
      SELECT q.* INTO queue FROM holdfast.queues AS q WHERE q.name = 'inbox' FOR NO KEY UPDATE SKIP LOCKED;
    END IF;
    SELECT max(s.number),
      -- The size is asked of the file: nothing is read. An empty segment goes on.
      bool_or(s.closed_at IS NULL AND s.opened_at <= now() - queue.archive_retention / 8
        AND pg_relation_size(to_regclass(format('holdfast.%I', prefix || s.number))) > 0),
      coalesce(array_agg(s.number) FILTER (WHERE s.closed_at < now() - queue.archive_retention), '{}')
    INTO last, is_due, old
    FROM (
      SELECT e.key::integer AS number, e.value::timestamptz AS opened_at,
        lead(e.value::timestamptz) OVER (ORDER BY e.key::integer) AS closed_at
      FROM jsonb_each_text(queue.archive_segments) AS e
    ) AS s;
    IF is_due IS NOT TRUE AND old = '{}' THEN
      RETURN 0;
    END IF;
  END LOOP;

  IF is_due THEN
    -- The last block range of a table is not summarized until it is full, which it will never be.
    BEGIN
      PERFORM brin_summarize_new_values(i.indexrelid) FROM pg_index AS i
      WHERE i.indrelid = to_regclass(format('holdfast.%I', prefix || last));
    EXCEPTION WHEN lock_not_available THEN
      NULL;  -- It is being vacuumed, which does the same.
    END;
  END IF;
  LOCK TABLE ONLY holdfast.inbox_archive IN ACCESS EXCLUSIVE MODE;
  IF is_due THEN
    EXECUTE format('CREATE TABLE holdfast.%I PARTITION OF holdfast.inbox_archive FOR VALUES IN (%s) '
      'WITH (fillfactor = 100, autovacuum_vacuum_insert_scale_factor = 0.02, '
      'autovacuum_vacuum_insert_threshold = 100000)', prefix || last + 1, last + 1);
    EXECUTE format('ALTER TABLE ONLY holdfast.inbox_archive ALTER COLUMN segment SET DEFAULT %s', last + 1);
    queue.archive_segments := queue.archive_segments || jsonb_build_object(last + 1, clock_timestamp());
  END IF;
  FOREACH one IN ARRAY old LOOP
    BEGIN
      EXECUTE format('LOCK TABLE ONLY holdfast.%I IN ACCESS EXCLUSIVE MODE NOWAIT', prefix || one);
      pruned := pruned + greatest(1, pg_stat_get_live_tuples(to_regclass(format('holdfast.%I', prefix || one))));
      EXECUTE format('DROP TABLE holdfast.%I', prefix || one);
      queue.archive_segments := queue.archive_segments - one::text;
    EXCEPTION WHEN lock_not_available THEN
      NULL;  -- It is being vacuumed, or read by its own name. The next round drops it.
    END;
  END LOOP;
  UPDATE holdfast.queues AS q SET archive_segments = queue.archive_segments WHERE q.name = 'inbox';
  RETURN pruned;
EXCEPTION WHEN lock_not_available THEN
  RETURN 0;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_rate_keys(types text[], versions integer[], after_keys text[], most_keys integer, most_jobs integer, paused_types text[], paused_keys text[], OUT type text, OUT key text, OUT tokens integer, OUT again_ms bigint, OUT place tid, OUT rank smallint, OUT available_at timestamp with time zone, OUT "position" bigint)
 RETURNS SETOF record
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
DECLARE
  moment timestamptz := clock_timestamp();
BEGIN
  RETURN QUERY
  WITH RECURSIVE entries AS (
    SELECT t.type, t.version, t.after COLLATE "C" AS key, 0::bigint AS keys, 1::bigint AS keys_read, 0::bigint AS nth, 0::bigint AS rows,
      NULL::tid AS place, NULL::smallint AS rank, NULL::timestamptz AS available_at, NULL::bigint AS position, false AS ready
    FROM unnest(types, versions, after_keys) AS t(type, version, after)
    WHERE (t.type = ANY (paused_types)) IS NOT TRUE
    UNION ALL
    SELECT e.type, e.version, i.key, e.keys + i.keys_read, i.keys_read, i.nth, i.rows, i.place, i.rank, i.available_at, i.position, i.ready
    FROM entries AS e
    CROSS JOIN LATERAL (
      SELECT i.*, row_number() OVER () AS nth, dense_rank() OVER (ORDER BY i.key) AS keys_read
      FROM (
        SELECT i.limit_key COLLATE "C" AS key, i.ctid AS place, i.priority::smallint AS rank, i.available_at, i.position,
          least(2 * e.keys_read, most_keys - e.keys) AS rows, i.available_at <= now() AND i.version <= e.version AND (i.status = 'pending' OR (i.status = 'processing' AND i.lease_expires_at <= now()))
          AND (i.partition_key = ANY (paused_keys)) IS NOT TRUE AS ready
        FROM holdfast.inbox AS i
        WHERE i.type COLLATE "C" = e.type AND i.limit_key COLLATE "C" > e.key AND i.limit_key IS NOT NULL AND i.crashes < 2
        ORDER BY i.limit_key COLLATE "C", i.priority, i.available_at, i.position
        LIMIT least(2 * e.keys_read, most_keys - e.keys)
      ) AS i
    ) AS i
    WHERE e.nth = e.rows AND e.keys < most_keys
  ), keys AS (
    SELECT e.*, coalesce(t.tokens, l.rate_burst, most_jobs) AS tokens,
      ceil((date_part('epoch', coalesce(t.tat, moment) - moment) + (coalesce(t.tokens, l.rate_burst) - (l.rate_burst - 1)) * l.pace)
        * 1000)::bigint AS again_ms
    FROM (
      SELECT e.*, bool_or(e.nth = e.rows) OVER of_key AS goes_on, count(*) FILTER (WHERE e.ready) OVER (of_key ORDER BY e.nth) AS nth_ready
      FROM entries AS e WHERE e.nth > 0
      WINDOW of_key AS (PARTITION BY e.type, e.key)
    ) AS e
    LEFT JOIN (
      SELECT l.id, l.type, l.rate_burst, l.updated_at, date_part('epoch', l.rate_per) / l.rate_limit AS pace
      FROM holdfast.limits AS l WHERE l.queue = 'inbox' AND l.keyed AND l.rate_limit IS NOT NULL
    ) AS l ON l.type = e.type
    LEFT JOIN LATERAL (
      SELECT n.tat, greatest(0, floor(l.rate_burst + 1e-6::double precision - date_part('epoch', n.tat - moment) / l.pace)) AS tokens
      FROM (
        -- As its index has it: by another collation every key of the limit would be read.
        SELECT greatest(moment, l.updated_at + least(315360000,
      date_part('epoch', r.started_tat - l.updated_at) * l.pace / coalesce(r.pace, l.pace))
      * interval '1 second') AS tat FROM holdfast.rates AS r
        WHERE r.limit_id = l.id AND r.key = e.key COLLATE "default"
      ) AS n
    ) AS t ON true
    WHERE NOT e.goes_on OR e.nth = e.rows
  )
  SELECT k.type, k.key, least(most_jobs, k.tokens)::integer, k.again_ms,
    CASE WHEN k.ready AND k.nth_ready <= k.tokens THEN k.place END, k.rank, k.available_at, k.position
  FROM keys AS k WHERE NOT k.goes_on
  UNION ALL
  SELECT e.type, e.key, least(most_jobs, e.tokens)::integer, e.again_ms, c.*
  FROM keys AS e
  LEFT JOIN LATERAL (
    SELECT c.* FROM generate_series(1, 4) AS p(priority)
    CROSS JOIN LATERAL (
      SELECT i.ctid, i.priority::smallint, i.available_at, i.position
      FROM holdfast.inbox AS i
      WHERE i.type COLLATE "C" = e.type AND i.limit_key COLLATE "C" = e.key AND i.priority = p.priority::smallint
        AND i.crashes < 2 AND i.limit_key IS NOT NULL AND i.available_at <= now() AND i.version <= e.version AND (i.status = 'pending' OR (i.status = 'processing' AND i.lease_expires_at <= now()))
          AND (i.partition_key = ANY (paused_keys)) IS NOT TRUE
      ORDER BY i.available_at, i.position
      LIMIT least(most_jobs, e.tokens)
    ) AS c
    LIMIT least(most_jobs, e.tokens)
  ) AS c ON true
  WHERE e.goes_on;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_retake_unique(types text[], keys text[], ids uuid[])
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
AS $function$
DECLARE
  wanted record;
BEGIN
  FOR wanted IN
    SELECT DISTINCT ON (w.type, w.key) w.type, w.key, w.id
    FROM unnest(types, keys, ids) WITH ORDINALITY AS w(type, key, id, nth)
    ORDER BY w.type, w.key, w.nth DESC
  LOOP
    INSERT INTO holdfast.inbox_unique (type, key, jobs, prune_at)
    VALUES (wanted.type, wanted.key, '{}', now() + interval '10 minutes')
    ON CONFLICT (type, key) DO UPDATE SET key = excluded.key;
    UPDATE holdfast.inbox_unique AS u
    SET jobs = ARRAY[wanted.id], prune_at = greatest(u.prune_at, now() + interval '10 minutes')
    WHERE u.type = wanted.type AND u.key = wanted.key AND (u.kept_until > statement_timestamp()) IS NOT TRUE
      AND NOT EXISTS (SELECT FROM holdfast.inbox AS i WHERE i.id = ANY (u.jobs) AND i.status <> 'dead_letter');
  END LOOP;
  RETURN true;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_room(jobs uuid[])
 RETURNS SETOF uuid
 LANGUAGE plpgsql
AS $function$
DECLARE
  queue record;
  held  jsonb;
  mine  uuid[];
BEGIN
  SELECT q.per_key, q.per_group, q.fair, q.weights, q.paused_types, q.paused_keys,
    EXISTS (SELECT FROM holdfast.key_windows AS w WHERE w.queue = 'inbox') AS windows INTO queue FROM holdfast.queues AS q WHERE q.name = 'inbox';
  SELECT array_agg(i.id) INTO mine
  FROM (SELECT i.id, i.partition_bucket FROM holdfast.inbox AS i WHERE i.id = ANY (jobs) OFFSET 0) AS i
  WHERE pg_try_advisory_xact_lock('holdfast.inbox'::regclass::oid::integer, i.partition_bucket + 1);
  held := holdfast.inbox_turns_held(NULL, NULL);
  RETURN QUERY
  SELECT r.id
  FROM (
    SELECT i.id, (CASE WHEN queue.windows THEN coalesce((SELECT w.per_key FROM holdfast.key_windows AS w WHERE w.queue = 'inbox' AND w.key = i.partition_key), queue.per_key) ELSE queue.per_key END - coalesce((held ->> concat('k', length(i.grp), ':', i.grp, i.partition_key))::integer, 0)) AS of_key, (CASE WHEN i.grp <> '' THEN queue.per_group - coalesce((held ->> concat('g', i.grp))::integer, 0) END) AS of_group,
      row_number() OVER (PARTITION BY i.grp, i.partition_key ORDER BY i.id) AS in_key,
      row_number() OVER (PARTITION BY i.grp ORDER BY i.id) AS in_group
    FROM (
      SELECT i.id, i.partition_key, coalesce(i.group_key, '') AS grp FROM holdfast.inbox AS i WHERE i.id = ANY (mine)
    ) AS i
  ) AS r
  WHERE (r.of_key IS NULL OR r.in_key <= r.of_key) AND (r.of_group IS NULL OR r.in_group <= r.of_group);
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_set_limit(act text, of_type text, new_concurrency integer, new_limit integer, new_per interval, new_burst integer, with_keys boolean)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
DECLARE
  was holdfast.limits;
  wanted holdfast.limits;
BEGIN
  LOOP
    SELECT l.* INTO was FROM holdfast.limits AS l
    WHERE l.queue = 'inbox' AND l.type IS NOT DISTINCT FROM of_type FOR UPDATE;
    EXIT WHEN FOUND;
    IF act IN ('reset', 'remove')
      OR act = 'declare' AND new_concurrency IS NULL AND new_limit IS NULL THEN
      RETURN false;
    END IF;
    INSERT INTO holdfast.limits (queue, type) VALUES ('inbox', of_type) ON CONFLICT DO NOTHING;
  END LOOP;
  wanted := was;
  IF act = 'declare' THEN
    wanted.declared_concurrency := new_concurrency;
    wanted.declared_rate_limit := new_limit;
    wanted.declared_rate_per := new_per;
    wanted.declared_rate_burst := new_burst;
    wanted.keyed := coalesce(with_keys, false);
  ELSIF act = 'set' THEN
    wanted.overridden := true;
    wanted.concurrency := new_concurrency;
    wanted.rate_limit := new_limit;
    wanted.rate_per := new_per;
    wanted.rate_burst := new_burst;
  ELSE
    wanted.overridden := false;
  END IF;
  IF NOT wanted.overridden THEN
    wanted.concurrency := wanted.declared_concurrency;
    wanted.rate_limit := wanted.declared_rate_limit;
    wanted.rate_per := wanted.declared_rate_per;
    wanted.rate_burst := wanted.declared_rate_burst;
  END IF;
  IF act = 'remove' OR NOT wanted.overridden AND wanted.concurrency IS NULL AND wanted.rate_limit IS NULL THEN
    DELETE FROM holdfast.limits AS l WHERE l.id = was.id;
    -- Nobody starts under it: its row is locked, and claims look for it again.
    DELETE FROM holdfast.rates AS r WHERE r.limit_id = was.id;
    RETURN true;
  ELSIF wanted IS NOT DISTINCT FROM was THEN
    RETURN false;
  ELSIF was.concurrency IS NULL THEN
    -- What workers said while nothing was counted is old.
    DELETE FROM holdfast.permits AS p WHERE p.limit_id = was.id;
  END IF;
  UPDATE holdfast.limits AS l
  SET (concurrency, rate_limit, rate_per, rate_burst, keyed, declared_concurrency, declared_rate_limit,
      declared_rate_per, declared_rate_burst, overridden, updated_at)
    = (wanted.concurrency, wanted.rate_limit, wanted.rate_per, wanted.rate_burst, wanted.keyed,
      wanted.declared_concurrency, wanted.declared_rate_limit, wanted.declared_rate_per,
      -- By this time what waits for a token is scaled. Nobody is paying: the row is locked.
      wanted.declared_rate_burst, wanted.overridden, clock_timestamp())
  WHERE l.id = was.id;
  RETURN true;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_signal(a_run uuid, a_signal text, a_value jsonb DEFAULT NULL::jsonb, a_key text DEFAULT NULL::text, a_now boolean DEFAULT false, a_type text DEFAULT NULL::text)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  its_type text;
  sent bigint;
BEGIN
  IF a_signal IS NULL OR a_signal = '' OR octet_length(a_signal) > 200 OR octet_length(a_key) > 512 OR a_key = '' THEN
    RAISE EXCEPTION 'a signal needs a name of 1 to 200 bytes, and its key has 1 to 512; nothing was sent' USING ERRCODE = 'HF002';
  END IF;
  SELECT i.type INTO its_type FROM holdfast.inbox AS i WHERE i.id = a_run;
  IF its_type IS NULL THEN
    RAISE EXCEPTION 'there is no run % in queue %: it has ended, or it never was; nothing was sent', a_run, 'inbox'
      USING ERRCODE = 'HF007';
  END IF;
  IF its_type <> a_type THEN
    RAISE EXCEPTION 'run % is of type "%", not "%"; nothing was sent', a_run, its_type, a_type USING ERRCODE = 'HF002';
  END IF;
  INSERT INTO holdfast.inbox_signals AS s (run_id, seen, name, key, value)
  VALUES (a_run, a_now, a_signal, a_key, a_value)
  ON CONFLICT (run_id, key) WHERE key IS NOT NULL DO NOTHING
  RETURNING s.id INTO sent;
  IF sent IS NULL THEN
    RETURN false;
  END IF;
  IF a_now THEN
    PERFORM holdfast.wake_run('inbox', a_run, ARRAY[a_signal]);
  ELSIF current_setting('holdfast.notify', true) IS DISTINCT FROM 'off' AND pg_notification_queue_usage() < 0.5 THEN
    PERFORM pg_notify('holdfast_fleet', concat((SELECT n.nspname FROM pg_class AS c JOIN pg_namespace AS n
      ON n.oid = c.relnamespace WHERE c.oid = 'holdfast.inbox'::regclass), ' signals ', 'inbox'));
  END IF;
  RETURN true;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_suspects(most integer, handled text[], versions jsonb, lock_number integer, OUT place tid, OUT run bigint)
 RETURNS SETOF record
 LANGUAGE plpgsql
AS $function$
DECLARE
  queue holdfast.queues;
  jobs uuid[];
  stage integer;
BEGIN
  SELECT q.* INTO queue FROM holdfast.queues AS q WHERE q.name = 'inbox';
  IF queue.paused OR NOT pg_try_advisory_xact_lock(lock_number, 'holdfast.inbox'::regclass::oid::integer) THEN
    RETURN;
  END IF;
  -- This statement sees the group that the last holder of the lock has taken.
  IF EXISTS (SELECT FROM holdfast.inbox AS r
    WHERE r.crashes > 1 AND r.status = 'processing' AND r.lease_expires_at > now()) THEN
    RETURN;
  END IF;
  jobs := ARRAY(
    SELECT i.id
    FROM holdfast.inbox AS i
    WHERE i.crashes > 1 AND i.status = 'pending' AND i.available_at <= now()
      AND (i.version = 1 AND i.type = ANY (handled) OR i.version <= (versions -> i.type)::integer)
      AND (i.type = ANY (queue.paused_types)) IS NOT TRUE AND (i.partition_key = ANY (queue.paused_keys)) IS NOT TRUE
      AND (queue.ordering IN ('none', 'turns') OR NOT EXISTS (
        SELECT FROM holdfast.inbox AS b
        WHERE NOT b.parked AND b.partition_bucket = i.partition_bucket
          AND b.partition_key COLLATE "C" = i.partition_key COLLATE "C" AND b.position < i.position))
    ORDER BY (i.history -> -1 ->> 'at')::timestamptz NULLS FIRST, i.crashes, i.id
    -- The keys of the first ones may be full.
    LIMIT 100);
  IF queue.ordering = 'turns' THEN
    jobs := ARRAY(
      SELECT j.id FROM unnest(jobs) WITH ORDINALITY AS j(id, nth)
      WHERE j.id = ANY (ARRAY(SELECT r.id FROM holdfast.inbox_room(jobs) AS r(id)))
      ORDER BY j.nth);
  END IF;
  stage := (SELECT i.crashes FROM holdfast.inbox AS i WHERE i.id = jobs[1]);
  RETURN QUERY
  SELECT l.place, w.nth
  FROM (
    SELECT j.id, j.nth FROM unnest(jobs) WITH ORDINALITY AS j(id, nth)
    WHERE (SELECT i.crashes FROM holdfast.inbox AS i WHERE i.id = j.id) = stage
    ORDER BY j.nth
    LIMIT least(most, CASE stage WHEN 2 THEN 16 WHEN 3 THEN 4 ELSE 1 END)
  ) AS w
  CROSS JOIN LATERAL (
    SELECT i.ctid AS place FROM holdfast.inbox AS i
    WHERE i.id = w.id AND i.crashes > 1 AND i.status = 'pending'
    FOR UPDATE SKIP LOCKED
  ) AS l;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_suspend(worker text, ids uuid[], generations bigint[], waits jsonb)
 RETURNS TABLE(run_id uuid, state text, name text, place integer, value text, due_in_ms bigint)
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
#variable_conflict use_column
DECLARE
  run record;
  wait jsonb;
  until timestamptz;
  undoing boolean;
BEGIN
  FOR run IN
    SELECT i.id, g.nth, i.undo_asked
    FROM unnest(ids, generations) WITH ORDINALITY AS g(id, generation, nth)
    CROSS JOIN LATERAL (
      SELECT i.id, i.undo_asked FROM holdfast.inbox AS i
      WHERE i.id = g.id AND i.lease_generation = g.generation AND i.claimed_by = worker AND i.status = 'processing'
        AND i.lease_expires_at > statement_timestamp()
      FOR UPDATE
    ) AS i
  LOOP
    wait := waits -> (run.nth - 1)::integer;
    INSERT INTO holdfast.inbox_steps AS s (run_id, check_at, due_at, nth, attempt, kind, name, value, error)
    SELECT run.id, CASE WHEN (wait -> 'f')::boolean AND w.nr = 1 THEN clock_timestamp() END,
      coalesce((w.one ->> 'at')::timestamptz, clock_timestamp() + (w.one ->> 'ms')::bigint * interval '1 millisecond'),
      (w.one ->> 'o')::integer, (w.one ->> 'a')::smallint, (w.one ->> 'k')::"char", w.one ->> 'n', w.one -> 's', w.one -> 'e'
    FROM jsonb_array_elements(wait -> 'w') WITH ORDINALITY AS w(one, nr)
    ON CONFLICT (run_id, name) DO UPDATE SET due_at = excluded.due_at, attempt = excluded.attempt, error = excluded.error
      -- A step that is to be tried again; a wait keeps its time.
      WHERE s.place IS NULL AND excluded.attempt IS NOT NULL;

    run_id := run.id; state := 'done'; due_in_ms := NULL;
    undoing := EXISTS (SELECT FROM holdfast.inbox_steps AS s WHERE s.run_id = run.id AND s.name = '!');
    FOR name, place, value IN
      SELECT a.name, a.place, a.value FROM holdfast.inbox_arrive(run.id, (wait ->> 'p')::integer, (wait -> 'b')::boolean) AS a
      WHERE NOT undoing
    LOOP
      RETURN NEXT;
    END LOOP;
    state := 'awake';
    IF NOT FOUND THEN
      SELECT min(s.due_at) INTO until FROM holdfast.inbox_steps AS s
      WHERE s.run_id = run.id AND s.place IS NULL AND (s.kind = 'u' OR NOT undoing);
      -- A step is due again, or the run is to be undone and does not know it yet.
      state := CASE WHEN until <= clock_timestamp() OR run.undo_asked IS NOT NULL AND NOT undoing
        THEN 'awake' ELSE 'asleep' END;
    END IF;
    IF state = 'asleep' THEN
      due_in_ms := extract(epoch FROM until - clock_timestamp()) * 1000;
      until := coalesce(until, '9999-12-31');
      UPDATE holdfast.inbox AS i
      SET status = 'pending', claimed_by = NULL, claimed_at = NULL, lease_expires_at = NULL, isolated = false,
        attempts = 0, crashes = 0, available_at = until, wait_until = until
      WHERE i.id = run.id;
    END IF;
    name := NULL; place := NULL; value := run.undo_asked;
    RETURN NEXT;
  END LOOP;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_take_key(idempotency_key text, id uuid, type text, payload jsonb)
 RETURNS uuid
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  print bytea := sha256(convert_to(type || E'\n' || payload::text, 'UTF8'));
  held holdfast.inbox_idempotency;
BEGIN
  INSERT INTO holdfast.inbox_idempotency AS k (key, job_id, fingerprint, expires_at)
  VALUES (idempotency_key, id, print,
    now() + (SELECT q.idempotency_retention FROM holdfast.queues AS q WHERE q.name = 'inbox'))
  ON CONFLICT (key) DO UPDATE SET (job_id, fingerprint, expires_at) = (
    SELECT CASE WHEN lapsed THEN excluded.job_id ELSE k.job_id END,
           CASE WHEN lapsed THEN excluded.fingerprint ELSE k.fingerprint END,
           CASE WHEN lapsed THEN excluded.expires_at ELSE k.expires_at END
    FROM (SELECT k.expires_at <= now()
            AND NOT EXISTS (SELECT FROM holdfast.inbox AS j WHERE j.id = k.job_id)) AS t(lapsed))
  RETURNING k.* INTO held;
  IF held.job_id <> id AND held.fingerprint <> print THEN
    RAISE EXCEPTION 'idempotency key % already stands for a job with another type or payload: nothing was enqueued',
      quote_literal(idempotency_key)
      USING ERRCODE = 'HF003', HINT = 'Use a new key for new work, or enqueue exactly what was enqueued before.';
  END IF;
  RETURN held.job_id;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_take_keys(the_keys text[], the_ids uuid[], the_prints bytea[], despite_mismatch boolean)
 RETURNS TABLE(held_key text, held_job uuid, held_print bytea)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_nestloop TO 'off'
AS $function$
DECLARE
  keys text[];
  jobs uuid[];
  prints bytea[];
  mismatch boolean;
BEGIN
  WITH wanted AS MATERIALIZED (
    SELECT w.* FROM unnest(the_keys, the_ids, the_prints) WITH ORDINALITY AS w(key, job_id, print, nth)
  ), taken AS (
    INSERT INTO holdfast.inbox_idempotency AS k (key, job_id, fingerprint, expires_at)
    SELECT DISTINCT ON (w.key) w.key, w.job_id, w.print,
      now() + (SELECT q.idempotency_retention FROM holdfast.queues AS q WHERE q.name = 'inbox')
    FROM wanted AS w
    ORDER BY w.key, w.nth
    ON CONFLICT (key) DO UPDATE SET (job_id, fingerprint, expires_at) = (
      SELECT CASE WHEN lapsed THEN excluded.job_id ELSE k.job_id END,
             CASE WHEN lapsed THEN excluded.fingerprint ELSE k.fingerprint END,
             CASE WHEN lapsed THEN excluded.expires_at ELSE k.expires_at END
      FROM (SELECT k.expires_at <= now()
              AND NOT EXISTS (SELECT FROM holdfast.inbox AS i WHERE i.id = k.job_id)) AS t(lapsed))
    RETURNING k.key, k.job_id, k.fingerprint
  )
  SELECT array_agg(t.key), array_agg(t.job_id), array_agg(t.fingerprint),
    EXISTS (SELECT FROM wanted AS w JOIN taken AS h ON h.key = w.key WHERE w.print <> h.fingerprint)
  INTO keys, jobs, prints, mismatch
  FROM taken AS t;
  IF mismatch AND NOT despite_mismatch THEN
    DELETE FROM holdfast.inbox_idempotency AS k WHERE k.key = ANY (the_keys) AND k.job_id = ANY (the_ids);
  END IF;
  RETURN QUERY SELECT h.key, h.job_id, h.print FROM unnest(keys, jobs, prints) AS h(key, job_id, print);
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_turns(most integer, types text[], versions jsonb, from_buckets integer[], after_places text[], until_buckets integer[], again boolean, soon_ms integer, max_keys integer, OUT place tid, OUT turn bigint, OUT more boolean, OUT due text, OUT stop_stretch integer, OUT stop_bucket integer, OUT stop_place text, OUT busy text)
 RETURNS SETOF record
 LANGUAGE plpgsql
AS $function$
DECLARE
  queue   record;
  soon    timestamptz := now() + soon_ms * interval '1 millisecond';
  held    jsonb := '{}';
  walked  record;
  mine    integer[];
  rounds  integer := 1;
BEGIN
  SELECT q.per_key, q.per_group, q.fair, q.weights, q.paused_types, q.paused_keys,
    EXISTS (SELECT FROM holdfast.key_windows AS w WHERE w.queue = 'inbox') AS windows INTO queue FROM holdfast.queues AS q
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
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_turns_deep(types text[], versions jsonb, paused text[], of_bucket integer, of_group text, of_key text, after_at timestamp with time zone, after_position bigint, per_key integer, room integer, most bigint)
 RETURNS TABLE(places tid[], jobs integer, read integer, cut_at timestamp with time zone, cut_position bigint)
 LANGUAGE plpgsql
 STABLE
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_turns_due(of_bucket integer, of_group text, of_key text, before timestamp with time zone, asked boolean)
 RETURNS TABLE(at timestamp with time zone)
 LANGUAGE sql
 STABLE
AS $function$
  SELECT i.available_at FROM holdfast.inbox AS i
  WHERE NOT i.parked AND i.crashes < 2 AND i.partition_bucket = of_bucket
    AND coalesce(i.group_key, '') COLLATE "C" = of_group COLLATE "C" AND i.partition_key COLLATE "C" = of_key COLLATE "C" AND i.available_at > now() AND i.available_at < before AND asked
  ORDER BY i.available_at, i.position
  LIMIT 1
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_turns_found(queue record, held jsonb, types text[], versions jsonb, mine integer[], buckets integer[], groups text[], keys text[], jobs integer[], ends integer[], places tid[])
 RETURNS TABLE(place tid, turn bigint, more boolean, due text)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH chosen AS MATERIALIZED (
    SELECT o.place
    FROM (
      SELECT c.of_group, places[c.ends - c.jobs + c.nth] AS place,
        CASE WHEN c.of_group IS NOT NULL THEN row_number() OVER (PARTITION BY c.grp ORDER BY c.n, c.nth) END AS in_group
      FROM (
        SELECT k.*, (CASE WHEN k.grp <> '' THEN queue.per_group - coalesce((held ->> concat('g', k.grp))::integer, 0) END) AS of_group,
          generate_series(1, least(k.jobs, (CASE WHEN queue.windows THEN coalesce((SELECT w.per_key FROM holdfast.key_windows AS w WHERE w.queue = 'inbox' AND w.key = k.key), queue.per_key) ELSE queue.per_key END - coalesce((held ->> concat('k', length(k.grp), ':', k.grp, k.key))::integer, 0)))) AS nth
        FROM unnest(buckets, groups, keys, jobs, ends) WITH ORDINALITY AS k(bucket, grp, key, jobs, ends, n)
        WHERE k.bucket = ANY (mine)
      ) AS c
    ) AS o
    WHERE o.in_group IS NULL OR o.in_group <= o.of_group
  ), locked AS MATERIALIZED (
    SELECT i.ctid AS place FROM holdfast.inbox AS i
    WHERE i.ctid = ANY (ARRAY(SELECT c.place FROM chosen AS c)) AND (i.status = 'pending' OR i.lease_expires_at <= now())
      AND (i.version = 1 AND i.type = ANY (types) OR i.version <= (versions -> i.type)::integer)
      AND (i.type = ANY (queue.paused_types)) IS NOT TRUE
    FOR UPDATE SKIP LOCKED
  )
  -- No key has more than its turn here, so they start as they became due.
  SELECT l.place, 0::bigint, true, NULL::text FROM locked AS l
  UNION ALL
  SELECT NULL, 0, NULL, NULL FROM generate_series(1, (SELECT count(*) FROM chosen) - (SELECT count(*) FROM locked));
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_turns_front(types text[], versions jsonb, paused text[], of_bucket integer, of_group text, of_key text, after_at timestamp with time zone, after_position bigint, per_key integer, room integer)
 RETURNS TABLE(places tid[], jobs integer, read integer, goes_on boolean)
 LANGUAGE sql
 STABLE
AS $function$
  SELECT f.places, least(f.fits, f.ready), f.read, f.ready < f.fits AND f.read >= room + coalesce(per_key, 0)
  FROM (
    SELECT array_agg(l.ctid) FILTER (WHERE l.ready) AS places, count(*) FILTER (WHERE l.ready)::integer AS ready,
      greatest(0, least(room, per_key - count(*) FILTER (WHERE l.lease_expires_at > now())))::integer AS fits, count(*)::integer AS read
    FROM (
      SELECT i.ctid, i.lease_expires_at, (i.status = 'pending' OR i.lease_expires_at <= now())
      AND (i.version = 1 AND i.type = ANY (types) OR i.version <= (versions -> i.type)::integer)
      AND (i.type = ANY (paused)) IS NOT TRUE AS ready
      FROM holdfast.inbox AS i
      WHERE NOT i.parked AND i.crashes < 2 AND i.partition_bucket = of_bucket
    AND coalesce(i.group_key, '') COLLATE "C" = of_group COLLATE "C" AND i.partition_key COLLATE "C" = of_key COLLATE "C"
        AND (i.available_at, i.position) > (after_at, after_position) AND i.available_at <= now() AND room > 0
      ORDER BY i.available_at, i.position
      LIMIT room + coalesce(per_key, 0)
    ) AS l
    OFFSET 0
  ) AS f
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_turns_held(of_buckets integer[], at_least integer)
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
DECLARE
  lowest  integer := (SELECT min(u.bucket) FROM unnest(of_buckets) AS u(bucket));
  highest integer := (SELECT max(u.bucket) FROM unnest(of_buckets) AS u(bucket));
  claimed uuid[];
BEGIN
  -- A claim that does not say where its jobs are has them anywhere.
  IF at_least IS NOT NULL THEN
    SELECT array_agg(t.id) INTO claimed
    FROM (
      SELECT u.id, u.bucket, count(*) OVER (PARTITION BY u.bucket) AS jobs
      FROM holdfast.inbox_claims AS c CROSS JOIN LATERAL unnest(c.jobs, c.buckets) AS u(id, bucket)
    ) AS t
    WHERE t.bucket IS NULL OR t.jobs >= at_least;
  ELSE
    SELECT array_agg(u.id) INTO claimed
    FROM holdfast.inbox_claims AS c CROSS JOIN LATERAL unnest(c.jobs, c.buckets) AS u(id, bucket)
    WHERE of_buckets IS NULL OR u.bucket IS NULL OR u.bucket BETWEEN lowest AND highest AND u.bucket = ANY (of_buckets);
  END IF;
  RETURN (
    SELECT coalesce(jsonb_object_agg(h.name, h.jobs), '{}')
    FROM (
      SELECT n.name, count(*) AS jobs
      FROM (
        SELECT DISTINCT i.id, i.group_key, i.partition_key
        FROM unnest(claimed) AS j(id)
        -- It has a limit, so it cannot be planned as a join that reads the whole queue.
        CROSS JOIN LATERAL (
          SELECT i.id, i.group_key, i.partition_key FROM holdfast.inbox AS i
          WHERE i.id = j.id AND i.status = 'processing' LIMIT 1
        ) AS i
        OFFSET 0
      ) AS i
      CROSS JOIN LATERAL (VALUES
        (concat('k', length(coalesce(i.group_key, '')), ':', coalesce(i.group_key, ''), i.partition_key)),
        (CASE WHEN i.group_key IS NOT NULL THEN concat('g', i.group_key) END)
      ) AS n(name)
      WHERE n.name IS NOT NULL
      GROUP BY n.name
    ) AS h);
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_turns_line(types text[], versions jsonb, paused text[], of_bucket integer, of_group text, of_key text, after_at timestamp with time zone, after_position bigint, until timestamp with time zone, most bigint)
 RETURNS TABLE(place tid, at timestamp with time zone, place_in_line bigint, nth bigint, cut boolean, ready boolean, runs boolean)
 LANGUAGE sql
 STABLE
AS $function$
  SELECT i.ctid, i.available_at, i.position, i.nth, i.nth >= most, (i.status = 'pending' OR i.lease_expires_at <= now())
      AND (i.version = 1 AND i.type = ANY (types) OR i.version <= (versions -> i.type)::integer)
      AND (i.type = ANY (paused)) IS NOT TRUE,
    i.lease_expires_at > now()
  FROM (
    SELECT i.ctid, i.available_at, i.position, i.status, i.lease_expires_at, i.version, i.type,
      row_number() OVER (ORDER BY i.available_at, i.position) AS nth
    FROM holdfast.inbox AS i
    WHERE NOT i.parked AND i.crashes < 2 AND i.partition_bucket = of_bucket
    AND coalesce(i.group_key, '') COLLATE "C" = of_group COLLATE "C" AND i.partition_key COLLATE "C" = of_key COLLATE "C"
      AND (i.available_at, i.position) > (after_at, after_position) AND i.available_at <= until
    ORDER BY i.available_at, i.position
    LIMIT most
  ) AS i
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_turns_next(types text[], versions jsonb, paused text[], after_bucket integer, after_group text, after_key text, after_at timestamp with time zone, after_position bigint, until_bucket integer)
 RETURNS TABLE(place tid, bucket integer, grp text, key text, at timestamp with time zone, ready boolean, same boolean)
 LANGUAGE sql
 STABLE
AS $function$
  SELECT i.ctid, i.partition_bucket, coalesce(i.group_key, '') COLLATE "C", i.partition_key COLLATE "C", i.available_at,
    i.available_at <= now() AND (i.status = 'pending' OR i.lease_expires_at <= now())
      AND (i.version = 1 AND i.type = ANY (types) OR i.version <= (versions -> i.type)::integer)
      AND (i.type = ANY (paused)) IS NOT TRUE,
    i.partition_key COLLATE "C" = after_key COLLATE "C" AND coalesce(i.group_key, '') COLLATE "C" = after_group COLLATE "C"
  FROM holdfast.inbox AS i
  WHERE NOT i.parked AND i.crashes < 2 AND i.partition_bucket < until_bucket
    AND (i.partition_bucket, coalesce(i.group_key, '') COLLATE "C", i.partition_key COLLATE "C", i.available_at, i.position) > (after_bucket, after_group COLLATE "C", after_key COLLATE "C", after_at, after_position)
  ORDER BY i.partition_bucket, coalesce(i.group_key, '') COLLATE "C", i.partition_key COLLATE "C", i.available_at, i.position
  LIMIT 1
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_turns_rounds(queue record, held jsonb, types text[], versions jsonb, mine integer[], buckets integer[], groups text[], keys text[], weights integer[], parts integer[], from_ats timestamp with time zone[], from_positions bigint[], reads integer[], most integer, rounds integer, soon timestamp with time zone)
 RETURNS TABLE(place tid, turn bigint, more boolean, due text)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH line AS MATERIALIZED (
    SELECT k.n, k.bucket, k.grp, l.place, l.at, l.nth, l.seen, k.of_group, l.ready,
      -- Part of a turn may have been taken before.
      CASE WHEN l.nth <= k.part THEN 0 ELSE (l.nth - k.part - 1) / k.weight + 1 END AS round,
      l.ready AND l.at <= now() AND l.nth <= k.room AS fits
    FROM (
      SELECT c.*, (CASE WHEN c.grp <> '' THEN queue.per_group - coalesce((held ->> concat('g', c.grp))::integer, 0) END) AS of_group,
        least(most, (CASE WHEN queue.windows THEN coalesce((SELECT w.per_key FROM holdfast.key_windows AS w WHERE w.queue = 'inbox' AND w.key = c.key), queue.per_key) ELSE queue.per_key END - coalesce((held ->> concat('k', length(c.grp), ':', c.grp, c.key))::integer, 0)), c.part + c.weight * (rounds - 1)) AS room
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
          greatest(soon, now()), k.read + (most + 5000) / cardinality(keys)) AS i
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
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_turns_walk(queue record, held jsonb, most integer, types text[], versions jsonb, from_buckets integer[], after_place text, until_buckets integer[], soon timestamp with time zone, max_keys integer)
 RETURNS TABLE(stretch integer, bucket integer, stop jsonb, wanted integer, buckets integer[], groups text[], keys text[], jobs integer[], ends integer[], weights integer[], parts integer[], from_ats timestamp with time zone[], from_positions bigint[], reads integer[], turn_size bigint, places tid[], due text)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
DECLARE
  start     jsonb := nullif(after_place, '')::jsonb;
  most_read integer := most + 5000;
BEGIN
  RETURN QUERY WITH RECURSIVE walk AS (
    SELECT 0 AS step, 1 AS stretch, from_buckets[1] AS bucket, coalesce(start ->> 0, '') COLLATE "C" AS grp,
      coalesce(start ->> 1, '') COLLATE "C" AS key, coalesce((start ->> 2)::integer, 0) AS left,
      coalesce((start ->> 3)::timestamptz, CASE WHEN (start ->> 2)::integer > 0 THEN '-infinity' ELSE 'infinity'::timestamptz END) AS at,
      coalesce((start ->> 4)::bigint, 9223372036854775807) AS position, 0 AS wanted, 0 AS buckets, -1 AS last_bucket, 0 AS jobs,
      NULL::tid[] AS places, 0 AS weight, 0 AS part, NULL::timestamptz AS from_at, 0::bigint AS from_position, 0 AS read,
      0 AS read_all, NULL::timestamptz AS due_at
    UNION ALL
    SELECT w.step + 1, CASE WHEN h.bucket IS NULL THEN w.stretch + 1 ELSE w.stretch END,
      CASE WHEN h.bucket IS NULL THEN from_buckets[w.stretch + 1] ELSE h.bucket END,
      -- A full group is passed as a whole: no other group stands between it and this place.
      CASE WHEN h.bucket IS NULL THEN '' WHEN r.of_group <= 0 THEN h.grp || chr(1) ELSE h.grp END COLLATE "C",
      CASE WHEN h.bucket IS NULL OR r.of_group <= 0 THEN '' ELSE h.key END COLLATE "C",
      -- In the middle of a turn or of a line: the next walk goes on with the rest of it.
      n.left, CASE WHEN n.left = 0 THEN 'infinity'::timestamptz ELSE coalesce(l.cut_at, r.from_at) END,
      CASE WHEN n.left = 0 THEN 9223372036854775807 ELSE coalesce(l.cut_position, r.from_position) END,
      w.wanted + n.jobs, w.buckets + CASE WHEN n.jobs > 0 AND h.bucket <> w.last_bucket THEN 1 ELSE 0 END,
      CASE WHEN n.jobs > 0 THEN h.bucket ELSE w.last_bucket END, n.jobs, n.places, r.weight, r.part,
      r.from_at, r.from_position, n.read, w.read_all + n.read, CASE WHEN h.at > now() THEN h.at ELSE d.at END
    FROM walk AS w
    LEFT JOIN LATERAL holdfast.inbox_turns_next(
      types, versions, queue.paused_types, w.bucket, w.grp, w.key, w.at, w.position, until_buckets[w.stretch]) AS h ON true
    CROSS JOIN LATERAL (
      SELECT o.*, CASE WHEN h.key = ANY (queue.paused_keys) OR h.at > now() THEN 0
        ELSE greatest(0, least(most - w.wanted, o.per_key, o.of_group, o.part)) END AS room FROM (
        SELECT k.weight, k.per_key, CASE WHEN h.same AND queue.fair THEN w.left ELSE k.weight END AS part, (CASE WHEN h.grp <> '' THEN queue.per_group - coalesce((held ->> concat('g', h.grp))::integer, 0) END) AS of_group,
          CASE WHEN h.same THEN w.at ELSE '-infinity' END AS from_at, CASE WHEN h.same THEN w.position ELSE 0 END AS from_position
        FROM (SELECT CASE WHEN queue.fair THEN coalesce((queue.weights ->> h.key)::integer, 1) ELSE most END AS weight,
          CASE WHEN queue.windows THEN coalesce((SELECT w.per_key FROM holdfast.key_windows AS w WHERE w.queue = 'inbox' AND w.key = h.key), queue.per_key) ELSE queue.per_key END AS per_key OFFSET 0) AS k OFFSET 0 -- Without it, each would be computed again wherever it is used.
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
    WHERE w.wanted < most AND w.step < max_keys AND w.buckets < 128 AND w.read_all < most_read
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
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_verb_cancel_own(the_worker text, the_ids uuid[], the_generations bigint[], the_facts text)
 RETURNS TABLE(id uuid)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
BEGIN
  FOR id IN

WITH gone AS (
  DELETE FROM holdfast.inbox AS i
  WHERE i.id = ANY (the_ids::uuid[])
    AND ((i.id, i.lease_generation) IN (SELECT f.id, f.generation FROM unnest(the_ids::uuid[], the_generations::bigint[]) AS f(id, generation))) IS TRUE
    AND i.claimed_by = the_worker::text
    AND i.status = 'processing'
    AND i.lease_expires_at > statement_timestamp()
  RETURNING i.*, ((SELECT the_facts::text::jsonb) -> i.id::text ->> 'reason') AS reason
), effects AS (
  UPDATE holdfast.inbox_effects AS e SET created_at = now() FROM gone AS g WHERE e.job_id = g.id
), steps AS (
  UPDATE holdfast.inbox_steps AS e SET check_at = now() FROM gone AS g WHERE e.run_id = g.id AND e.check_at IS NOT NULL
), signals AS (
  UPDATE holdfast.inbox_signals AS e SET check_at = now() FROM gone AS g WHERE e.run_id = g.id
), children AS (
  UPDATE holdfast.inbox_children AS e SET check_at = now() FROM gone AS g WHERE e.run_id = g.id
)
INSERT INTO holdfast.inbox_archive (id, created_at, claimed_at, lease_generation, partition_bucket, attempts, max_attempts,
    version, priority, type, partition_key, payload, headers, idempotency_key, claimed_by, group_key, unique_key,
  completed_at, status, last_error, history)
SELECT id, created_at, claimed_at, lease_generation, partition_bucket, attempts, max_attempts,
    version, priority, type, partition_key, payload, headers, idempotency_key, claimed_by, group_key, unique_key,
  now(), 'cancelled', reason, history
FROM gone AS i
WHERE coalesce((SELECT CASE WHEN count(g.parent) > 0 THEN holdfast.children_ended(array_agg(g.id) FILTER (WHERE g.parent IS NOT NULL),
    array_agg(g.parent) FILTER (WHERE g.parent IS NOT NULL), 'x', NULL) END FROM gone AS g), 0) >= 0
RETURNING id
  LOOP
    RETURN NEXT;
  END LOOP;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_verb_claim_keyed(the_worker text, the_lease_ms integer, the_number bigint, the_finished bigint[], the_most integer, the_held jsonb, the_types text[], the_versions jsonb, the_buckets integer[], the_after text[], the_until integer[], the_until_keys text[], the_run integer, the_most_rows integer, is_asked boolean, the_soon_ms integer)
 RETURNS TABLE(epoch bigint, clock bigint, refused jsonb, stop_stretch integer, stop_bucket integer, stop_key text, wanted bigint, held_back text, last_allowed jsonb, due text, due_in_ms bigint, suspects boolean, maintained_ms bigint, recount boolean, id uuid, type text, version integer, partition_key text, payload jsonb, headers jsonb, attempts integer, max_attempts integer, lease_generation bigint, crashes integer, created_at timestamp with time zone, partition_bucket integer, priority smallint, taken boolean, cursor_at timestamp with time zone, cursor_position bigint)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
BEGIN
  FOR epoch, clock, refused, stop_stretch, stop_bucket, stop_key, wanted, held_back, last_allowed, due, due_in_ms, suspects, maintained_ms, recount, id, type, version, partition_key, payload, headers, attempts, max_attempts, lease_generation, crashes, created_at, partition_bucket, priority, taken, cursor_at, cursor_position IN


WITH RECURSIVE open_queue AS MATERIALIZED (
  SELECT q.paused_types, q.paused_keys, q.age_after, q.ordering,
    CASE WHEN q.limits_version > 0 AND the_held::jsonb IS DISTINCT FROM 'false' THEN (
      SELECT array_agg(coalesce(l.type, '')) FROM holdfast.limits AS l
      WHERE l.queue = 'inbox' AND (l.concurrency IS NOT NULL OR l.rate_limit IS NOT NULL)) END AS limited
  FROM holdfast.queues AS q
  WHERE q.name = 'inbox' AND NOT q.paused AND q.ordering IN ('key', 'key_strict')
), walk AS (
  -- One row per chunk: where it ended, and the places of what it would take and of what stands behind.
  SELECT 0 AS step, 1 AS stretch, (the_buckets::integer[])[1] AS bucket, (the_after::text[])[1] COLLATE "C" AS key,
    9223372036854775807 AS position, 0::bigint AS run, 0::bigint AS nth, 0 AS head, 32::bigint AS chunk,
    0::bigint AS seen, 0::bigint AS wanted,
    NULL::tid[] AS places, NULL::bigint[] AS runs, NULL::tid[] AS behind, NULL::bigint[] AS behind_runs,
    false AS cut_off, NULL::text[] AS due, the_most::integer AS most
  WHERE EXISTS (SELECT FROM open_queue)
  UNION ALL
  SELECT w.step + 1,
    -- A chunk that came back short was the last of its stretch, unless it held more than is taken.
    CASE WHEN k.rows < w.chunk AND w.wanted + k.taken <= w.most THEN w.stretch + 1 ELSE w.stretch END,
    CASE WHEN k.rows < w.chunk THEN (the_buckets::integer[])[w.stretch + 1] ELSE k.bucket END,
    CASE WHEN k.rows < w.chunk THEN (the_after::text[])[w.stretch + 1] ELSE k.key END COLLATE "C",
    -- On from here while a run goes on, else with the next key.
    CASE WHEN k.rows = w.chunk AND k.goes_on THEN k.position ELSE 9223372036854775807 END,
    k.run, CASE WHEN k.goes_on THEN k.nth ELSE 0 END, k.head,
    -- The rest of a run and the row behind it, with more of it at a time where little of what was read is
    -- taken; little where lines are long and not much is taken of them; never more than what is still
    -- wanted, and one behind it.
    greatest(2, least(w.most - w.wanted - k.taken + 1,
      CASE WHEN k.goes_on AND (w.wanted + k.taken) * 2 > w.seen + k.rows
          THEN greatest(32, the_run::integer - k.nth + 1)
        WHEN k.goes_on THEN greatest(32, least(the_run::integer - k.nth + 1, k.nth * 4))
        WHEN k.taken * 2 <= k.rows AND k.keys < greatest(2, k.rows / 5) THEN 2 ELSE 32 END)),
    w.seen + k.rows, w.wanted + k.taken,
    k.places[1 : w.most - w.wanted], k.runs[1 : w.most - w.wanted], k.behind, k.behind_runs,
    -- It ended with a job that it takes, and has not seen what stands behind that.
    k.goes_on AND k.rows = w.chunk AND w.wanted + k.taken <= w.most, k.due, w.most
  FROM walk AS w
  CROSS JOIN LATERAL (
    SELECT count(*) AS rows, count(*) FILTER (WHERE j.nth = 1) AS keys,
      count(*) FILTER (WHERE j.taken) AS taken,
      max(j.bucket) FILTER (WHERE j.last) AS bucket, max(j.key) FILTER (WHERE j.last) AS key,
      max(j.position) FILTER (WHERE j.last) AS position, max(j.run) FILTER (WHERE j.last) AS run,
      max(j.nth) FILTER (WHERE j.last) AS nth, max(j.head) FILTER (WHERE j.last) AS head,
      bool_or(j.taken) FILTER (WHERE j.last) AS goes_on,
      array_agg(j.due) FILTER (WHERE j.nth = 1 AND j.due IS NOT NULL) AS due,
      array_agg(j.place) FILTER (WHERE j.taken) AS places,
      array_agg(j.run) FILTER (WHERE j.taken) AS runs,
      -- A row that a live owner holds has no place here: no run of its key is taken.
      array_agg(CASE WHEN j.kind > 0 THEN j.place END) FILTER (WHERE j.behind) AS behind,
      array_agg(j.run) FILTER (WHERE j.behind) AS behind_runs
    FROM (
      SELECT n.*,
        n.head > 1 AND (n.nth = 1 OR n.head = 3 AND n.nth <= the_run::integer AND n.position < n.gap)
          AS taken,
        n.head > 1 AND (n.kind = 0 OR n.kind > 1 AND n.nth = CASE WHEN n.head = 2 THEN 2
          WHEN n.position < n.gap THEN the_run::integer + 1
          -- One that is to be run alone ends a run, and stands behind it.
          WHEN n.position = n.gap AND n.nth <= the_run::integer + 1 THEN n.nth END) AS behind
      FROM (
        SELECT r.bucket, r.key, r.position, r.kind, r.place, r.due,
          CASE WHEN r.same THEN w.head ELSE first_value(r.kind) OVER q END AS head,
          CASE WHEN r.same THEN w.run ELSE w.seen + rank() OVER q END AS run,
          CASE WHEN r.same THEN w.nth ELSE 0 END + row_number() OVER q - rank() OVER q + 1 AS nth,
          coalesce(min(r.position) FILTER (WHERE r.kind < 3) OVER q, 9223372036854775807) AS gap,
          lead(true) OVER q IS NULL AS last
        FROM (
          SELECT i.ctid AS place, i.partition_bucket AS bucket, i.partition_key COLLATE "C" AS key,
            i.position, w.nth > 0 AND i.partition_key COLLATE "C" = w.key AS same,
            -- A head that is due soon: in how many milliseconds, and in which bucket.
            CASE WHEN i.status = 'pending' AND i.available_at > now()
              AND i.available_at < now() + the_soon_ms::integer * interval '1 millisecond'
              THEN ceil(extract(epoch FROM i.available_at - now()) * 1000) || ':' || i.partition_bucket
            END AS due,
            -- 0: a live owner holds it. 1: it waits, or is not for us. 2: to be taken alone. 3: ready.
            CASE WHEN i.status = 'processing' AND i.lease_expires_at > now() THEN 0
              WHEN i.crashes > 1 THEN 1
              WHEN (i.version = 1 AND i.type = ANY (the_types::text[])
        OR i.version <= (the_versions::jsonb -> i.type)::integer) AND (i.type = ANY ((SELECT o.paused_types FROM open_queue AS o)::text[])) IS NOT TRUE
        AND (i.partition_key = ANY ((SELECT o.paused_keys FROM open_queue AS o)::text[])) IS NOT TRUE THEN
                CASE WHEN i.status = 'processing' THEN 2
                  WHEN i.status <> 'pending' OR i.available_at > now() THEN 1
                  -- One that may well fail again: what follows it is not taken along.
                  WHEN i.crashes > 0 OR i.attempts > 0 OR (i.type = ANY ((SELECT o.limited FROM open_queue AS o)::text[]) OR '' = ANY ((SELECT o.limited FROM open_queue AS o)::text[])) IS TRUE THEN 2 ELSE 3 END
              ELSE 1 END AS kind
          FROM holdfast.inbox AS i
          WHERE NOT i.parked
            AND (i.partition_bucket, i.partition_key COLLATE "C", i.position)
              > (w.bucket, w.key, w.position)
            AND (i.partition_bucket, i.partition_key COLLATE "C")
              < ((the_until::integer[])[w.stretch], (the_until_keys::text[])[w.stretch])
          ORDER BY i.partition_bucket, i.partition_key COLLATE "C", i.position
          LIMIT w.chunk
        ) AS r
        WINDOW q AS (ORDER BY r.bucket, r.key RANGE BETWEEN CURRENT ROW AND CURRENT ROW)
      ) AS n
      OFFSET 0
    ) AS j
  ) AS k
  WHERE (w.wanted < w.most AND w.seen < the_most_rows::integer OR w.cut_off)
    AND w.stretch <= cardinality(the_buckets::integer[])
), kept AS MATERIALIZED (
  SELECT l.place, l.run
  FROM (
    SELECT l.place, p.run, p.taken, bool_and(coalesce(l.place = p.place, false)) OVER (PARTITION BY p.run) AS whole
    FROM (
      SELECT t.place, t.run, true AS taken
      FROM walk AS w CROSS JOIN LATERAL unnest(w.places, w.runs) AS t(place, run)
      UNION ALL
      SELECT b.place, b.run, false
      FROM walk AS w CROSS JOIN LATERAL unnest(w.behind, w.behind_runs) AS b(place, run)
      -- Runs are numbered as they come; those beyond the limit are nobody's business.
      WHERE b.run <= coalesce(w.runs[cardinality(w.runs)], b.run)
    ) AS p
    LEFT JOIN LATERAL (
      SELECT i.ctid AS place FROM holdfast.inbox AS i WHERE i.ctid = p.place FOR UPDATE SKIP LOCKED
    ) AS l ON true
  ) AS l
  WHERE l.whole AND l.taken
), allowed AS MATERIALIZED (
  SELECT a.*
  FROM (
    SELECT array_agg(p.place) AS places, array_agg(p.type) AS types, array_agg(p.limit_key) AS keys
    FROM (
      SELECT k.place, i.type, i.limit_key
      FROM kept AS k
      JOIN holdfast.inbox AS i ON i.ctid = k.place
      WHERE (SELECT o.limited FROM open_queue AS o)::text[] IS NOT NULL AND (i.type = ANY ((SELECT o.limited FROM open_queue AS o)::text[]) OR '' = ANY ((SELECT o.limited FROM open_queue AS o)::text[])) IS TRUE
      ORDER BY k.run,  i.available_at, i.position
    ) AS p
  ) AS c
  CROSS JOIN LATERAL holdfast.inbox_allow(the_worker::text, the_held::jsonb, c.places, c.types, c.keys) AS a
  WHERE c.places IS NOT NULL
), claimed AS (
  UPDATE holdfast.inbox AS i
  SET status = 'processing',
      claimed_by = the_worker::text,
      claimed_at = now(),
      lease_expires_at = (SELECT now() + the_lease_ms::integer * interval '1 millisecond'),
      lease_generation = i.lease_generation + 1,
      attempts = i.attempts + CASE WHEN i.status = 'processing' THEN 0 ELSE 1 END,
      crashes = i.crashes + CASE WHEN i.status = 'processing' AND (i.crashes = 0 OR i.started) THEN 1 ELSE 0 END,
      started = false,
      last_error = CASE WHEN i.status = 'processing'
        THEN 'The worker ' || i.claimed_by || ' vanished while it held this job.' ELSE i.last_error END,
      history = CASE WHEN i.status = 'processing'
        THEN jsonb_path_query_array(
      coalesce(i.history, '[]') || jsonb_build_object('attempt', i.attempts, 'at', now(), 'worker', i.claimed_by, 'outcome', 'vanished', 'spent', false),
      '$[last-19 to last]')
        ELSE i.history END, isolated = false
  WHERE i.ctid = ANY (ARRAY(SELECT k.place FROM kept AS k
    WHERE NOT EXISTS (SELECT FROM allowed AS a WHERE a.place = k.place AND NOT a.ok)))
  RETURNING i.id, i.type, nullif(i.version, 1) AS version, i.partition_key, i.payload,
    i.headers, nullif(i.attempts, 1) AS attempts, nullif(i.max_attempts, 5) AS max_attempts,
    nullif(i.lease_generation, 1) AS lease_generation, nullif(i.crashes, 0) AS crashes,
    nullif(i.created_at, i.available_at) AS created_at, i.partition_bucket,
    nullif(i.priority, 2) AS priority,
    -- Its owner vanished, and this claim was the one to write it down.
    CASE WHEN i.crashes > 0 AND (i.history -> -1 ->> 'at')::timestamptz = now() THEN true END AS taken,
    i.available_at AS cursor_at, i.position AS cursor_position
), recorded AS (
  INSERT INTO holdfast.inbox_claims (worker_id, number, jobs)
  SELECT the_worker::text, the_number::bigint, array_agg(c.id) FROM claimed AS c HAVING count(*) > 0
), forgotten AS (
  DELETE FROM holdfast.inbox_claims AS f
  WHERE f.worker_id = the_worker::text AND f.number = ANY (the_finished::bigint[])
)
SELECT f.epoch AS epoch, (SELECT (date_part('epoch', now()) * 1000)::bigint) AS clock, (SELECT jsonb_object_agg(r.type, r.again_ms) FROM (
    SELECT DISTINCT ON (a.type) a.type, a.again_ms FROM allowed AS a WHERE a.whole ORDER BY a.type, a.nth) AS r) AS refused, s.stretch AS stop_stretch, coalesce(cut.partition_bucket, s.bucket) AS stop_bucket, coalesce(cut.partition_key, s.key) AS stop_key, s.wanted - (SELECT count(*) FROM allowed AS a WHERE NOT a.ok) AS wanted, (SELECT string_agg(DISTINCT concat_ws(':', coalesce(a.again_ms, -1), i.partition_bucket,
      CASE WHEN a.whole THEN a.type END), ',')
    FROM allowed AS a JOIN holdfast.inbox AS i ON i.ctid = a.place WHERE NOT a.ok) AS held_back, (SELECT jsonb_build_array(l.partition_bucket, coalesce(l.group_key, ''), l.partition_key,
      EXISTS (SELECT FROM allowed AS a JOIN holdfast.inbox AS w ON w.ctid = a.place
        WHERE NOT a.ok AND a.nth > g.nth AND w.partition_bucket = l.partition_bucket
          AND (w.group_key, w.partition_key) IS DISTINCT FROM (l.group_key, l.partition_key)))
    FROM (SELECT a.place, a.nth FROM allowed AS a WHERE a.ok ORDER BY a.nth DESC LIMIT 1) AS g
    JOIN holdfast.inbox AS l ON l.ctid = g.place) AS last_allowed, (SELECT array_to_string((array_agg(d.due))[1:200], ',') FROM walk AS w CROSS JOIN LATERAL unnest(w.due) AS d(due)) AS due, d.due_in_ms AS due_in_ms, d.suspects AS suspects, d.maintained_ms AS maintained_ms, d.recount AS recount, NULL::uuid AS id, NULL::text AS type, NULL::int4 AS version, NULL::text AS partition_key, NULL::jsonb AS payload, NULL::jsonb AS headers, NULL::int4 AS attempts, NULL::int4 AS max_attempts, NULL::int8 AS lease_generation, NULL::int4 AS crashes, NULL::timestamptz AS created_at, NULL::int4 AS partition_bucket, NULL::int2 AS priority, NULL::bool AS taken, NULL::timestamptz AS cursor_at, NULL::int8 AS cursor_position
FROM holdfast.fleet AS f
-- The chunk with which it had enough, or the last: one more may have been read for what stands behind.
LEFT JOIN (
  SELECT w.* FROM walk AS w
  ORDER BY w.wanted < w.most, CASE WHEN w.wanted < w.most THEN -w.step ELSE w.step END
  LIMIT 1
) AS s ON true
-- The last chunk may hold more than was asked for: then the walk ended with the last job that it took.
LEFT JOIN holdfast.inbox AS cut
  ON s.wanted > s.most AND cut.ctid = s.places[cardinality(s.places)]
LEFT JOIN LATERAL (
  SELECT NULL::bigint AS due_in_ms, EXISTS (SELECT FROM holdfast.inbox AS s
      WHERE s.crashes > 1 AND s.status = 'pending' AND s.available_at <= now()) AS suspects,
    (extract(epoch FROM now() - q.maintained_at) * 1000)::bigint AS maintained_ms,
    q.max_pending IS NOT NULL AND coalesce(q.recount_at <= now(), true) AS recount
  FROM holdfast.queues AS q WHERE q.name = 'inbox' AND is_asked::boolean OFFSET 0
) AS d ON true
WHERE f.one
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, c.id, c.type, c.version, c.partition_key, c.payload, c.headers, c.attempts, c.max_attempts, c.lease_generation, c.crashes, c.created_at, c.partition_bucket, c.priority, c.taken, c.cursor_at, c.cursor_position
FROM claimed AS c
  LOOP
    RETURN NEXT;
  END LOOP;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_verb_claim_rated(the_worker text, the_lease_ms integer, the_number bigint, the_finished bigint[], the_most integer, the_held jsonb, the_types text[], the_versions integer[], the_after text[], the_most_keys integer)
 RETURNS TABLE(epoch bigint, clock bigint, refused jsonb, jobs_found integer, walked jsonb, walk_ms bigint, id uuid, type text, version integer, partition_key text, payload jsonb, headers jsonb, attempts integer, max_attempts integer, lease_generation bigint, crashes integer, created_at timestamp with time zone, partition_bucket integer, priority smallint, taken boolean, cursor_at timestamp with time zone, cursor_position bigint)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
BEGIN
  FOR epoch, clock, refused, jobs_found, walked, walk_ms, id, type, version, partition_key, payload, headers, attempts, max_attempts, lease_generation, crashes, created_at, partition_bucket, priority, taken, cursor_at, cursor_position IN

WITH open_queue AS MATERIALIZED (
  SELECT q.paused_types, q.paused_keys, q.age_after, q.ordering,
    CASE WHEN q.limits_version > 0 AND the_held::jsonb IS DISTINCT FROM 'false' THEN (
      SELECT array_agg(coalesce(l.type, '')) FROM holdfast.limits AS l
      WHERE l.queue = 'inbox' AND (l.concurrency IS NOT NULL OR l.rate_limit IS NOT NULL)) END AS limited
  FROM holdfast.queues AS q
  WHERE q.name = 'inbox' AND NOT q.paused AND q.ordering = 'none'
), keys AS MATERIALIZED (
  SELECT k.*
  FROM open_queue AS o
  CROSS JOIN LATERAL holdfast.inbox_rate_keys(the_types::text[], the_versions::integer[], the_after::text[], the_most_keys::integer, the_most::integer,
    o.paused_types, o.paused_keys) AS k
), picked AS MATERIALIZED (
  SELECT k.*, (k.type = ANY ((SELECT o.limited FROM open_queue AS o)::text[]) OR '' = ANY ((SELECT o.limited FROM open_queue AS o)::text[])) IS TRUE AS limited
  FROM keys AS k
  WHERE k.place IS NOT NULL
  ORDER BY k.rank, k.available_at, k.position
  LIMIT the_most::integer
), allowed AS MATERIALIZED (
  SELECT a.*
  FROM (
    SELECT array_agg(p.place) AS places, array_agg(p.type) AS types, array_agg(p.limit_key) AS keys
    FROM (
      -- The function has snapshots of its own. A row that this statement does not see cannot be taken, so it must not pay.
      SELECT p.place, p.type, p.key AS limit_key FROM picked AS p
      JOIN holdfast.inbox AS i ON i.ctid = p.place WHERE p.limited
      ORDER BY p.rank, p.available_at, p.position
    ) AS p
  ) AS c
  CROSS JOIN LATERAL holdfast.inbox_allow(the_worker::text, the_held::jsonb, c.places, c.types, c.keys) AS a
  WHERE c.places IS NOT NULL
), claimed AS (
  UPDATE holdfast.inbox AS i
  SET status = 'processing',
      claimed_by = the_worker::text,
      claimed_at = now(),
      lease_expires_at = (SELECT now() + the_lease_ms::integer * interval '1 millisecond'),
      lease_generation = i.lease_generation + 1,
      attempts = i.attempts + CASE WHEN i.status = 'processing' THEN 0 ELSE 1 END,
      crashes = i.crashes + CASE WHEN i.status = 'processing' AND (i.crashes = 0 OR i.started) THEN 1 ELSE 0 END,
      started = false,
      last_error = CASE WHEN i.status = 'processing'
        THEN 'The worker ' || i.claimed_by || ' vanished while it held this job.' ELSE i.last_error END,
      history = CASE WHEN i.status = 'processing'
        THEN jsonb_path_query_array(
      coalesce(i.history, '[]') || jsonb_build_object('attempt', i.attempts, 'at', now(), 'worker', i.claimed_by, 'outcome', 'vanished', 'spent', false),
      '$[last-19 to last]')
        ELSE i.history END, isolated = false
  WHERE i.ctid = ANY (ARRAY(
    SELECT i.ctid FROM holdfast.inbox AS i
    WHERE i.ctid = ANY (ARRAY(SELECT p.place FROM picked AS p WHERE NOT p.limited)) AND (i.status = 'pending' OR (i.status = 'processing' AND i.lease_expires_at <= now()))
        AND (i.partition_key = ANY ((SELECT o.paused_keys FROM open_queue AS o)::text[])) IS NOT TRUE
    FOR UPDATE SKIP LOCKED
  ) || ARRAY(SELECT a.place FROM allowed AS a WHERE a.ok))
  RETURNING i.id, i.type, nullif(i.version, 1) AS version, i.partition_key, i.payload,
    i.headers, nullif(i.attempts, 1) AS attempts, nullif(i.max_attempts, 5) AS max_attempts,
    nullif(i.lease_generation, 1) AS lease_generation, nullif(i.crashes, 0) AS crashes,
    nullif(i.created_at, i.available_at) AS created_at, i.partition_bucket,
    nullif(i.priority, 2) AS priority,
    -- Its owner vanished, and this claim was the one to write it down.
    CASE WHEN i.crashes > 0 AND (i.history -> -1 ->> 'at')::timestamptz = now() THEN true END AS taken,
    i.available_at AS cursor_at, i.position AS cursor_position
), recorded AS (
  INSERT INTO holdfast.inbox_claims (worker_id, number, jobs)
  SELECT the_worker::text, the_number::bigint, array_agg(c.id) FROM claimed AS c HAVING count(*) > 0
), forgotten AS (
  DELETE FROM holdfast.inbox_claims AS f
  WHERE f.worker_id = the_worker::text AND f.number = ANY (the_finished::bigint[])
)
SELECT f.epoch AS epoch, (SELECT (date_part('epoch', now()) * 1000)::bigint) AS clock, (SELECT jsonb_object_agg(r.type, r.again_ms) FROM (
    SELECT DISTINCT ON (a.type) a.type, a.again_ms FROM allowed AS a WHERE a.whole ORDER BY a.type, a.nth) AS r) AS refused, (SELECT count(k.place)::integer FROM keys AS k) AS found, (SELECT jsonb_object_agg(k.type, k.last) FROM (
    SELECT k.type, CASE WHEN count(DISTINCT k.key) >= the_most_keys::integer THEN max(k.key COLLATE "C") ELSE '' END AS last
    FROM keys AS k GROUP BY k.type
  ) AS k) AS walked, least((SELECT min(k.again_ms) FROM keys AS k WHERE k.tokens < 1), (SELECT min(p.again_ms) FROM picked AS p),
    (SELECT min(a.again_ms) FROM allowed AS a WHERE NOT a.whole)) AS walk_ms, NULL::uuid AS id, NULL::text AS type, NULL::int4 AS version, NULL::text AS partition_key, NULL::jsonb AS payload, NULL::jsonb AS headers, NULL::int4 AS attempts, NULL::int4 AS max_attempts, NULL::int8 AS lease_generation, NULL::int4 AS crashes, NULL::timestamptz AS created_at, NULL::int4 AS partition_bucket, NULL::int2 AS priority, NULL::bool AS taken, NULL::timestamptz AS cursor_at, NULL::int8 AS cursor_position
FROM holdfast.fleet AS f

WHERE f.one
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, c.id, c.type, c.version, c.partition_key, c.payload, c.headers, c.attempts, c.max_attempts, c.lease_generation, c.crashes, c.created_at, c.partition_bucket, c.priority, c.taken, c.cursor_at, c.cursor_position
FROM claimed AS c
  LOOP
    RETURN NEXT;
  END LOOP;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_verb_claim_suspects(the_worker text, the_lease_ms integer, the_number bigint, the_finished bigint[], the_most integer, the_held jsonb, the_types text[], the_versions jsonb, the_lock integer)
 RETURNS TABLE(epoch bigint, clock bigint, refused jsonb, id uuid, type text, version integer, partition_key text, payload jsonb, headers jsonb, attempts integer, max_attempts integer, lease_generation bigint, crashes integer, created_at timestamp with time zone, partition_bucket integer, priority smallint, taken boolean, cursor_at timestamp with time zone, cursor_position bigint)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
BEGIN
  FOR epoch, clock, refused, id, type, version, partition_key, payload, headers, attempts, max_attempts, lease_generation, crashes, created_at, partition_bucket, priority, taken, cursor_at, cursor_position IN

WITH open_queue AS MATERIALIZED (
  SELECT q.paused_types, q.paused_keys, q.age_after, q.ordering,
    CASE WHEN q.limits_version > 0 AND the_held::jsonb IS DISTINCT FROM 'false' THEN (
      SELECT array_agg(coalesce(l.type, '')) FROM holdfast.limits AS l
      WHERE l.queue = 'inbox' AND (l.concurrency IS NOT NULL OR l.rate_limit IS NOT NULL)) END AS limited
  FROM holdfast.queues AS q
  WHERE q.name = 'inbox' AND NOT q.paused AND true
), kept AS MATERIALIZED (
  SELECT s.place, s.run FROM holdfast.inbox_suspects(the_most::integer, the_types::text[], the_versions::jsonb, the_lock::integer) AS s
  WHERE EXISTS (SELECT FROM open_queue)
), allowed AS MATERIALIZED (
  SELECT a.*
  FROM (
    SELECT array_agg(p.place) AS places, array_agg(p.type) AS types, array_agg(p.limit_key) AS keys
    FROM (
      SELECT k.place, i.type, i.limit_key
      FROM kept AS k
      JOIN holdfast.inbox AS i ON i.ctid = k.place
      WHERE (SELECT o.limited FROM open_queue AS o)::text[] IS NOT NULL AND (i.type = ANY ((SELECT o.limited FROM open_queue AS o)::text[]) OR '' = ANY ((SELECT o.limited FROM open_queue AS o)::text[])) IS TRUE
      ORDER BY k.run,  i.available_at, i.position
    ) AS p
  ) AS c
  CROSS JOIN LATERAL holdfast.inbox_allow(the_worker::text, the_held::jsonb, c.places, c.types, c.keys) AS a
  WHERE c.places IS NOT NULL
), claimed AS (
  UPDATE holdfast.inbox AS i
  SET status = 'processing',
      claimed_by = the_worker::text,
      claimed_at = now(),
      lease_expires_at = (SELECT now() + the_lease_ms::integer * interval '1 millisecond'),
      lease_generation = i.lease_generation + 1,
      attempts = i.attempts + CASE WHEN i.status = 'processing' THEN 0 ELSE 1 END,
      crashes = i.crashes + CASE WHEN i.status = 'processing' AND (i.crashes = 0 OR i.started) THEN 1 ELSE 0 END,
      started = false,
      last_error = CASE WHEN i.status = 'processing'
        THEN 'The worker ' || i.claimed_by || ' vanished while it held this job.' ELSE i.last_error END,
      history = CASE WHEN i.status = 'processing'
        THEN jsonb_path_query_array(
      coalesce(i.history, '[]') || jsonb_build_object('attempt', i.attempts, 'at', now(), 'worker', i.claimed_by, 'outcome', 'vanished', 'spent', false),
      '$[last-19 to last]')
        ELSE i.history END, isolated = i.crashes >= 4
  WHERE i.ctid = ANY (ARRAY(SELECT k.place FROM kept AS k
    WHERE NOT EXISTS (SELECT FROM allowed AS a WHERE a.place = k.place AND NOT a.ok)))
  RETURNING i.id, i.type, nullif(i.version, 1) AS version, i.partition_key, i.payload,
    i.headers, nullif(i.attempts, 1) AS attempts, nullif(i.max_attempts, 5) AS max_attempts,
    nullif(i.lease_generation, 1) AS lease_generation, nullif(i.crashes, 0) AS crashes,
    nullif(i.created_at, i.available_at) AS created_at, i.partition_bucket,
    nullif(i.priority, 2) AS priority,
    -- Its owner vanished, and this claim was the one to write it down.
    CASE WHEN i.crashes > 0 AND (i.history -> -1 ->> 'at')::timestamptz = now() THEN true END AS taken,
    i.available_at AS cursor_at, i.position AS cursor_position
), recorded AS (
  INSERT INTO holdfast.inbox_claims (worker_id, number, jobs)
  SELECT the_worker::text, the_number::bigint, array_agg(c.id) FROM claimed AS c HAVING count(*) > 0
), forgotten AS (
  DELETE FROM holdfast.inbox_claims AS f
  WHERE f.worker_id = the_worker::text AND f.number = ANY (the_finished::bigint[])
)
SELECT f.epoch AS epoch, (SELECT (date_part('epoch', now()) * 1000)::bigint) AS clock, (SELECT jsonb_object_agg(r.type, r.again_ms) FROM (
    SELECT DISTINCT ON (a.type) a.type, a.again_ms FROM allowed AS a WHERE a.whole ORDER BY a.type, a.nth) AS r) AS refused, NULL::uuid AS id, NULL::text AS type, NULL::int4 AS version, NULL::text AS partition_key, NULL::jsonb AS payload, NULL::jsonb AS headers, NULL::int4 AS attempts, NULL::int4 AS max_attempts, NULL::int8 AS lease_generation, NULL::int4 AS crashes, NULL::timestamptz AS created_at, NULL::int4 AS partition_bucket, NULL::int2 AS priority, NULL::bool AS taken, NULL::timestamptz AS cursor_at, NULL::int8 AS cursor_position
FROM holdfast.fleet AS f

WHERE f.one
UNION ALL
SELECT NULL, NULL, NULL, c.id, c.type, c.version, c.partition_key, c.payload, c.headers, c.attempts, c.max_attempts, c.lease_generation, c.crashes, c.created_at, c.partition_bucket, c.priority, c.taken, c.cursor_at, c.cursor_position
FROM claimed AS c
  LOOP
    RETURN NEXT;
  END LOOP;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_verb_claim_turns(the_worker text, the_lease_ms integer, the_number bigint, the_finished bigint[], the_most integer, the_held jsonb, the_types text[], the_versions jsonb, the_buckets integer[], the_after text[], the_until integer[], is_again boolean, the_soon_ms integer, the_most_keys integer, is_asked boolean)
 RETURNS TABLE(epoch bigint, clock bigint, refused jsonb, stop_stretch integer, stop_bucket integer, stop_key text, wanted bigint, held_back text, last_allowed jsonb, due text, due_in_ms bigint, suspects boolean, maintained_ms bigint, recount boolean, busy text, missed bigint, turn bigint, more boolean, id uuid, type text, version integer, partition_key text, payload jsonb, headers jsonb, attempts integer, max_attempts integer, lease_generation bigint, crashes integer, created_at timestamp with time zone, partition_bucket integer, priority smallint, taken boolean, cursor_at timestamp with time zone, cursor_position bigint)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
BEGIN
  FOR epoch, clock, refused, stop_stretch, stop_bucket, stop_key, wanted, held_back, last_allowed, due, due_in_ms, suspects, maintained_ms, recount, busy, missed, turn, more, id, type, version, partition_key, payload, headers, attempts, max_attempts, lease_generation, crashes, created_at, partition_bucket, priority, taken, cursor_at, cursor_position IN

WITH open_queue AS MATERIALIZED (
  SELECT q.paused_types, q.paused_keys, q.age_after, q.ordering,
    CASE WHEN q.limits_version > 0 AND the_held::jsonb IS DISTINCT FROM 'false' THEN (
      SELECT array_agg(coalesce(l.type, '')) FROM holdfast.limits AS l
      WHERE l.queue = 'inbox' AND (l.concurrency IS NOT NULL OR l.rate_limit IS NOT NULL)) END AS limited
  FROM holdfast.queues AS q
  WHERE q.name = 'inbox' AND NOT q.paused AND true
), kept AS MATERIALIZED (
  SELECT c.*, c.turn AS run FROM holdfast.inbox_turns(the_most::integer, the_types::text[], the_versions::jsonb, the_buckets::integer[], the_after::text[],
    the_until::integer[], is_again::boolean, the_soon_ms::integer, the_most_keys::integer) AS c
), allowed AS MATERIALIZED (
  SELECT a.*
  FROM (
    SELECT array_agg(p.place) AS places, array_agg(p.type) AS types, array_agg(p.limit_key) AS keys
    FROM (
      SELECT k.place, i.type, i.limit_key
      FROM kept AS k
      JOIN holdfast.inbox AS i ON i.ctid = k.place
      WHERE (SELECT o.limited FROM open_queue AS o)::text[] IS NOT NULL AND (i.type = ANY ((SELECT o.limited FROM open_queue AS o)::text[]) OR '' = ANY ((SELECT o.limited FROM open_queue AS o)::text[])) IS TRUE
      ORDER BY k.run, i.partition_bucket < (the_buckets::integer[])[1], i.partition_bucket,
      coalesce(i.group_key, '') COLLATE "C", i.partition_key COLLATE "C", i.available_at, i.position
    ) AS p
  ) AS c
  CROSS JOIN LATERAL holdfast.inbox_allow(the_worker::text, the_held::jsonb, c.places, c.types, c.keys) AS a
  WHERE c.places IS NOT NULL
), claimed AS (
  UPDATE holdfast.inbox AS i
  SET status = 'processing',
      claimed_by = the_worker::text,
      claimed_at = now(),
      lease_expires_at = (SELECT now() + the_lease_ms::integer * interval '1 millisecond'),
      lease_generation = i.lease_generation + 1,
      attempts = i.attempts + CASE WHEN i.status = 'processing' THEN 0 ELSE 1 END,
      crashes = i.crashes + CASE WHEN i.status = 'processing' AND (i.crashes = 0 OR i.started) THEN 1 ELSE 0 END,
      started = false,
      last_error = CASE WHEN i.status = 'processing'
        THEN 'The worker ' || i.claimed_by || ' vanished while it held this job.' ELSE i.last_error END,
      history = CASE WHEN i.status = 'processing'
        THEN jsonb_path_query_array(
      coalesce(i.history, '[]') || jsonb_build_object('attempt', i.attempts, 'at', now(), 'worker', i.claimed_by, 'outcome', 'vanished', 'spent', false),
      '$[last-19 to last]')
        ELSE i.history END, isolated = false
  FROM kept AS k
  WHERE i.ctid = k.place AND k.place = ANY (ARRAY(SELECT k.place FROM kept AS k
    WHERE NOT EXISTS (SELECT FROM allowed AS a WHERE a.place = k.place AND NOT a.ok)))
  RETURNING i.id, i.type, nullif(i.version, 1) AS version, i.partition_key, i.payload,
    i.headers, nullif(i.attempts, 1) AS attempts, nullif(i.max_attempts, 5) AS max_attempts,
    nullif(i.lease_generation, 1) AS lease_generation, nullif(i.crashes, 0) AS crashes,
    nullif(i.created_at, i.available_at) AS created_at, i.partition_bucket,
    nullif(i.priority, 2) AS priority,
    -- Its owner vanished, and this claim was the one to write it down.
    CASE WHEN i.crashes > 0 AND (i.history -> -1 ->> 'at')::timestamptz = now() THEN true END AS taken,
    i.available_at AS cursor_at, i.position AS cursor_position, k.turn, k.more
), recorded AS (
  INSERT INTO holdfast.inbox_claims (worker_id, number, jobs, buckets)
  SELECT the_worker::text, the_number::bigint, array_agg(c.id), array_agg(c.partition_bucket::smallint) FROM claimed AS c HAVING count(*) > 0
), forgotten AS (
  DELETE FROM holdfast.inbox_claims AS f
  WHERE f.worker_id = the_worker::text AND f.number = ANY (the_finished::bigint[])
)
SELECT f.epoch AS epoch, (SELECT (date_part('epoch', now()) * 1000)::bigint) AS clock, (SELECT jsonb_object_agg(r.type, r.again_ms) FROM (
    SELECT DISTINCT ON (a.type) a.type, a.again_ms FROM allowed AS a WHERE a.whole ORDER BY a.type, a.nth) AS r) AS refused, s.stop_stretch AS stop_stretch, s.stop_bucket AS stop_bucket, s.stop_place AS stop_key, (SELECT count(p.turn) FROM kept AS p) - (SELECT count(*) FROM allowed AS a WHERE NOT a.ok) AS wanted, (SELECT string_agg(DISTINCT concat_ws(':', coalesce(a.again_ms, -1), i.partition_bucket,
      CASE WHEN a.whole THEN a.type END), ',')
    FROM allowed AS a JOIN holdfast.inbox AS i ON i.ctid = a.place WHERE NOT a.ok) AS held_back, (SELECT jsonb_build_array(l.partition_bucket, coalesce(l.group_key, ''), l.partition_key,
      EXISTS (SELECT FROM allowed AS a JOIN holdfast.inbox AS w ON w.ctid = a.place
        WHERE NOT a.ok AND a.nth > g.nth AND w.partition_bucket = l.partition_bucket
          AND (w.group_key, w.partition_key) IS DISTINCT FROM (l.group_key, l.partition_key)))
    FROM (SELECT a.place, a.nth FROM allowed AS a WHERE a.ok ORDER BY a.nth DESC LIMIT 1) AS g
    JOIN holdfast.inbox AS l ON l.ctid = g.place) AS last_allowed, (SELECT array_to_string((array_agg(d.due))[1:200], ',') FROM kept AS d WHERE d.due IS NOT NULL) AS due, d.due_in_ms AS due_in_ms, d.suspects AS suspects, d.maintained_ms AS maintained_ms, d.recount AS recount, s.busy AS busy, (SELECT count(k.place) FROM (SELECT k.place FROM kept AS k
    WHERE NOT EXISTS (SELECT FROM allowed AS a WHERE a.place = k.place AND NOT a.ok)) AS k) - (SELECT count(*) FROM claimed) AS missed, NULL::int8 AS turn, NULL::bool AS more, NULL::uuid AS id, NULL::text AS type, NULL::int4 AS version, NULL::text AS partition_key, NULL::jsonb AS payload, NULL::jsonb AS headers, NULL::int4 AS attempts, NULL::int4 AS max_attempts, NULL::int8 AS lease_generation, NULL::int4 AS crashes, NULL::timestamptz AS created_at, NULL::int4 AS partition_bucket, NULL::int2 AS priority, NULL::bool AS taken, NULL::timestamptz AS cursor_at, NULL::int8 AS cursor_position
FROM holdfast.fleet AS f
LEFT JOIN kept AS s ON s.stop_place IS NOT NULL
LEFT JOIN LATERAL (
  SELECT NULL::bigint AS due_in_ms, EXISTS (SELECT FROM holdfast.inbox AS s
      WHERE s.crashes > 1 AND s.status = 'pending' AND s.available_at <= now()) AS suspects,
    (extract(epoch FROM now() - q.maintained_at) * 1000)::bigint AS maintained_ms,
    q.max_pending IS NOT NULL AND coalesce(q.recount_at <= now(), true) AS recount
  FROM holdfast.queues AS q WHERE q.name = 'inbox' AND is_asked::boolean OFFSET 0
) AS d ON true
WHERE f.one
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, c.turn, c.more, c.id, c.type, c.version, c.partition_key, c.payload, c.headers, c.attempts, c.max_attempts, c.lease_generation, c.crashes, c.created_at, c.partition_bucket, c.priority, c.taken, c.cursor_at, c.cursor_position
FROM claimed AS c
  LOOP
    RETURN NEXT;
  END LOOP;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_verb_clear_blameless(the_most integer, the_quiet_ms integer)
 RETURNS TABLE(id uuid, run_at timestamp with time zone, partition_bucket integer)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
BEGIN
  FOR id, run_at, partition_bucket IN

UPDATE holdfast.inbox AS i
SET crashes = 1
WHERE i.ctid = ANY (ARRAY(
  SELECT s.ctid FROM holdfast.inbox AS s
  WHERE s.crashes > 1 AND s.crashes < 3 AND s.status = 'pending' AND (s.history -> -1 -> 'together' = 'true') IS TRUE
    AND NOT EXISTS (SELECT FROM holdfast.inbox AS c
      WHERE c.crashes > 1 AND c.history -> -1 ->> 'outcome' = 'vanished'
        AND (c.history -> -1 ->> 'at')::timestamptz > now() - the_quiet_ms::integer * interval '1 millisecond')
  ORDER BY s.id
  LIMIT the_most::integer
  FOR UPDATE SKIP LOCKED))
RETURNING i.id, i.available_at AS run_at, i.partition_bucket
  LOOP
    RETURN NEXT;
  END LOOP;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_verb_complete(the_worker text, the_ids uuid[], the_generations bigint[], the_results text)
 RETURNS TABLE(moved integer, id uuid)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
BEGIN
  FOR moved, id IN

WITH gone AS (
  DELETE FROM holdfast.inbox AS i
  WHERE i.id = ANY (the_ids::uuid[])
    AND ((i.id, i.lease_generation) IN (SELECT f.id, f.generation FROM unnest(the_ids::uuid[], the_generations::bigint[]) AS f(id, generation))) IS TRUE
    AND i.claimed_by = the_worker::text
    AND i.status = 'processing'
    AND i.lease_expires_at > statement_timestamp()
  RETURNING id, created_at, claimed_at, lease_generation, partition_bucket, attempts, max_attempts,
    version, priority, type, partition_key, payload, headers, idempotency_key, claimed_by, group_key, unique_key, last_error, history, parent
), archived AS (
  INSERT INTO holdfast.inbox_archive (id, created_at, claimed_at, lease_generation, partition_bucket, attempts, max_attempts,
    version, priority, type, partition_key, payload, headers, idempotency_key, claimed_by, group_key, unique_key,
  completed_at, status, last_error, history, result)
SELECT id, created_at, claimed_at, lease_generation, partition_bucket, attempts, max_attempts,
    version, priority, type, partition_key, payload, headers, idempotency_key, claimed_by, group_key, unique_key,
  now(), 'completed', last_error, history, CASE WHEN the_results::text IS NOT NULL THEN (SELECT the_results::text::jsonb) -> id::text END
FROM gone AS i
  WHERE (SELECT q.archive_retention > '0' FROM holdfast.queues AS q WHERE q.name = 'inbox')
)
SELECT m.moved, g.id
FROM (SELECT count(*)::integer AS moved, CASE WHEN count(g.parent) > 0 THEN holdfast.children_ended(array_agg(g.id) FILTER (WHERE g.parent IS NOT NULL),
    array_agg(g.parent) FILTER (WHERE g.parent IS NOT NULL), 'c', (SELECT the_results::text::jsonb)) END FROM gone AS g) AS m
LEFT JOIN gone AS g ON m.moved < cardinality(the_generations::bigint[])
  LOOP
    RETURN NEXT;
  END LOOP;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_verb_dead_letter(the_worker text, the_ids uuid[], the_generations bigint[], the_facts text, the_errors text)
 RETURNS TABLE(id uuid, status holdfast.inbox_status, untold text)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
BEGIN
  FOR id, status, untold IN

UPDATE holdfast.inbox AS i
SET status = 'dead_letter',
    available_at = 'infinity',
    parked = (SELECT q.ordering <> 'key_strict' FROM holdfast.queues AS q WHERE q.name = 'inbox'),
    claimed_by = NULL, claimed_at = NULL, lease_expires_at = NULL,
    isolated = false,
    last_error = ((SELECT the_errors::text::jsonb) ->> i.id::text),
    history = jsonb_path_query_array(
      coalesce(i.history, '[]') || jsonb_build_object('attempt', i.attempts, 'at', now(), 'worker', i.claimed_by, 'outcome', 'dead_letter', 'error', ((SELECT the_facts::text::jsonb) -> i.id::text ->> 'summary')),
      '$[last-19 to last]')
WHERE i.id = ANY (the_ids::uuid[])
    AND ((i.id, i.lease_generation) IN (SELECT f.id, f.generation FROM unnest(the_ids::uuid[], the_generations::bigint[]) AS f(id, generation))) IS TRUE
    AND i.claimed_by = the_worker::text
    AND i.status = 'processing'
    AND i.lease_expires_at > statement_timestamp()
RETURNING i.id, i.status, CASE WHEN i.status = 'dead_letter'
    THEN holdfast.dead_letter_hook('inbox', i.id, i.type, i.parent) END AS untold
  LOOP
    RETURN NEXT;
  END LOOP;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_verb_fail(the_worker text, the_ids uuid[], the_generations bigint[], the_facts text, the_errors text)
 RETURNS TABLE(id uuid, status holdfast.inbox_status, woken_at timestamp with time zone, partition_bucket integer, untold text)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
BEGIN
  FOR id, status, woken_at, partition_bucket, untold IN

UPDATE holdfast.inbox AS i
SET status = CASE WHEN i.attempts >= i.max_attempts THEN 'dead_letter' ELSE 'pending' END
      ::holdfast.inbox_status,
    available_at = CASE WHEN i.attempts >= i.max_attempts THEN 'infinity'
      WHEN ((i.available_at > i.claimed_at) IS TRUE) THEN now() ELSE now() + ((SELECT the_facts::text::jsonb) -> i.id::text ->> 'delay')::bigint * interval '1 millisecond' END,
    parked = i.attempts >= i.max_attempts
      AND (SELECT q.ordering <> 'key_strict' FROM holdfast.queues AS q WHERE q.name = 'inbox'),
    claimed_by = NULL, claimed_at = NULL, lease_expires_at = NULL,
    crashes = 0, isolated = false,
    last_error = ((SELECT the_errors::text::jsonb) ->> i.id::text),
    history = jsonb_path_query_array(
      coalesce(i.history, '[]') || jsonb_build_object('attempt', i.attempts, 'at', now(), 'worker', i.claimed_by, 'outcome', 'failed', 'error', ((SELECT the_facts::text::jsonb) -> i.id::text ->> 'summary')),
      '$[last-19 to last]')
WHERE i.id = ANY (the_ids::uuid[])
    AND ((i.id, i.lease_generation) IN (SELECT f.id, f.generation FROM unnest(the_ids::uuid[], the_generations::bigint[]) AS f(id, generation))) IS TRUE
    AND i.claimed_by = the_worker::text
    AND i.status = 'processing'
    AND i.lease_expires_at > statement_timestamp()
RETURNING i.id, i.status, CASE WHEN ((SELECT the_facts::text::jsonb) -> i.id::text ->> 'delay')::bigint > 0 AND i.available_at <= now() THEN i.available_at END AS woken_at, i.partition_bucket, CASE WHEN i.status = 'dead_letter'
    THEN holdfast.dead_letter_hook('inbox', i.id, i.type, i.parent) END AS untold
  LOOP
    RETURN NEXT;
  END LOOP;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_verb_forget_claims()
 RETURNS TABLE(forgotten bigint)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
BEGIN
  FOR forgotten IN

WITH gone AS (
  DELETE FROM holdfast.inbox_claims AS c
  WHERE (c.claimed_at < now() - interval '1 minute' OR NOT EXISTS (
      SELECT FROM holdfast.workers AS w WHERE w.id = c.worker_id AND w.status <> 'dead'))
    AND NOT EXISTS (
      SELECT FROM unnest(c.jobs) AS held(id)
      -- One value for each, so that it cannot be planned as a join that reads the whole queue.
      WHERE (SELECT true FROM holdfast.inbox AS i
        WHERE i.id = held.id AND i.claimed_by = c.worker_id AND i.status = 'processing' LIMIT 1))
  RETURNING 1
)
SELECT count(*) AS forgotten FROM gone
  LOOP
    RETURN NEXT;
  END LOOP;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_verb_forget_workers()
 RETURNS TABLE(id text)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
BEGIN
  FOR id IN

WITH permits AS (
  DELETE FROM holdfast.permits AS p
  WHERE NOT EXISTS (SELECT FROM holdfast.workers AS w WHERE w.id = p.worker_id AND w.status <> 'dead')
    OR NOT EXISTS (SELECT FROM holdfast.limits AS l WHERE l.id = p.limit_id)
)
DELETE FROM holdfast.workers AS w
WHERE w.status = 'dead' AND w.last_seen_at < now() - interval '7 days'
RETURNING w.id
  LOOP
    RETURN NEXT;
  END LOOP;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_verb_isolate(the_worker text, the_id uuid, the_generation bigint, is_alone boolean)
 RETURNS TABLE(id uuid)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
BEGIN
  FOR id IN

UPDATE holdfast.inbox AS i
SET isolated = is_alone::boolean
WHERE i.id = the_id::uuid
  AND i.lease_generation = the_generation::bigint
  AND i.claimed_by = the_worker::text
  AND i.status = 'processing'
  AND (i.lease_expires_at > statement_timestamp() OR NOT is_alone::boolean)
RETURNING i.id
  LOOP
    RETURN NEXT;
  END LOOP;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_verb_mark_started(the_worker text, the_id uuid, the_generation bigint)
 RETURNS TABLE(id uuid)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
BEGIN
  FOR id IN

UPDATE holdfast.inbox AS i
SET started = true
WHERE i.id = the_id::uuid
    AND i.lease_generation = the_generation::bigint
    AND i.claimed_by = the_worker::text
    AND i.status = 'processing'
    AND i.lease_expires_at > statement_timestamp()
RETURNING i.id
  LOOP
    RETURN NEXT;
  END LOOP;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_verb_notify_queue(the_since text, the_places text, the_setting text)
 RETURNS TABLE(sent text)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
BEGIN
  FOR sent IN

SELECT pg_notify(concat('holdfast_', 'holdfast.inbox'::regclass::oid), concat(
  floor(date_part('epoch', the_since::text::timestamptz) * 10)::bigint, ':', the_places::text))::text AS sent
-- A full queue of notifications would undo what was done to the jobs.
WHERE pg_notification_queue_usage() < 0.5
  AND current_setting(the_setting::text, true) IS DISTINCT FROM 'off'
  AND EXISTS (SELECT FROM pg_catalog.pg_trigger AS t
    WHERE t.tgrelid = 'holdfast.inbox'::regclass AND t.tgname = 'wake' AND t.tgenabled IN ('O', 'A'))
  LOOP
    RETURN NEXT;
  END LOOP;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_verb_prune_archive_older(the_older_ms bigint, the_most integer)
 RETURNS TABLE(jobs_found bigint, pruned bigint)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
#variable_conflict use_column
BEGIN
  FOR jobs_found, pruned IN

WITH old AS MATERIALIZED (
  SELECT a.ctid AS place FROM holdfast.inbox_archive AS a
  WHERE a.completed_at < now() - the_older_ms::bigint * interval '1 millisecond'
  LIMIT the_most::integer
), gone AS (
  DELETE FROM holdfast.inbox_archive AS a
  WHERE a.ctid = ANY (ARRAY(SELECT o.place FROM old AS o))
    -- Checked again: each segment has such a place, and it may have been taken by another row since.
    AND a.completed_at < now() - the_older_ms::bigint * interval '1 millisecond'
  RETURNING 1
)
SELECT (SELECT count(*) FROM old) AS found, (SELECT count(*) FROM gone) AS pruned
  LOOP
    RETURN NEXT;
  END LOOP;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_verb_recover(the_most integer, the_recoverer text, the_space integer, the_first_page text, the_page_behind text, the_left_types text[])
 RETURNS TABLE(id uuid, status holdfast.inbox_status, crashes integer, lease_generation bigint, run_at timestamp with time zone, partition_bucket integer, untold text)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
BEGIN
  FOR id, status, crashes, lease_generation, run_at, partition_bucket, untold IN

WITH held AS MATERIALIZED (
  -- A job that was released and claimed again stands in two claims, and a batch must not count it twice.
  SELECT n.id, n.worker_id, bool_or(n.dead) AS dead
  FROM (
    SELECT j.id, c.worker_id, w.status = 'dead' AS dead
    FROM holdfast.inbox_claims AS c
    LEFT JOIN holdfast.workers AS w ON w.id = c.worker_id
    CROSS JOIN LATERAL unnest(c.jobs) AS j(id)
    UNION ALL
    -- Claims take over any other job whose lease ran out, but no suspect, and its claim's row may be gone: the
    -- worker had finished that claim when a failover brought the job back, or it committed after its release.
    SELECT s.id, s.claimed_by, false
    FROM holdfast.inbox AS s
    WHERE s.crashes > 1 AND s.status = 'processing' AND s.lease_expires_at <= now()
    UNION ALL
    -- What was claimed by hand has no such row, and perhaps nobody who handles it.
    SELECT p.id, p.claimed_by, false
    FROM holdfast.inbox AS p
    WHERE p.ctid >= the_first_page::text::tid AND p.ctid < the_page_behind::text::tid
      AND p.status = 'processing' AND p.lease_expires_at <= now()
  ) AS n
  GROUP BY n.id, n.worker_id
), orphans AS MATERIALIZED (
  SELECT o.ctid, h.dead
  FROM held AS h
  -- It locks rows, so it cannot be planned as a join that reads the whole queue.
  CROSS JOIN LATERAL (
    SELECT i.ctid
    FROM holdfast.inbox AS i
    WHERE i.id = h.id AND i.claimed_by = h.worker_id AND i.status = 'processing'
      AND (i.lease_expires_at <= now() OR h.dead)
    FOR UPDATE SKIP LOCKED
  ) AS o
  LIMIT the_most::integer
-- A fleet that was away for longer than a lease: nobody was there to declare its workers dead.
), roll AS MATERIALIZED (
  SELECT w.id, w.started_at, w.last_seen_at, NOT w.holds_liveness_lock OR w.lock_key::oid IN (
    SELECT l.objid FROM pg_catalog.pg_locks AS l
    WHERE l.locktype = 'advisory' AND l.classid = the_space::integer::oid AND l.objsubid = 2 AND l.mode = 'ShareLock'
      AND l.granted AND l.database = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = current_database())
  ) AS stands
  FROM holdfast.workers AS w
  WHERE w.status <> 'dead' AND EXISTS (SELECT FROM orphans AS o WHERE o.dead IS NOT TRUE)
), together AS MATERIALIZED (
  SELECT gone.id FROM roll AS gone
  WHERE NOT gone.stands AND (SELECT count(*) FROM roll AS g WHERE NOT g.stands) > greatest(1, (
    SELECT count(*) FROM roll AS s WHERE s.stands AND s.started_at <= gone.last_seen_at))
), blameless AS MATERIALIZED (
  SELECT t.id FROM together AS t
  UNION ALL
  SELECT w.id FROM holdfast.workers AS w
  WHERE w.status = 'dead' AND w.left_at IS NULL AND w.metadata -> 'vanishedTogether' = 'true'
    AND EXISTS (SELECT FROM orphans AS o WHERE o.dead)
)
UPDATE holdfast.inbox AS i
SET status = CASE WHEN ((i.isolated AND i.started AND i.claimed_by <> the_recoverer::text AND NOT (i.claimed_by = ANY (ARRAY(SELECT b.id FROM blameless AS b)))) AND i.attempts >= i.max_attempts
      OR ((i.crashes = 0 OR i.started) AND NOT ((i.claimed_by = ANY (ARRAY(SELECT b.id FROM blameless AS b))) AND i.crashes > 1)) AND i.crashes + 1 >= 20) THEN 'dead_letter' ELSE 'pending' END::holdfast.inbox_status,
    available_at = CASE WHEN ((i.isolated AND i.started AND i.claimed_by <> the_recoverer::text AND NOT (i.claimed_by = ANY (ARRAY(SELECT b.id FROM blameless AS b)))) AND i.attempts >= i.max_attempts
      OR ((i.crashes = 0 OR i.started) AND NOT ((i.claimed_by = ANY (ARRAY(SELECT b.id FROM blameless AS b))) AND i.crashes > 1)) AND i.crashes + 1 >= 20) THEN 'infinity' ELSE i.available_at END,
    parked = ((i.isolated AND i.started AND i.claimed_by <> the_recoverer::text AND NOT (i.claimed_by = ANY (ARRAY(SELECT b.id FROM blameless AS b)))) AND i.attempts >= i.max_attempts
      OR ((i.crashes = 0 OR i.started) AND NOT ((i.claimed_by = ANY (ARRAY(SELECT b.id FROM blameless AS b))) AND i.crashes > 1)) AND i.crashes + 1 >= 20)
      AND (SELECT q.ordering <> 'key_strict' FROM holdfast.queues AS q WHERE q.name = 'inbox'),
    attempts = i.attempts - CASE WHEN (i.isolated AND i.started AND i.claimed_by <> the_recoverer::text AND NOT (i.claimed_by = ANY (ARRAY(SELECT b.id FROM blameless AS b)))) THEN 0 ELSE 1 END,
    crashes = i.crashes + CASE WHEN ((i.crashes = 0 OR i.started) AND NOT ((i.claimed_by = ANY (ARRAY(SELECT b.id FROM blameless AS b))) AND i.crashes > 1)) THEN 1 ELSE 0 END,
    claimed_by = NULL, claimed_at = NULL, lease_expires_at = NULL, isolated = false,
    last_error = 'The worker ' || i.claimed_by || ' vanished while it held this job.',
    history = jsonb_path_query_array(
      coalesce(i.history, '[]') || jsonb_build_object('attempt', i.attempts, 'at', now(), 'worker', i.claimed_by, 'outcome', 'vanished', 'spent', (i.isolated AND i.started AND i.claimed_by <> the_recoverer::text AND NOT (i.claimed_by = ANY (ARRAY(SELECT b.id FROM blameless AS b)))),
        'together', (i.claimed_by = ANY (ARRAY(SELECT b.id FROM blameless AS b))) AND (i.crashes < 2 OR (i.history -> -1 -> 'together' = 'true') IS TRUE)),
      '$[last-19 to last]')
WHERE i.ctid = ANY (ARRAY(SELECT o.ctid FROM orphans AS o))
  AND ((i.type = ANY (the_left_types::text[]) OR '' = ANY (the_left_types::text[])) IS NOT TRUE OR ((i.isolated AND i.started AND i.claimed_by <> the_recoverer::text AND NOT (i.claimed_by = ANY (ARRAY(SELECT b.id FROM blameless AS b)))) AND i.attempts >= i.max_attempts
      OR ((i.crashes = 0 OR i.started) AND NOT ((i.claimed_by = ANY (ARRAY(SELECT b.id FROM blameless AS b))) AND i.crashes > 1)) AND i.crashes + 1 >= 20) IS NOT TRUE)
RETURNING i.id, i.status, i.crashes, i.lease_generation, i.available_at AS run_at, i.partition_bucket,
  CASE WHEN i.status = 'dead_letter'
    THEN holdfast.dead_letter_hook('inbox', i.id, i.type, i.parent) END AS untold
  LOOP
    RETURN NEXT;
  END LOOP;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_verb_release(the_worker text, the_ids uuid[], the_generations bigint[])
 RETURNS TABLE(id uuid, run_at timestamp with time zone, partition_bucket integer)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
BEGIN
  FOR id, run_at, partition_bucket IN

UPDATE holdfast.inbox AS i
SET status = 'pending', claimed_by = NULL, claimed_at = NULL, lease_expires_at = NULL,
    attempts = greatest(i.attempts - 1, 0), isolated = false
WHERE i.id = ANY (the_ids::uuid[])
    AND ((i.id, i.lease_generation) IN (SELECT f.id, f.generation FROM unnest(the_ids::uuid[], the_generations::bigint[]) AS f(id, generation))) IS TRUE
    AND i.claimed_by = the_worker::text
    AND i.status = 'processing'
    AND i.lease_expires_at > statement_timestamp()
RETURNING i.id, i.available_at AS run_at, i.partition_bucket
  LOOP
    RETURN NEXT;
  END LOOP;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_verb_renew(the_worker text, the_ids uuid[], the_generations bigint[], the_lease_ms integer)
 RETURNS TABLE(id uuid, renewed boolean)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
BEGIN
  FOR id, renewed IN

WITH free AS MATERIALIZED (
  SELECT i.ctid FROM holdfast.inbox AS i
  WHERE i.id = ANY (the_ids::uuid[])
    AND ((i.id, i.lease_generation) IN (SELECT f.id, f.generation FROM unnest(the_ids::uuid[], the_generations::bigint[]) AS f(id, generation))) IS TRUE
    AND i.claimed_by = the_worker::text
    AND i.status = 'processing'
    AND i.lease_expires_at > statement_timestamp()
  FOR NO KEY UPDATE SKIP LOCKED
), renewed AS (
  UPDATE holdfast.inbox AS i
  SET lease_expires_at = now() + the_lease_ms::integer * interval '1 millisecond'
  WHERE i.ctid = ANY (ARRAY(SELECT ctid FROM free))
  RETURNING i.id
)
SELECT i.id, i.id = ANY (ARRAY(SELECT r.id FROM renewed AS r)) AS renewed
FROM holdfast.inbox AS i
WHERE i.id = ANY (the_ids::uuid[])
    AND ((i.id, i.lease_generation) IN (SELECT f.id, f.generation FROM unnest(the_ids::uuid[], the_generations::bigint[]) AS f(id, generation))) IS TRUE
    AND i.claimed_by = the_worker::text
    AND i.status = 'processing'
    AND i.lease_expires_at > statement_timestamp()
  LOOP
    RETURN NEXT;
  END LOOP;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_verb_replay(the_places tid[], the_ids uuid[], the_completed boolean, is_restore boolean)
 RETURNS TABLE(id uuid, key_taken boolean, moved boolean)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
#variable_conflict use_column
BEGIN
  FOR id, key_taken, moved IN

WITH wanted AS MATERIALIZED (
  SELECT a.ctid AS place, a.id, a.type, a.payload, a.created_at, a.idempotency_key
  FROM holdfast.inbox_archive AS a
  -- By place, because the archive has no index that finds single rows fast. Each segment has such a place, so the id
  -- decides.
  WHERE a.ctid = ANY (the_places::tid[]) AND a.id = ANY (the_ids::uuid[])
    AND (the_completed::boolean OR a.status <> 'completed')
    AND (NOT is_restore::boolean OR a.status = 'dead_letter')
    AND NOT EXISTS (SELECT FROM holdfast.inbox AS i WHERE i.id = a.id)
), held AS MATERIALIZED (
  SELECT k.key, k.job_id
  FROM holdfast.inbox_idempotency AS k
  WHERE k.key = ANY (ARRAY(SELECT w.idempotency_key FROM wanted AS w WHERE w.idempotency_key IS NOT NULL))
), kept AS (
  INSERT INTO holdfast.inbox_idempotency AS k (key, job_id, fingerprint, expires_at)
  SELECT DISTINCT ON (w.idempotency_key) w.idempotency_key, w.id,
    sha256(convert_to(w.type || E'\n' || w.payload::text, 'UTF8')),
    now() + (SELECT q.idempotency_retention FROM holdfast.queues AS q WHERE q.name = 'inbox')
  FROM wanted AS w
  LEFT JOIN held AS h ON h.key = w.idempotency_key
  WHERE w.idempotency_key IS NOT NULL
  -- Of several jobs of one key, the one for which it stands, else the last.
  ORDER BY w.idempotency_key, h.job_id IS NOT DISTINCT FROM w.id DESC, w.created_at DESC, w.id DESC
  ON CONFLICT (key) DO UPDATE SET (job_id, fingerprint, expires_at) = (
    SELECT CASE WHEN lapsed THEN excluded.job_id ELSE k.job_id END,
           CASE WHEN lapsed THEN excluded.fingerprint ELSE k.fingerprint END,
           CASE WHEN lapsed OR k.job_id = excluded.job_id
             THEN greatest(excluded.expires_at, k.expires_at) ELSE k.expires_at END
    FROM (SELECT k.job_id <> excluded.job_id AND k.expires_at <= now()
            AND NOT EXISTS (SELECT FROM holdfast.inbox AS j WHERE j.id = k.job_id)) AS t(lapsed))
  RETURNING k.key, k.job_id
), verdict AS MATERIALIZED (
  SELECT w.place, w.id, coalesce(k.job_id <> w.id, false) AS key_taken
  FROM wanted AS w
  LEFT JOIN kept AS k ON k.key = w.idempotency_key
), gone AS (
  DELETE FROM holdfast.inbox_archive AS a
  WHERE a.ctid = ANY (ARRAY(SELECT v.place FROM verdict AS v WHERE NOT v.key_taken))
    AND a.id = ANY (ARRAY(SELECT v.id FROM verdict AS v WHERE NOT v.key_taken))
  RETURNING a.*
), placed AS MATERIALIZED (
  SELECT g.*, nextval('holdfast.inbox_position_seq') AS position
  FROM (SELECT * FROM gone ORDER BY created_at, id) AS g
), written AS (
  INSERT INTO holdfast.inbox (id, position, created_at, status, available_at, partition_bucket, max_attempts, version,
    priority, parked, attempts, lease_generation, type, partition_key, payload, headers, idempotency_key,
    last_error, history, group_key, unique_key)
  SELECT p.id, p.position, p.created_at, CASE WHEN is_restore THEN 'dead_letter' ELSE 'pending' END::holdfast.inbox_status,
    CASE WHEN is_restore THEN 'infinity'
      WHEN p.status = 'cancelled' THEN greatest(statement_timestamp(), (p.history #>> '{-1,due}')::timestamptz)
      ELSE statement_timestamp() END,
    holdfast.bucket_of(coalesce(CASE WHEN q.ordering = 'turns' THEN p.group_key END, p.partition_key)),
    p.max_attempts, p.version,
    p.priority, is_restore, CASE WHEN is_restore THEN p.attempts ELSE 0 END, p.lease_generation, p.type, p.partition_key, p.payload, p.headers, p.idempotency_key,
    p.last_error,
    CASE WHEN is_restore THEN p.history ELSE jsonb_path_query_array(
      coalesce(p.history, '[]') || jsonb_build_object('attempt', p.attempts, 'at', now(), 'worker', NULL,
        'outcome', 'replayed', 'was', CASE p.status WHEN 'dead_letter' THEN 'discarded' ELSE p.status::text END),
      '$[last-19 to last]') END,
    -- The queue may have no groups any more.
    CASE WHEN q.ordering = 'turns' THEN p.group_key END, p.unique_key
  FROM placed AS p
  JOIN holdfast.queues AS q ON q.name = 'inbox'
  ORDER BY p.position
)
SELECT v.id, v.key_taken, g.id IS NOT NULL AND coalesce((
    -- Called once, and only if one of them has such a key.
    SELECT CASE WHEN count(*) > 0 THEN holdfast.inbox_retake_unique(array_agg(u.type ORDER BY u.created_at, u.id),
      array_agg(u.unique_key ORDER BY u.created_at, u.id), array_agg(u.id ORDER BY u.created_at, u.id)) END
    FROM gone AS u WHERE u.unique_key IS NOT NULL), true) AS moved
FROM verdict AS v
LEFT JOIN gone AS g ON g.id = v.id
  LOOP
    RETURN NEXT;
  END LOOP;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_verb_snooze(the_worker text, the_ids uuid[], the_generations bigint[], the_facts text)
 RETURNS TABLE(id uuid, woken_at timestamp with time zone, partition_bucket integer)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
BEGIN
  FOR id, woken_at, partition_bucket IN

UPDATE holdfast.inbox AS i
SET status = 'pending', claimed_by = NULL, claimed_at = NULL, lease_expires_at = NULL,
    attempts = greatest(i.attempts - 1, 0), isolated = false, crashes = 0,
    available_at = CASE WHEN ((i.available_at > i.claimed_at) IS TRUE) THEN now() ELSE now() + ((SELECT the_facts::text::jsonb) -> i.id::text ->> 'delay')::bigint * interval '1 millisecond' END,
    history = jsonb_path_query_array(
      CASE WHEN i.history #>> '{-1,outcome}' = 'snoozed' THEN i.history - (-1) ELSE coalesce(i.history, '[]') END || jsonb_build_object('attempt', i.attempts, 'at', now(), 'worker', i.claimed_by, 'outcome', 'snoozed', 'times', CASE WHEN i.history #>> '{-1,outcome}' = 'snoozed'
        THEN (i.history #>> '{-1,times}')::integer + 1 ELSE 1 END),
      '$[last-19 to last]')
WHERE i.id = ANY (the_ids::uuid[])
    AND ((i.id, i.lease_generation) IN (SELECT f.id, f.generation FROM unnest(the_ids::uuid[], the_generations::bigint[]) AS f(id, generation))) IS TRUE
    AND i.claimed_by = the_worker::text
    AND i.status = 'processing'
    AND i.lease_expires_at > statement_timestamp()
RETURNING i.id, CASE WHEN ((SELECT the_facts::text::jsonb) -> i.id::text ->> 'delay')::bigint > 0 AND i.available_at <= now() THEN i.available_at END AS woken_at, i.partition_bucket
  LOOP
    RETURN NEXT;
  END LOOP;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_verb_sweep_workers(the_ttl_ms integer, the_sweeper text)
 RETURNS TABLE(id text)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
BEGIN
  FOR id IN

UPDATE holdfast.workers AS w
SET status = 'dead'
WHERE w.status IN ('alive', 'draining')
  AND w.id <> the_sweeper::text
  -- Its own TTL may be longer than that of the one who judges.
  AND w.last_seen_at < now() - interval '1 millisecond' * greatest(the_ttl_ms::integer,
    CASE WHEN jsonb_typeof(w.metadata -> 'ttlMs') = 'number'
      THEN least((w.metadata ->> 'ttlMs')::numeric, 86400000) END,
    CASE WHEN w.last_seen_at = w.started_at
      AND NOT EXISTS (SELECT FROM holdfast.inbox_claims AS c WHERE c.worker_id = w.id) THEN 60000 END)
  AND pg_postmaster_start_time() < now() - the_ttl_ms::integer * interval '1 millisecond'
RETURNING w.id
  LOOP
    RETURN NEXT;
  END LOOP;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_verb_take_pages(the_pages bigint)
 RETURNS TABLE(page bigint, page_after bigint)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
BEGIN
  FOR page, page_after IN

WITH size AS MATERIALIZED (
  SELECT pg_relation_size('holdfast.inbox'::regclass) / current_setting('block_size')::integer AS pages
), begin AS MATERIALIZED (
  SELECT CASE WHEN b.page < s.pages THEN b.page ELSE 0 END AS page, s.pages
  FROM size AS s
  CROSS JOIN LATERAL (
    SELECT coalesce((q.serviced_at ->> 'page')::bigint, 0) AS page FROM holdfast.queues AS q WHERE q.name = 'inbox'
  ) AS b
), moved AS (
  UPDATE holdfast.queues AS q
  SET serviced_at = q.serviced_at || jsonb_build_object('page', (SELECT b.page FROM begin AS b) + the_pages::bigint)
  WHERE q.name = 'inbox' AND (SELECT b.pages FROM begin AS b) > the_pages::bigint
)
SELECT b.page, b.page + the_pages::bigint AS page_after FROM begin AS b
  LOOP
    RETURN NEXT;
  END LOOP;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_wake()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
AS $function$
DECLARE
  due     timestamp with time zone;
  hint    pg_catalog.text;
  unheard pg_catalog.bool;
BEGIN
  -- Nobody wants hints: this is all that an insert into a busy queue pays for. (Two inserts at the same moment may take
  -- each other for a waiting worker; then they send a hint that nobody needs. The others are tried under the first lock
  -- only, so nobody is taken for an active worker.)
  IF pg_catalog.pg_try_advisory_lock(TG_RELID::integer, 0) THEN
    IF NOT pg_catalog.pg_try_advisory_lock(TG_RELID::integer, -2) THEN
      unheard := true;
    ELSE
      unheard := pg_catalog.pg_try_advisory_lock('holdfast.fleet'::pg_catalog.regclass::pg_catalog.oid::integer, 0)
        AND pg_catalog.pg_advisory_unlock('holdfast.fleet'::pg_catalog.regclass::pg_catalog.oid::integer, 0);
      PERFORM pg_catalog.pg_advisory_unlock(TG_RELID::integer, -2);
    END IF;
    PERFORM pg_catalog.pg_advisory_unlock(TG_RELID::integer, 0);
    IF unheard THEN
      RETURN NULL;
    END IF;
  END IF;
  -- Off for two-phase commits, which Postgres refuses after a notification. And a full queue of
  -- notifications would fail the commit.
  IF (pg_catalog.current_setting('holdfast.notify', true) OPERATOR(pg_catalog.=) 'off') IS TRUE
    OR pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.>) 0.5 THEN
    RETURN NULL;
  END IF;
  IF TG_ARGV[0] OPERATOR(pg_catalog.=) 'key' THEN
    SELECT pg_catalog.min(a.available_at), pg_catalog.concat(':',
      CASE WHEN pg_catalog.count(*) OPERATOR(pg_catalog.>) 100 THEN '*'
        ELSE pg_catalog.string_agg(DISTINCT a.partition_bucket::pg_catalog.text, ',') END)
    INTO due, hint FROM added AS a;
  ELSE
    SELECT pg_catalog.min(a.available_at), pg_catalog.concat(':',
      CASE WHEN pg_catalog.count(DISTINCT a.type) OPERATOR(pg_catalog.>) 20 THEN '*'
        ELSE pg_catalog.string_agg(DISTINCT a.type, ',') END)
    INTO due, hint FROM added AS a;
  END IF;
  -- What is due later is found by the polls.
  IF due OPERATOR(pg_catalog.<) (pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) interval '60 seconds') THEN
    PERFORM pg_catalog.pg_notify(pg_catalog.concat('holdfast_', TG_RELID),
      pg_catalog.concat(pg_catalog.floor(pg_catalog.date_part('epoch', due) OPERATOR(pg_catalog.*) 10::double precision)::bigint, hint));
  END IF;
  RETURN NULL;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_wake_signalled(most integer)
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  run record;
  found_now integer := 0;
BEGIN
  FOR run IN
    SELECT s.run_id AS id, array_agg(s.id) AS signals, array_agg(s.name) AS names
    FROM (SELECT f.run_id, f.id, f.name FROM holdfast.inbox_signals AS f WHERE NOT f.seen ORDER BY f.id LIMIT most) AS s
    GROUP BY s.run_id
    ORDER BY s.run_id
  LOOP
    PERFORM holdfast.wake_run('inbox', run.id, run.names);
    UPDATE holdfast.inbox_signals AS s SET seen = true WHERE s.run_id = run.id AND s.id = ANY (run.signals);
    found_now := found_now + cardinality(run.signals);
  END LOOP;
  RETURN found_now;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_work(the_worker text, the_most integer, the_lease_ms integer, the_handled jsonb, the_others bigint, the_place jsonb)
 RETURNS TABLE(id uuid, type text, version integer, payload jsonb, headers jsonb, partition_key text, generation bigint, attempt integer, max_attempts integer, priority integer, crashes integer, created_at timestamp with time zone, lease_expires_at timestamp with time zone)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
DECLARE
  queue holdfast.queues;
  mine  record;
  got   record;
  jobs  uuid[];
BEGIN
  SELECT q.* INTO queue FROM holdfast.queues AS q WHERE q.name = 'inbox';
  SELECT h.* INTO mine FROM holdfast.inbox_worker_holds(the_worker) AS h;
  IF queue.paused OR mine.alone THEN
    RETURN;
  END IF;
  SELECT s.* INTO got
  FROM holdfast.inbox_work_suspects(the_worker, the_lease_ms, the_most, the_handled, mine.held + the_others > 0) AS s;
  jobs := got.jobs;
  IF NOT got.ends AND cardinality(jobs) < the_most THEN
    jobs := jobs || holdfast.inbox_work_ordered(the_worker, the_lease_ms, mine.finished, the_most - cardinality(jobs), the_handled,
      queue.ordering, queue.age_after, the_place);
  END IF;
  -- It starts what it got: what crashed a worker before is to blame for the next crash.
  UPDATE holdfast.inbox AS i SET started = true WHERE i.id = ANY (jobs) AND i.crashes > 0;
  RETURN QUERY
  SELECT i.* FROM unnest(jobs) WITH ORDINALITY AS j(id, nth)
  CROSS JOIN LATERAL (
    SELECT i.id, i.type, i.version::integer, i.payload, i.headers, i.partition_key, i.lease_generation, i.attempts,
      i.max_attempts::integer, i.priority::integer, i.crashes, i.created_at, i.lease_expires_at
    FROM holdfast.inbox AS i WHERE i.id = j.id LIMIT 1
  ) AS i
  ORDER BY j.nth;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_work_keys(the_worker text, the_lease_ms integer, the_finished bigint[], the_most integer, the_handled jsonb, INOUT place jsonb, OUT jobs uuid[])
 RETURNS record
 LANGUAGE plpgsql
AS $function$
DECLARE
  start     integer;
  froms     integer[];
  afters    text[];
  untils    integer[];
  until_keys text[];
  one       record;
BEGIN
  jobs := '{}';
  start := coalesce((place ->> 0)::integer, floor(random() * 1024)::integer);
  froms := ARRAY[start, 0];
  afters := ARRAY[coalesce(place ->> 1, ''), ''];
  untils := ARRAY[1024, start];
  -- Up to and with the key behind which it begins.
  until_keys := ARRAY['', coalesce(place ->> 1 || chr(1), '')];
  FOR step IN 1 .. 10 LOOP
    SELECT array_agg(c.id ORDER BY c.partition_bucket, c.partition_key COLLATE "C", c.cursor_position)
        FILTER (WHERE c.id IS NOT NULL) AS ids,
      max(c.stop_stretch) AS stretch, max(c.stop_bucket) AS bucket, max(c.stop_key) AS behind
    INTO one
    FROM holdfast.inbox_verb_claim_keyed(the_worker, the_lease_ms, nextval('holdfast.inbox_position_seq'), the_finished,
      the_most - cardinality(jobs), NULL, ARRAY(SELECT jsonb_object_keys(the_handled)), the_handled, froms, afters, untils,
      until_keys, 1, 1000, false, 0) AS c;
    jobs := jobs || coalesce(one.ids, '{}');
    IF one.behind IS NULL OR one.stretch > cardinality(froms) THEN
      place := NULL;
      RETURN;
    END IF;
    froms := array_prepend(one.bucket, froms[one.stretch + 1 :]);
    afters := array_prepend(one.behind, afters[one.stretch + 1 :]);
    untils := untils[one.stretch :];
    until_keys := until_keys[one.stretch :];
    place := jsonb_build_array(one.bucket, one.behind);
    EXIT WHEN cardinality(jobs) >= the_most;
    the_finished := '{}';
  END LOOP;
  IF cardinality(jobs) >= the_most THEN
    place := NULL;
  END IF;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_work_ordered(the_worker text, the_lease_ms integer, the_finished bigint[], the_most integer, the_handled jsonb, the_ordering holdfast.ordering, the_age interval, the_place jsonb)
 RETURNS uuid[]
 LANGUAGE plpgsql
AS $function$
DECLARE
  jobs  uuid[] := '{}';
  more  uuid[];
  place jsonb := the_place;
  -- Half of the claims begin with the keys of rates, so that neither waits for the other.
  first boolean := random() < 0.5;
BEGIN
  IF the_ordering = 'turns' THEN
    SELECT t.jobs, t.place INTO jobs, place
    FROM holdfast.inbox_work_turns(the_worker, the_lease_ms, the_finished, the_most, the_handled, the_place) AS t;
  ELSIF the_ordering <> 'none' THEN
    SELECT k.jobs, k.place INTO jobs, place
    FROM holdfast.inbox_work_keys(the_worker, the_lease_ms, the_finished, the_most, the_handled, the_place) AS k;
  ELSE
    IF first THEN
      SELECT r.jobs, r.place INTO jobs, place
      FROM holdfast.inbox_work_rates(the_worker, the_lease_ms, '{}', the_most, the_handled, the_place) AS r;
    END IF;
    IF the_age IS NOT NULL AND random() < 0.25 AND cardinality(jobs) < the_most THEN
      jobs := jobs || holdfast.inbox_work_time(the_worker, the_lease_ms, '{}', the_most - cardinality(jobs), the_handled, true);
    END IF;
    IF cardinality(jobs) < the_most THEN
      jobs := jobs || holdfast.inbox_work_time(the_worker, the_lease_ms, the_finished, the_most - cardinality(jobs), the_handled, false);
    END IF;
    IF NOT first AND cardinality(jobs) < the_most THEN
      SELECT r.jobs, r.place INTO more, place
      FROM holdfast.inbox_work_rates(the_worker, the_lease_ms, '{}', the_most - cardinality(jobs), the_handled, the_place) AS r;
      jobs := jobs || more;
    END IF;
  END IF;
  IF place IS DISTINCT FROM the_place THEN
    UPDATE holdfast.workers AS w SET metadata = jsonb_set(w.metadata, '{places}',
      coalesce(w.metadata -> 'places', '{}') || jsonb_build_object('inbox', place))
    WHERE w.id = the_worker;
  END IF;
  RETURN jobs;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_work_rates(the_worker text, the_lease_ms integer, the_finished bigint[], the_most integer, the_handled jsonb, INOUT place jsonb, OUT jobs uuid[])
 RETURNS record
 LANGUAGE plpgsql
AS $function$
DECLARE
  one record;
BEGIN
  jobs := '{}';
  IF NOT EXISTS (SELECT FROM jsonb_object_keys(the_handled) AS t(type) CROSS JOIN LATERAL (
    SELECT FROM holdfast.inbox AS i WHERE i.type COLLATE "C" = t.type AND i.limit_key IS NOT NULL AND i.crashes < 2 LIMIT 1) AS i) THEN
    place := NULL;
    RETURN;
  END IF;
  place := (SELECT jsonb_object_agg(t.type, coalesce(place ->> t.type, '')) FROM jsonb_object_keys(the_handled) AS t(type));
  FOR step IN 1 .. 10 LOOP
    SELECT array_agg(c.id ORDER BY coalesce(c.priority, 2), c.cursor_at, c.cursor_position) FILTER (WHERE c.id IS NOT NULL) AS ids,
      (array_agg(c.walked) FILTER (WHERE c.walked IS NOT NULL))[1] AS walked
    INTO one
    FROM holdfast.inbox_verb_claim_rated(the_worker, the_lease_ms, nextval('holdfast.inbox_position_seq'), the_finished,
      the_most - cardinality(jobs), NULL, ARRAY(SELECT p.key FROM jsonb_each_text(place) AS p ORDER BY p.key),
      ARRAY(SELECT (the_handled ->> p.key)::integer FROM jsonb_each_text(place) AS p ORDER BY p.key),
      ARRAY(SELECT p.value FROM jsonb_each_text(place) AS p ORDER BY p.key), 1000) AS c;
    jobs := jobs || coalesce(one.ids, '{}');
    place := (SELECT jsonb_object_agg(w.key, w.value) FROM jsonb_each_text(one.walked) AS w WHERE w.value <> '');
    EXIT WHEN place IS NULL OR cardinality(jobs) >= the_most;
    the_finished := '{}';
  END LOOP;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_work_suspects(the_worker text, the_lease_ms integer, the_most integer, the_handled jsonb, is_busy boolean, OUT jobs uuid[], OUT ends boolean)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
DECLARE
  one  record;
BEGIN
  jobs := '{}';
  ends := false;
  SELECT count(*) AS due, count(*) FILTER (WHERE s.crashes >= 4) AS alone INTO one
  FROM (SELECT s.crashes FROM holdfast.inbox AS s
    WHERE s.crashes > 1 AND s.status = 'pending' AND s.available_at <= now() AND the_handled ? s.type LIMIT 1000) AS s;
  IF one.due = 0 THEN
    RETURN;
  ELSIF is_busy AND one.alone > 0 AND holdfast.inbox_worker_drains(the_worker) THEN
    ends := true;
    RETURN;
  ELSIF is_busy AND one.alone > 0 AND EXISTS (SELECT FROM holdfast.inbox AS s WHERE s.crashes >= 4 AND s.crashes > 1
    AND s.status = 'pending' AND greatest(s.available_at, (s.history -> -1 ->> 'at')::timestamptz) > now() - interval '30 seconds') THEN
    -- A worker that holds nothing takes it.
    RETURN;
  END IF;
  SELECT coalesce(array_agg(c.id) FILTER (WHERE c.id IS NOT NULL), '{}'), coalesce(bool_or(c.crashes >= 4), false)
  INTO jobs, ends
  FROM holdfast.inbox_verb_claim_suspects(the_worker, the_lease_ms, nextval('holdfast.inbox_position_seq'), '{}', the_most,
    NULL, ARRAY(SELECT jsonb_object_keys(the_handled)), the_handled, 1997666272) AS c;
  IF ends AND is_busy THEN
    -- It has waited for long enough: it runs beside others, and a crash spends no attempt.
    UPDATE holdfast.inbox AS i SET isolated = false WHERE i.id = ANY (jobs) AND i.isolated;
    ends := false;
  END IF;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_work_time(the_worker text, the_lease_ms integer, the_finished bigint[], the_most integer, the_handled jsonb, is_aged boolean)
 RETURNS uuid[]
 LANGUAGE plpgsql
AS $function$
DECLARE
  jobs       uuid[] := '{}';
  types      text[];
  versions   integer[];
  priorities smallint[];
  ats        timestamptz[];
  positions  bigint[];
  line_rows  integer[];
  one        record;
BEGIN
  SELECT array_agg(t.key), array_agg(v.version), array_agg(p.priority::smallint), array_agg('-infinity'::timestamptz),
    array_agg(0), array_agg(the_most + 32)
  INTO types, versions, priorities, ats, positions, line_rows
  FROM jsonb_each_text(the_handled) AS t CROSS JOIN LATERAL generate_series(1, t.value::integer) AS v(version)
  CROSS JOIN generate_series(1, 4) AS p(priority);
  FOR step IN 1 .. 20 LOOP
    SELECT array_agg(c.id ORDER BY CASE WHEN is_aged THEN 0 ELSE coalesce(c.priority, 2) END, c.cursor_at, c.cursor_position)
        FILTER (WHERE c.id IS NOT NULL) AS ids,
      max(c.cut_line) AS line, max(c.cut_at) AS at, max(c.cut_position) AS place,
      coalesce((array_agg(c.refused) FILTER (WHERE c.refused IS NOT NULL))[1], '{}') AS refused
    INTO one
    FROM holdfast.inbox_claim(the_worker, the_lease_ms, nextval('holdfast.inbox_position_seq'), the_finished,
      the_most - cardinality(jobs), NULL, types, versions, priorities, ats, positions, line_rows, is_aged, 0, false) AS c;
    jobs := jobs || coalesce(one.ids, '{}');
    EXIT WHEN one.line IS NULL OR cardinality(jobs) >= the_most;
    the_finished := '{}';
    ats[one.line] := one.at;
    positions[one.line] := one.place;
    line_rows[one.line] := least(1000, 2 * line_rows[one.line]);
    -- No limit allows more of these now.
    ats := ARRAY(SELECT CASE WHEN one.refused ? l.type THEN 'infinity' ELSE l.at END
      FROM unnest(types, ats) WITH ORDINALITY AS l(type, at, nth) ORDER BY l.nth);
  END LOOP;
  RETURN jobs;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_work_turns(the_worker text, the_lease_ms integer, the_finished bigint[], the_most integer, the_handled jsonb, INOUT place jsonb, OUT jobs uuid[])
 RETURNS record
 LANGUAGE plpgsql
AS $function$
DECLARE
  start  integer;
  froms  integer[];
  afters text[];
  untils integer[];
  one    record;
BEGIN
  jobs := '{}';
  start := coalesce((place ->> 0)::integer, floor(random() * 1024)::integer);
  froms := ARRAY[start, 0];
  afters := ARRAY[coalesce(place ->> 1, ''), ''];
  untils := ARRAY[1024, start];
  FOR step IN 1 .. 10 LOOP
    SELECT array_agg(c.id ORDER BY c.turn, c.cursor_at, c.cursor_position) FILTER (WHERE c.id IS NOT NULL) AS ids,
      max(c.stop_stretch) AS stretch, max(c.stop_bucket) AS bucket, max(c.stop_key) AS behind
    INTO one
    FROM holdfast.inbox_verb_claim_turns(the_worker, the_lease_ms, nextval('holdfast.inbox_position_seq'), the_finished,
      the_most - cardinality(jobs), NULL, ARRAY(SELECT jsonb_object_keys(the_handled)), the_handled, froms, afters, untils,
      step = 1 AND place IS NULL, 0, 1000, false) AS c;
    jobs := jobs || coalesce(one.ids, '{}');
    IF one.behind IS NULL OR one.stretch > cardinality(froms) THEN
      place := NULL;
      RETURN;
    END IF;
    froms := array_prepend(one.bucket, froms[one.stretch + 1 :]);
    afters := array_prepend(one.behind, afters[one.stretch + 1 :]);
    untils := untils[one.stretch :];
    place := jsonb_build_array(one.bucket, one.behind);
    EXIT WHEN cardinality(jobs) >= the_most;
    the_finished := '{}';
  END LOOP;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_worker_drains(the_worker text)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
BEGIN
  RETURN EXISTS (SELECT FROM holdfast.inbox AS s
      WHERE s.crashes >= 4 AND s.crashes > 1 AND s.status = 'pending'
        AND greatest(s.available_at, (s.history -> -1 ->> 'at')::timestamptz) BETWEEN now() - interval '30 seconds' AND now())
    AND the_worker = (
      SELECT min(w.id) FROM holdfast.workers AS w WHERE w.status = 'alive' AND w.handles ? 'inbox'
      HAVING bool_and((w.metadata ? 'sqlProtocol') IS TRUE));
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_worker_holds(the_worker text, OUT held bigint, OUT alone boolean, OUT finished bigint[])
 RETURNS record
 LANGUAGE plpgsql
AS $function$
BEGIN
  SELECT coalesce(sum(n.held), 0), coalesce(bool_or(n.alone), false), coalesce(array_agg(n.number) FILTER (WHERE n.held = 0), '{}')
  INTO held, alone, finished
  FROM (
    SELECT c.number, count(i.id) AS held, bool_or(i.isolated) AS alone
    FROM holdfast.inbox_claims AS c
    CROSS JOIN LATERAL unnest(c.jobs) AS j(id)
    -- One row for each, so it cannot be planned as a join that reads the whole queue.
    LEFT JOIN LATERAL (
      SELECT i.id, i.isolated FROM holdfast.inbox AS i
      WHERE i.id = j.id AND i.claimed_by = c.worker_id AND i.status = 'processing' LIMIT 1
    ) AS i ON true
    WHERE c.worker_id = the_worker
    GROUP BY c.number
  ) AS n;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_worker_maintain(the_worker text, the_ttl_ms integer, may_sweep boolean)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
DECLARE
  pages record;
  back  record;
BEGIN
  -- What waits, where a queue has a limit. It is counted about once a second in the whole fleet.
  PERFORM holdfast.inbox_count_waiting();
  IF EXISTS (SELECT FROM holdfast.queues AS q WHERE q.name = 'inbox' AND (q.maintained_at > clock_timestamp() - interval '25 seconds'
      OR (q.serviced_at ->> 'protocol')::timestamptz > clock_timestamp() - least(10000, the_ttl_ms / 3) * interval '1 millisecond'))
    OR NOT pg_try_advisory_xact_lock(1997666273, 'holdfast.inbox'::regclass::oid::integer) THEN
    RETURN;
  END IF;
  UPDATE holdfast.queues AS q SET serviced_at = q.serviced_at || jsonb_build_object('protocol', clock_timestamp()) WHERE q.name = 'inbox';
  IF may_sweep THEN
    PERFORM holdfast.inbox_verb_sweep_workers(the_ttl_ms, the_worker);
  END IF;
  SELECT p.page, p.page_after INTO pages FROM holdfast.inbox_verb_take_pages(2000) AS p;
  SELECT min(r.run_at) FILTER (WHERE r.status = 'pending') AS since INTO back
  FROM holdfast.inbox_verb_recover(1000, the_worker, holdfast.lock_number(concat('hold', 'fast.liveness.', (SELECT n.nspname FROM pg_class AS c
    JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = 'holdfast.workers'::regclass))), format('(%s,0)', pages.page), format('(%s,0)', pages.page_after),
    '{}') AS r;
  IF back.since IS NOT NULL THEN
    PERFORM holdfast.inbox_verb_notify_queue(back.since::text, '*', 'holdfast.notify');
  END IF;
  PERFORM holdfast.inbox_verb_clear_blameless(1000, 2000);
  PERFORM holdfast.inbox_verb_forget_claims();
  PERFORM holdfast.inbox_verb_forget_workers();
  -- Whole segments of the archive that are past the retention.
  PERFORM holdfast.inbox_prune_archive();
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_worker_release(the_worker text)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
DECLARE
  ids    uuid[];
  fences bigint[];
  one    record;
BEGIN
  SELECT array_agg(i.id ORDER BY i.id), array_agg(i.lease_generation ORDER BY i.id) INTO ids, fences
  FROM (SELECT DISTINCT j.id FROM holdfast.inbox_claims AS c CROSS JOIN LATERAL unnest(c.jobs) AS j(id)
    WHERE c.worker_id = the_worker) AS j
  CROSS JOIN LATERAL (SELECT i.id, i.lease_generation FROM holdfast.inbox AS i
    WHERE i.id = j.id AND i.claimed_by = the_worker AND i.status = 'processing' LIMIT 1) AS i;
  SELECT count(*) AS released, min(r.run_at) AS woken INTO one FROM holdfast.inbox_verb_release(the_worker, ids, fences) AS r;
  IF one.released > 0 THEN
    PERFORM holdfast.inbox_verb_notify_queue(one.woken::text, '*', 'holdfast.notify');
  END IF;
  RETURN one.released;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.inbox_worker_settle(the_verb text, the_worker text, the_id uuid, the_generation bigint, said text, delay_ms bigint)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
DECLARE
  ids    CONSTANT uuid[] := ARRAY[the_id];
  fences CONSTANT bigint[] := ARRAY[the_generation];
  one    record;
  error  text := holdfast.cut_text(said, 8192);
  facts  text;
BEGIN
  IF the_verb = 'fail' AND delay_ms IS NULL THEN
    delay_ms := floor(random() * least(3600000, 1000 * 2 ^ least(32, (
      SELECT i.attempts FROM holdfast.inbox AS i WHERE i.id = the_id))));
  END IF;
  facts := jsonb_build_object(the_id, jsonb_build_object('delay', coalesce(delay_ms, 0), 'reason', error,
    'summary', CASE WHEN length(split_part(error, chr(10), 1)) > 300
      THEN left(error, 297) || '...' ELSE split_part(error, chr(10), 1) END));
  CASE the_verb
    WHEN 'complete' THEN
      SELECT 'completed' AS state, NULL::timestamptz AS woken INTO one
      FROM holdfast.inbox_verb_complete(the_worker, ids, fences,
        CASE WHEN said IS NOT NULL THEN jsonb_build_object(the_id, said::jsonb)::text END) AS m WHERE m.moved = 1;
    WHEN 'fail' THEN
      SELECT f.status::text AS state, f.woken_at AS woken, f.partition_bucket AS bucket, f.untold INTO one
      FROM holdfast.inbox_verb_fail(the_worker, ids, fences, facts, jsonb_build_object(the_id, error)::text) AS f;
      PERFORM holdfast.warn_untold(the_id, one.untold);
    WHEN 'dead_letter' THEN
      SELECT d.status::text AS state, NULL::timestamptz AS woken, d.untold INTO one
      FROM holdfast.inbox_verb_dead_letter(the_worker, ids, fences, facts, jsonb_build_object(the_id, error)::text) AS d;
      PERFORM holdfast.warn_untold(the_id, one.untold);
    WHEN 'release' THEN
      SELECT 'pending' AS state, r.run_at AS woken, r.partition_bucket AS bucket INTO one
      FROM holdfast.inbox_verb_release(the_worker, ids, fences) AS r;
    WHEN 'snooze' THEN
      SELECT 'pending' AS state, s.woken_at AS woken, s.partition_bucket AS bucket INTO one
      FROM holdfast.inbox_verb_snooze(the_worker, ids, fences, facts) AS s;
    WHEN 'cancel' THEN
      SELECT 'cancelled' AS state, NULL::timestamptz AS woken INTO one
      FROM holdfast.inbox_verb_cancel_own(the_worker, ids, fences, facts) AS c;
  END CASE;
  IF one.woken IS NOT NULL THEN
    -- Cursors of others have passed it.
    PERFORM holdfast.inbox_verb_notify_queue(one.woken::text, one.bucket::text, 'holdfast.notify');
  END IF;
  RETURN coalesce(one.state, 'lost');
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.keep_young()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  IF OLD.completed_at < now() - (SELECT q.archive_retention FROM holdfast.queues AS q WHERE q.name = TG_ARGV[0]) THEN
    RETURN OLD;
  END IF;
  RETURN NULL;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.limits_changed()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  UPDATE holdfast.queues AS q SET limits_version = q.limits_version + 1
  WHERE q.name = CASE TG_OP WHEN 'DELETE' THEN OLD.queue ELSE NEW.queue END;
  UPDATE holdfast.fleet SET epoch = epoch + 1;
  PERFORM pg_notify('holdfast_fleet', TG_TABLE_SCHEMA);
  RETURN NULL;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.lock_number(key text)
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE STRICT
AS $function$SELECT ((holdfast.hash32(key) + 2147483648) % 4294967296 - 2147483648)::integer$function$;

CREATE OR REPLACE FUNCTION holdfast.prune_audit(most integer)
 RETURNS bigint
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  pruned bigint;
BEGIN
  DELETE FROM holdfast.audit AS a
  WHERE a.id = ANY (ARRAY(
    SELECT old.id FROM holdfast.audit AS old
    -- What is younger than the shortest retention is not even read.
    WHERE old.at < now() - (SELECT min(q.audit_retention) FROM holdfast.queues AS q)
      AND old.at < now() - coalesce(
        (SELECT q.audit_retention FROM holdfast.queues AS q WHERE q.name = old.queue),
        (SELECT max(q.audit_retention) FROM holdfast.queues AS q))
    ORDER BY old.at
    LIMIT most));
  GET DIAGNOSTICS pruned = ROW_COUNT;
  RETURN pruned;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.queue_ordered()
 RETURNS trigger
 LANGUAGE plpgsql
 SET lock_timeout TO '2s'
AS $function$
DECLARE
  busy   boolean;
  silent boolean;
BEGIN
  IF TG_OP = 'UPDATE' THEN
    EXECUTE format('LOCK TABLE %I.%I IN ACCESS EXCLUSIVE MODE', TG_TABLE_SCHEMA, NEW.name);
    EXECUTE format('SELECT EXISTS (SELECT FROM %I.%I)', TG_TABLE_SCHEMA, NEW.name) INTO busy;
    IF busy THEN
      RAISE EXCEPTION 'queue % holds jobs: its order was not changed', quote_literal(NEW.name)
        USING ERRCODE = 'HF005', HINT = 'Make another queue, or change the order while this one is empty.';
    END IF;
    EXECUTE format('DROP INDEX IF EXISTS %1$I.%2$I, %1$I.%3$I, %1$I.%4$I', TG_TABLE_SCHEMA, NEW.name || '_claim_idx',
      NEW.name || '_line_idx', NEW.name || '_rate_idx');
    SELECT t.tgenabled = 'D' INTO silent FROM pg_trigger AS t
    WHERE t.tgname = 'wake' AND t.tgrelid = format('%I.%I', TG_TABLE_SCHEMA, NEW.name)::regclass;
  END IF;
  EXECUTE format(CASE NEW.ordering
      -- A line for each type, version and priority (a hash of the first two is half as dear to write), oldest first, so that jobs that may not be taken are not read for the
      -- others. Jobs with a key of a rate have a line for each key. Dead letters lie at the far end of a line, at
      -- infinity; suspects are elsewhere.
      WHEN 'none' THEN 'CREATE INDEX %4$I ON %1$I.%2$I (hashtextextended(type, version), priority, available_at, position) '
        'WHERE crashes < 2 AND limit_key IS NULL; '
        'CREATE INDEX %5$I ON %1$I.%2$I (type COLLATE "C", limit_key COLLATE "C", priority, available_at, position) '
        'WHERE crashes < 2 AND limit_key IS NOT NULL'
      -- The jobs of a key as they become due, so that nothing that waits stands before one that is due. The keys
      -- of a group stand together: a full group is passed in one step.
      WHEN 'turns' THEN 'CREATE INDEX %3$I ON %1$I.%2$I (partition_bucket, coalesce(group_key, '''') COLLATE "C", '
        'partition_key COLLATE "C", available_at, position) WHERE NOT parked AND crashes < 2'
      -- The jobs of a key in their order. A claim steps from key to key and reads the head of each.
      ELSE 'CREATE INDEX %3$I ON %1$I.%2$I (partition_bucket, partition_key COLLATE "C", position) WHERE NOT parked'
    END, TG_TABLE_SCHEMA, NEW.name, NEW.name || '_claim_idx', NEW.name || '_line_idx', NEW.name || '_rate_idx');
  EXECUTE format('CREATE OR REPLACE TRIGGER wake AFTER INSERT ON %1$I.%2$I REFERENCING NEW TABLE AS added '
    'FOR EACH STATEMENT EXECUTE FUNCTION %1$I.%3$I(%4$L)', TG_TABLE_SCHEMA, NEW.name, NEW.name || '_wake',
    CASE NEW.ordering WHEN 'none' THEN 'time' ELSE 'key' END);
  -- A trigger that was made anew is on.
  IF silent THEN
    EXECUTE format('ALTER TABLE %I.%I DISABLE TRIGGER wake', TG_TABLE_SCHEMA, NEW.name);
  END IF;
  RETURN NULL;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.reject_stale_fence()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  IF NEW.fence_token < OLD.fence_token THEN
    RAISE EXCEPTION 'fence token % is older than the stored token %: the write was refused',
      NEW.fence_token, OLD.fence_token
      USING ERRCODE = 'HF001',
            HINT = 'A newer claim of the same job has already written this row; this attempt is stale.';
  END IF;
  RETURN NEW;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.schedules_changed()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
DECLARE
  due timestamptz;
BEGIN
  IF current_setting('holdfast.notify', true) = 'off' OR pg_notification_queue_usage() > 0.5 THEN
    RETURN NULL;
  END IF;
  IF TG_LEVEL = 'ROW' THEN
    due := NEW.next_at;
  ELSE
    SELECT min(a.next_at) INTO due FROM added AS a WHERE NOT a.paused;
  END IF;
  IF due IS NOT NULL THEN
    PERFORM pg_notify('holdfast_fleet',
      concat(TG_TABLE_SCHEMA, ' schedules ', floor(extract(epoch FROM due) * 1000)::bigint));
  END IF;
  RETURN NULL;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.state_fits(status holdfast.inbox_status, parked boolean, attempts integer, lease_generation bigint, available_at timestamp with time zone, claimed_by text, claimed_at timestamp with time zone, lease_expires_at timestamp with time zone, completed_at timestamp with time zone)
 RETURNS boolean
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE
AS $function$
BEGIN
  RETURN completed_at IS NULL AND attempts OPERATOR(pg_catalog.>=) 0 AND CASE
    WHEN status OPERATOR(pg_catalog.=) 'pending' THEN
      claimed_by IS NULL AND lease_expires_at IS NULL
      AND available_at OPERATOR(pg_catalog.<) 'infinity' AND NOT parked
    WHEN status OPERATOR(pg_catalog.=) 'processing' THEN
      claimed_by IS NOT NULL AND lease_expires_at IS NOT NULL
      AND lease_generation OPERATOR(pg_catalog.>) 0
      AND available_at OPERATOR(pg_catalog.<) 'infinity' AND NOT parked
    WHEN status OPERATOR(pg_catalog.=) 'dead_letter' THEN
      claimed_by IS NULL AND claimed_at IS NULL AND lease_expires_at IS NULL
      AND available_at OPERATOR(pg_catalog.=) 'infinity'
    ELSE false
  END;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.wake_run(of_queue text, run uuid, sent text[] DEFAULT NULL::text[])
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  wanted boolean := true;
  bucket integer;
BEGIN
  EXECUTE format('SELECT 1 FROM holdfast.%I AS i WHERE i.id = %L FOR UPDATE', of_queue, run);
  IF sent IS NOT NULL THEN
    EXECUTE format('SELECT EXISTS (SELECT FROM holdfast.%I AS s
      WHERE s.run_id = %L AND s.kind = ''w'' AND s.place IS NULL AND s.value ?| %L)', of_queue || '_steps', run, sent)
    INTO wanted;
    IF NOT wanted THEN
      RETURN false;
    END IF;
  END IF;
  -- With a fresh snapshot: what was waited for may have changed it.
  EXECUTE format('UPDATE holdfast.%I AS i SET available_at = clock_timestamp(), wait_until = NULL
    WHERE i.id = %L AND i.status = ''pending'' AND i.wait_until = i.available_at RETURNING i.partition_bucket', of_queue, run)
  INTO bucket;
  IF bucket IS NULL THEN
    RETURN false;
  END IF;
    IF current_setting('holdfast.notify', true) IS DISTINCT FROM 'off' AND pg_notification_queue_usage() < 0.5 THEN
      PERFORM pg_notify(concat('holdfast_', format('holdfast.%I', of_queue)::regclass::oid),
        concat(floor(date_part('epoch', clock_timestamp()) * 10)::bigint, ':', bucket));
    END IF;
  RETURN true;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.warn_untold(job uuid, why text)
 RETURNS void
 LANGUAGE plpgsql
 STRICT
AS $function$
BEGIN
  RAISE WARNING 'the dead letter % was written without its onDeadLetter job: %', job, why;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.worker_cancel(worker text, job uuid, generation bigint, reason text, queue text DEFAULT NULL::text)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
BEGIN
  RETURN holdfast.worker_settle('cancel', worker, job, generation, queue, reason, 0);
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.worker_claim(worker text, queue text DEFAULT 'inbox'::text, most integer DEFAULT 1, lease interval DEFAULT '00:01:30'::interval, types text[] DEFAULT NULL::text[])
 RETURNS TABLE(id uuid, type text, version integer, payload jsonb, headers jsonb, partition_key text, generation bigint, attempt integer, max_attempts integer, priority integer, crashes integer, created_at timestamp with time zone, lease_expires_at timestamp with time zone)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
#variable_conflict use_variable
DECLARE
  me      record;
  other   text;
  it      record;
  handled jsonb;
  others  bigint := 0;
BEGIN
  SELECT w.status, w.handles, nullif(w.metadata -> 'places' -> queue, 'null') AS place INTO me
  FROM holdfast.workers AS w WHERE w.id = worker AND w.metadata ? 'sqlProtocol';
  IF NOT FOUND OR me.status = 'dead' THEN
    RAISE EXCEPTION 'the worker % is dead or was never registered: it claims nothing, and what it held is lost', quote_nullable(worker)
      USING ERRCODE = 'HF008', HINT = 'Call worker_register() again, and go on under the new id.';
  ELSIF me.handles -> queue IS NULL OR NOT EXISTS (SELECT FROM holdfast.queues AS q WHERE q.name = queue) THEN
    RAISE EXCEPTION 'the worker % does not serve queue %: nothing was claimed', worker, quote_nullable(queue)
      USING ERRCODE = 'HF002', HINT = 'Name the queue in worker_register().';
  ELSIF most IS NULL OR most NOT BETWEEN 1 AND 1000 OR lease IS NULL OR lease < '1 second' OR lease > '1 day' THEN
    RAISE EXCEPTION 'most or lease is out of range: nothing was claimed'
      USING ERRCODE = 'HF002', HINT = 'Give 1 to 1000 jobs, and a lease of 1 second to 1 day.';
  END IF;
  SELECT jsonb_object_agg(h.key, h.value) INTO handled FROM jsonb_each(me.handles -> queue) AS h
  WHERE (h.key = ANY (types)) IS NOT FALSE;
  IF me.status <> 'alive' OR handled IS NULL THEN
    RETURN;
  END IF;
  -- What runs alone runs alone in its process, whatever the queue is.
  FOR other IN SELECT q.name FROM jsonb_object_keys(me.handles) AS h(name) JOIN holdfast.queues AS q ON q.name = h.name
    WHERE h.name <> queue ORDER BY 1
  LOOP
    EXECUTE format('SELECT h.held, h.alone FROM holdfast.%I(%L) AS h', other || '_worker_holds', worker) INTO it;
    IF it.alone THEN
      RETURN;
    END IF;
    others := others + it.held;
  END LOOP;
  RETURN QUERY EXECUTE format('SELECT * FROM holdfast.%I(%L, %L, %L, %L, %L, %L)', queue || '_work', worker, most,
    ceil(extract(epoch FROM lease) * 1000), handled, others, me.place);
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.worker_complete(worker text, job uuid, generation bigint, result jsonb DEFAULT NULL::jsonb, queue text DEFAULT NULL::text)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
BEGIN
  IF octet_length(result::text) > 8192 THEN
    RAISE WARNING 'the result of job % has % bytes, the limit is 8192: it was not kept', job, octet_length(result::text);
    result := NULL;
  END IF;
  RETURN holdfast.worker_settle('complete', worker, job, generation, queue, nullif(result, 'null')::text, 0);
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.worker_complete_many(worker text, jobs uuid[], generations bigint[], results jsonb DEFAULT NULL::jsonb, queue text DEFAULT 'inbox'::text)
 RETURNS SETOF uuid
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
BEGIN
  IF cardinality(jobs) IS DISTINCT FROM cardinality(generations) THEN
    RAISE EXCEPTION 'jobs and generations differ in length: nothing was completed'
      USING ERRCODE = 'HF002', HINT = 'Give a generation for each job.';
  END IF;
  results := (SELECT jsonb_object_agg(r.key, r.value) FROM jsonb_each(results) AS r
    WHERE r.value <> 'null' AND octet_length(r.value::text) <= 8192);
  -- One row without an id says that all were.
  RETURN QUERY EXECUTE format('SELECT j.id FROM holdfast.%I(%L, %L, %L, %L) AS c CROSS JOIN LATERAL unnest('
      'CASE WHEN c.id IS NOT NULL THEN ARRAY[c.id] WHEN c.moved > 0 THEN %L::uuid[] END) AS j(id)',
    (holdfast.worker_queues(worker, queue))[1] || '_verb_complete', worker, jobs, generations, results, jobs);
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.worker_dead_letter(worker text, job uuid, generation bigint, error text, queue text DEFAULT NULL::text)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
BEGIN
  RETURN holdfast.worker_settle('dead_letter', worker, job, generation, queue, error, 0);
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.worker_fail(worker text, job uuid, generation bigint, error text, retry_in interval DEFAULT NULL::interval, queue text DEFAULT NULL::text)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
BEGIN
  RETURN holdfast.worker_settle('fail', worker, job, generation, queue, error, floor(extract(epoch FROM retry_in) * 1000)::bigint);
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.worker_heartbeat(worker text)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
DECLARE
  me    record;
  queue text;
BEGIN
  -- It may judge others once its own heartbeats have come for a TTL without a gap: otherwise the database was away.
  UPDATE holdfast.workers AS w
  SET last_seen_at = clock_timestamp(), metadata = w.metadata || jsonb_build_object('steadySince',
    CASE WHEN w.last_seen_at < clock_timestamp() - (w.metadata ->> 'ttlMs')::bigint * interval '1 millisecond' THEN clock_timestamp()
      ELSE coalesce((w.metadata ->> 'steadySince')::timestamptz, w.started_at) END)
  WHERE w.id = worker AND w.status <> 'dead' AND w.metadata ? 'sqlProtocol'
  RETURNING w.status, w.handles, (w.metadata ->> 'ttlMs')::integer AS ttl_ms,
    (w.metadata ->> 'steadySince')::timestamptz < clock_timestamp() - (w.metadata ->> 'ttlMs')::bigint * interval '1 millisecond' AS steady INTO me;
  IF NOT FOUND THEN
    RETURN 'dead';
  END IF;
  FOR queue IN SELECT q.name FROM jsonb_object_keys(me.handles) AS h(name) JOIN holdfast.queues AS q ON q.name = h.name ORDER BY 1 LOOP
    -- A heartbeat counts whatever becomes of that.
    BEGIN
      EXECUTE format('SELECT holdfast.%I(%L, %L, %L)', queue || '_worker_maintain', worker, me.ttl_ms, me.steady);
    EXCEPTION WHEN OTHERS THEN
      RAISE WARNING 'a round of maintenance of queue % failed: % (%)', queue, SQLERRM, SQLSTATE;
    END;
  END LOOP;
  RETURN me.status;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.worker_hold(worker text)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
BEGIN
  IF NOT EXISTS (SELECT FROM holdfast.workers AS w WHERE w.id = worker AND w.status <> 'dead' AND w.metadata ? 'sqlProtocol') THEN
    RETURN false;
  END IF;
  PERFORM pg_advisory_lock_shared(holdfast.lock_number(concat('hold', 'fast.liveness.', (SELECT n.nspname FROM pg_class AS c
    JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = 'holdfast.workers'::regclass))), holdfast.lock_number(worker));
  UPDATE holdfast.workers AS w SET holds_liveness_lock = true, last_seen_at = clock_timestamp()
  WHERE w.id = worker AND w.status <> 'dead' AND w.metadata ? 'sqlProtocol';
  RETURN FOUND;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.worker_leave(worker text)
 RETURNS bigint
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
DECLARE
  queue    text;
  back     bigint;
  released bigint := 0;
BEGIN
  FOR queue IN SELECT q.name FROM holdfast.workers AS w CROSS JOIN LATERAL jsonb_object_keys(w.handles) AS h(name)
    JOIN holdfast.queues AS q ON q.name = h.name WHERE w.id = worker AND w.status <> 'dead' AND w.metadata ? 'sqlProtocol' ORDER BY 1
  LOOP
    EXECUTE format('SELECT holdfast.%I(%L)', queue || '_worker_release', worker) INTO back;
    released := released + back;
  END LOOP;
  UPDATE holdfast.workers AS w SET status = 'dead', last_seen_at = now(), left_at = now(), released_all = true
  WHERE w.id = worker AND w.status <> 'dead' AND w.metadata ? 'sqlProtocol';
  RETURN CASE WHEN FOUND THEN released END;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.worker_listen(worker text)
 RETURNS SETOF text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
DECLARE
  queue   text;
  channel text;
BEGIN
  -- By it an insert knows that somebody listens (fleet/wake.sql.ts).
  PERFORM pg_advisory_lock_shared('holdfast.fleet'::regclass::oid::integer, 0);
  FOR queue IN SELECT q.name FROM holdfast.workers AS w CROSS JOIN LATERAL jsonb_object_keys(w.handles) AS h(name)
    JOIN holdfast.queues AS q ON q.name = h.name WHERE w.id = worker AND w.metadata ? 'sqlProtocol' ORDER BY 1
  LOOP
    channel := concat('holdfast_', format('holdfast.%I', queue)::regclass::oid);
    EXECUTE format('LISTEN %I', channel);
    RETURN NEXT channel;
  END LOOP;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.worker_queues(worker text, queue text)
 RETURNS text[]
 LANGUAGE plpgsql
AS $function$
DECLARE
  found text[];
BEGIN
  SELECT array_agg(q.name ORDER BY q.name) INTO found FROM holdfast.queues AS q
  WHERE q.name = coalesce(queue, 'inbox') AND queue IS NOT NULL
    OR queue IS NULL AND q.name IN (SELECT jsonb_object_keys(w.handles) FROM holdfast.workers AS w WHERE w.id = worker);
  IF found IS NULL AND queue IS NOT NULL THEN
    RAISE EXCEPTION 'there is no queue %: nothing was done', quote_literal(queue) USING ERRCODE = 'HF002';
  END IF;
  RETURN coalesce(found, ARRAY['inbox']);
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.worker_register(types text[], queues text[] DEFAULT ARRAY['inbox'::text], versions jsonb DEFAULT '{}'::jsonb, name text DEFAULT 'sql'::text, metadata jsonb DEFAULT '{}'::jsonb, ttl interval DEFAULT '00:00:30'::interval)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
DECLARE
  worker text := concat(name, '-', pg_backend_pid(), '-', left(replace(gen_random_uuid()::text, '-', ''), 12));
  wrong  text;
  mine   jsonb;
BEGIN
  SELECT t.type INTO wrong FROM unnest(types) AS t(type)
  WHERE t.type IS NULL OR t.type !~ '^[A-Za-z][A-Za-z0-9_.:-]{0,99}$' LIMIT 1;
  IF coalesce(cardinality(types), 0) NOT BETWEEN 1 AND 1000 OR FOUND THEN
    RAISE EXCEPTION 'the worker names no job type, or % is none: it was not registered', quote_nullable(wrong)
      USING ERRCODE = 'HF002', HINT = 'Pass the types that it handles, such as ARRAY[''send_receipt''].';
  END IF;
  SELECT u.name INTO wrong FROM unnest(queues) AS u(name) WHERE NOT EXISTS (SELECT FROM holdfast.queues AS q WHERE q.name = u.name) LIMIT 1;
  IF coalesce(cardinality(queues), 0) NOT BETWEEN 1 AND 1000 OR FOUND THEN
    RAISE EXCEPTION 'the worker names no queue, or there is no queue %: it was not registered', quote_nullable(wrong)
      USING ERRCODE = 'HF002', HINT = 'Pass names of queues, such as ARRAY[''inbox''].';
  ELSIF ttl IS NULL OR ttl < '1 second' OR ttl > '1 day' THEN
    RAISE EXCEPTION 'the TTL % is out of range: the worker was not registered', quote_nullable(ttl)
      USING ERRCODE = 'HF002', HINT = 'Give 1 second to 1 day.';
  ELSIF name IS NULL OR name = '' OR length(name) > 100 OR jsonb_typeof(metadata) IS DISTINCT FROM 'object' THEN
    RAISE EXCEPTION 'the name is empty or longer than 100 characters, or the metadata is no object: the worker was not registered'
      USING ERRCODE = 'HF002';
  ELSIF jsonb_typeof(versions) IS DISTINCT FROM 'object'
    OR jsonb_path_exists(versions, '$.* ? (@.type() <> "number" || @ < 1 || @ > 100 || @ != @.floor())') THEN
    RAISE EXCEPTION 'versions must be an object of whole numbers from 1 to 100: the worker was not registered'
      USING ERRCODE = 'HF002', HINT = 'For example {"send_receipt": 2}.';
  END IF;
  SELECT jsonb_object_agg(t.type, coalesce((versions ->> t.type)::integer, 1)) INTO mine FROM unnest(types) AS t(type);
  INSERT INTO holdfast.workers (id, status, last_seen_at, started_at, lock_key, handles, metadata)
  SELECT worker, 'alive', now(), now(), holdfast.lock_number(worker), jsonb_object_agg(u.queue, mine),
    jsonb_build_object('host', coalesce(host(inet_client_addr()), 'local')) || metadata || jsonb_build_object('name', name, 'pid', pg_backend_pid(), 'sqlProtocol', 1,
      'ttlMs', ceil(extract(epoch FROM ttl) * 1000))
  FROM unnest(queues) AS u(queue);
  RETURN worker;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.worker_release(worker text, job uuid, generation bigint, queue text DEFAULT NULL::text)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
BEGIN
  RETURN holdfast.worker_settle('release', worker, job, generation, queue, NULL, 0);
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.worker_renew(worker text, jobs uuid[], generations bigint[], lease interval DEFAULT '00:01:30'::interval, queue text DEFAULT NULL::text)
 RETURNS SETOF uuid
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
DECLARE
  one text;
BEGIN
  IF cardinality(jobs) IS DISTINCT FROM cardinality(generations) OR lease IS NULL OR lease < '1 second' OR lease > '1 day' THEN
    RAISE EXCEPTION 'jobs and generations differ in length, or the lease is out of range: no lease was renewed'
      USING ERRCODE = 'HF002', HINT = 'Give a generation for each job, and a lease of 1 second to 1 day.';
  END IF;
  FOREACH one IN ARRAY holdfast.worker_queues(worker, queue) LOOP
    RETURN QUERY EXECUTE format('SELECT r.id FROM holdfast.%I(%L, %L, %L, %L) AS r', one || '_verb_renew', worker, jobs, generations,
      ceil(extract(epoch FROM lease) * 1000));
  END LOOP;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.worker_settle(verb text, worker text, job uuid, generation bigint, queue text, said text, delay_ms bigint)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
DECLARE
  one   text;
  state text;
BEGIN
  IF delay_ms NOT BETWEEN 0 AND 315360000000 THEN
    RAISE EXCEPTION 'the delay is negative or longer than ten years: nothing was done' USING ERRCODE = 'HF002';
  END IF;
  FOREACH one IN ARRAY holdfast.worker_queues(worker, queue) LOOP
    EXECUTE format('SELECT holdfast.%I(%L, %L, %L, %L, %L, %L)', one || '_worker_settle', verb, worker, job, generation, said, delay_ms)
    INTO state;
    EXIT WHEN state <> 'lost';
  END LOOP;
  RETURN state;
END
$function$;

CREATE OR REPLACE FUNCTION holdfast.worker_snooze(worker text, job uuid, generation bigint, delay interval, queue text DEFAULT NULL::text)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
BEGIN
  RETURN holdfast.worker_settle('snooze', worker, job, generation, queue, NULL, floor(extract(epoch FROM delay) * 1000)::bigint);
END
$function$;

CREATE TABLE holdfast.audit (
  id uuid NOT NULL DEFAULT holdfast.new_id(),
  at timestamp with time zone NOT NULL DEFAULT now(),
  role text NOT NULL DEFAULT SESSION_USER,
  application text NOT NULL DEFAULT current_setting('application_name'::text),
  client inet DEFAULT inet_client_addr(),
  actor text,
  act text NOT NULL,
  queue text,
  jobs bigint,
  filter jsonb,
  changes jsonb,
  reason text,
  CONSTRAINT audit_pkey PRIMARY KEY (id)
);

CREATE TABLE holdfast.event_log (
  xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
  "position" bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  written_at timestamp with time zone NOT NULL DEFAULT clock_timestamp(),
  occurred_at timestamp with time zone NOT NULL DEFAULT clock_timestamp(),
  id uuid NOT NULL,
  version integer NOT NULL DEFAULT 1,
  bucket smallint NOT NULL,
  slice smallint NOT NULL GENERATED ALWAYS AS ((bucket >> 5)) STORED,
  stream text NOT NULL,
  key text NOT NULL,
  type text NOT NULL,
  data jsonb NOT NULL,
  headers jsonb,
  CONSTRAINT event_log_bucket_check CHECK (((bucket >= 0) AND (bucket <= 1023))),
  CONSTRAINT event_log_pkey PRIMARY KEY (stream, slice, "position"),
  CONSTRAINT event_log_version_check CHECK ((version > 0))
) WITH (fillfactor=100, autovacuum_vacuum_insert_scale_factor=0.02, autovacuum_vacuum_insert_threshold=100000);

CREATE TABLE holdfast.fleet (
  one boolean NOT NULL DEFAULT true,
  epoch bigint NOT NULL DEFAULT 1,
  CONSTRAINT fleet_one_check CHECK (one),
  CONSTRAINT fleet_pkey PRIMARY KEY (one)
) WITH (fillfactor=50);

CREATE TABLE holdfast.functions (
  name text NOT NULL,
  checksum text NOT NULL,
  applied_at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT functions_pkey PRIMARY KEY (name)
);

CREATE TABLE holdfast.inbox (
  id uuid NOT NULL DEFAULT holdfast.new_id(),
  "position" bigint NOT NULL DEFAULT nextval('holdfast.inbox_position_seq'::regclass),
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  available_at timestamp with time zone NOT NULL DEFAULT statement_timestamp(),
  partition_bucket holdfast.bucket NOT NULL,
  max_attempts holdfast.positive NOT NULL DEFAULT 5,
  version holdfast.positive NOT NULL DEFAULT 1,
  priority holdfast.priority NOT NULL DEFAULT 2,
  isolated boolean NOT NULL DEFAULT false,
  started boolean NOT NULL DEFAULT false,
  parked boolean NOT NULL,
  crashes integer NOT NULL DEFAULT 0,
  status holdfast.inbox_status NOT NULL DEFAULT 'pending'::holdfast.inbox_status,
  attempts integer NOT NULL DEFAULT 0,
  lease_generation bigint NOT NULL DEFAULT 0,
  claimed_at timestamp with time zone,
  lease_expires_at timestamp with time zone,
  claimed_by text,
  type text NOT NULL,
  partition_key text NOT NULL,
  payload jsonb NOT NULL,
  headers jsonb,
  idempotency_key text,
  completed_at timestamp with time zone,
  last_error text,
  history jsonb,
  group_key text,
  limit_key text,
  limit_slot timestamp with time zone,
  wait_until timestamp with time zone,
  undo_asked text,
  parent jsonb,
  unique_key text,
  CONSTRAINT inbox_job_pkey PRIMARY KEY (id),
  CONSTRAINT inbox_state_check CHECK (holdfast.state_fits(status, parked, attempts, lease_generation, available_at, claimed_by, claimed_at, lease_expires_at, completed_at))
) WITH (fillfactor=50, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=20000, autovacuum_vacuum_insert_threshold=-1, autovacuum_vacuum_cost_delay=0, autovacuum_analyze_scale_factor=0.2, autovacuum_analyze_threshold=10000);

CREATE TABLE holdfast.inbox_archive (
  id uuid NOT NULL,
  created_at timestamp with time zone NOT NULL,
  claimed_at timestamp with time zone,
  completed_at timestamp with time zone NOT NULL,
  lease_generation bigint NOT NULL,
  partition_bucket integer NOT NULL,
  attempts integer NOT NULL,
  max_attempts integer NOT NULL,
  version integer NOT NULL,
  status holdfast.inbox_status NOT NULL,
  priority smallint NOT NULL,
  type text NOT NULL,
  partition_key text NOT NULL,
  payload jsonb NOT NULL,
  headers jsonb,
  idempotency_key text,
  claimed_by text,
  last_error text,
  history jsonb,
  result jsonb,
  group_key text,
  segment integer NOT NULL DEFAULT 0,
  unique_key text,
  CONSTRAINT inbox_archive_status_check CHECK ((status = ANY (ARRAY['completed'::holdfast.inbox_status, 'cancelled'::holdfast.inbox_status, 'dead_letter'::holdfast.inbox_status])))
) PARTITION BY LIST (segment);

CREATE TABLE holdfast.inbox_children (
  run_id uuid NOT NULL,
  check_at timestamp with time zone NOT NULL DEFAULT now(),
  n integer NOT NULL,
  step text NOT NULL,
  outcome "char" NOT NULL,
  value jsonb,
  CONSTRAINT inbox_children_pkey PRIMARY KEY (run_id, step, n)
) WITH (autovacuum_vacuum_scale_factor=0.05);

CREATE TABLE holdfast.inbox_claims (
  worker_id text NOT NULL,
  number bigint NOT NULL,
  claimed_at timestamp with time zone NOT NULL DEFAULT now(),
  jobs uuid[] NOT NULL,
  buckets smallint[],
  CONSTRAINT inbox_claims_pkey PRIMARY KEY (worker_id, number)
) WITH (toast_tuple_target=8160, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=2000, autovacuum_vacuum_cost_delay=0);

CREATE TABLE holdfast.inbox_effects (
  job_id uuid NOT NULL,
  name text NOT NULL,
  value jsonb NOT NULL,
  generation bigint NOT NULL,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT inbox_effects_pkey PRIMARY KEY (job_id, name)
);

CREATE TABLE holdfast.inbox_idempotency (
  key text NOT NULL,
  job_id uuid NOT NULL,
  fingerprint bytea NOT NULL,
  expires_at timestamp with time zone NOT NULL,
  CONSTRAINT inbox_idempotency_pkey PRIMARY KEY (key)
) WITH (autovacuum_vacuum_scale_factor=0.05);

CREATE TABLE holdfast.inbox_signals (
  id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  run_id uuid NOT NULL,
  sent_at timestamp with time zone NOT NULL DEFAULT clock_timestamp(),
  check_at timestamp with time zone NOT NULL DEFAULT now(),
  seen boolean NOT NULL DEFAULT false,
  name text NOT NULL,
  key text,
  value jsonb,
  taken_by text,
  CONSTRAINT inbox_signals_pkey PRIMARY KEY (run_id, id)
) WITH (autovacuum_vacuum_scale_factor=0.05);

CREATE TABLE holdfast.inbox_steps (
  run_id uuid NOT NULL,
  at timestamp with time zone NOT NULL DEFAULT clock_timestamp(),
  check_at timestamp with time zone,
  due_at timestamp with time zone,
  place integer,
  nth integer NOT NULL,
  ms integer,
  remaining integer,
  attempt smallint,
  kind "char" NOT NULL,
  name text NOT NULL,
  value jsonb,
  error jsonb,
  CONSTRAINT inbox_steps_pkey PRIMARY KEY (run_id, name)
) WITH (autovacuum_vacuum_scale_factor=0.05);

CREATE TABLE holdfast.inbox_unique (
  type text NOT NULL,
  key text NOT NULL,
  jobs uuid[] NOT NULL,
  kept_until timestamp with time zone,
  prune_at timestamp with time zone NOT NULL,
  CONSTRAINT inbox_unique_pkey PRIMARY KEY (type, key)
) WITH (autovacuum_vacuum_scale_factor=0.05);

CREATE TABLE holdfast.key_windows (
  queue text NOT NULL,
  key text NOT NULL,
  per_key integer NOT NULL,
  CONSTRAINT key_windows_per_key_check CHECK (((per_key >= 1) AND (per_key <= 10000))),
  CONSTRAINT key_windows_pkey PRIMARY KEY (queue, key)
);

CREATE TABLE holdfast.limits (
  id integer NOT NULL GENERATED ALWAYS AS IDENTITY,
  queue text NOT NULL,
  type text,
  concurrency holdfast.positive,
  rate_limit holdfast.positive,
  rate_per interval,
  rate_burst holdfast.positive,
  keyed boolean NOT NULL DEFAULT false,
  declared_concurrency holdfast.positive,
  declared_rate_limit holdfast.positive,
  declared_rate_per interval,
  declared_rate_burst holdfast.positive,
  overridden boolean NOT NULL DEFAULT false,
  updated_at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT limits_per_check CHECK ((rate_per > '00:00:00'::interval)),
  CONSTRAINT limits_pkey PRIMARY KEY (id),
  CONSTRAINT limits_rate_check CHECK ((((rate_limit IS NULL) = (rate_per IS NULL)) AND ((rate_limit IS NULL) = (rate_burst IS NULL))))
) WITH (fillfactor=50);

CREATE TABLE holdfast.migrations (
  id integer NOT NULL,
  name text NOT NULL,
  breaks_before integer NOT NULL,
  applied_at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT migrations_pkey PRIMARY KEY (id)
);

CREATE TABLE holdfast.on_dead_letter (
  queue text NOT NULL,
  type text NOT NULL,
  to_queue text NOT NULL,
  to_type text NOT NULL,
  version holdfast.positive NOT NULL,
  priority holdfast.priority NOT NULL,
  max_attempts holdfast.positive NOT NULL,
  CONSTRAINT on_dead_letter_pkey PRIMARY KEY (queue, type)
);

CREATE TABLE holdfast.permits (
  limit_id integer NOT NULL,
  worker_id text NOT NULL,
  held integer NOT NULL,
  CONSTRAINT permits_pkey PRIMARY KEY (limit_id, worker_id)
) WITH (fillfactor=50, autovacuum_vacuum_scale_factor=0.05, autovacuum_vacuum_threshold=500);

CREATE TABLE holdfast.projection_cursors (
  projection_id bigint NOT NULL,
  generation bigint NOT NULL DEFAULT 0,
  read_snapshot pg_snapshot NOT NULL DEFAULT '1:1:'::pg_snapshot,
  read_mark xid8 NOT NULL DEFAULT '0'::xid8,
  read_top bigint NOT NULL DEFAULT 0,
  until_snapshot pg_snapshot,
  until_mark xid8,
  until_top bigint,
  at_position bigint NOT NULL DEFAULT 0,
  applied bigint NOT NULL DEFAULT 0,
  at timestamp with time zone NOT NULL DEFAULT now(),
  shard smallint NOT NULL,
  first_slice smallint NOT NULL,
  last_slice smallint NOT NULL,
  CONSTRAINT projection_cursors_pkey PRIMARY KEY (projection_id, shard)
) WITH (fillfactor=50, autovacuum_vacuum_threshold=200, autovacuum_vacuum_scale_factor=0);

CREATE TABLE holdfast.projection_parked (
  projection_id bigint NOT NULL,
  nth bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  "position" bigint NOT NULL,
  slice smallint NOT NULL,
  key text NOT NULL,
  CONSTRAINT projection_parked_pkey PRIMARY KEY (projection_id, key, nth)
);

CREATE TABLE holdfast.projection_stops (
  projection_id bigint NOT NULL,
  "position" bigint NOT NULL,
  since timestamp with time zone NOT NULL DEFAULT now(),
  event_id uuid NOT NULL,
  shard smallint NOT NULL,
  resume boolean NOT NULL DEFAULT false,
  skip boolean NOT NULL DEFAULT false,
  key text NOT NULL,
  type text NOT NULL,
  error text NOT NULL,
  CONSTRAINT projection_stops_pkey PRIMARY KEY (projection_id, shard, key)
);

CREATE TABLE holdfast.projections (
  id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  promoted_at timestamp with time zone,
  version integer NOT NULL,
  shards smallint NOT NULL,
  auto boolean NOT NULL DEFAULT true,
  created boolean NOT NULL DEFAULT false,
  state text NOT NULL,
  name text NOT NULL,
  stream text NOT NULL,
  tables text,
  cluster text,
  CONSTRAINT projections_pkey PRIMARY KEY (id),
  CONSTRAINT projections_shards_check CHECK ((shards = ANY (ARRAY[1, 2, 4, 8, 16, 32]))),
  CONSTRAINT projections_state_check CHECK ((state = ANY (ARRAY['building'::text, 'live'::text, 'old'::text])))
);

CREATE TABLE holdfast.queues (
  name text NOT NULL,
  paused boolean NOT NULL DEFAULT false,
  paused_types text[],
  paused_keys text[],
  ordering holdfast.ordering NOT NULL DEFAULT 'none'::holdfast.ordering,
  per_key integer,
  per_group integer,
  fair boolean NOT NULL DEFAULT false,
  weights jsonb NOT NULL DEFAULT '{}'::jsonb,
  max_payload_bytes integer NOT NULL DEFAULT 1048576,
  idempotency_retention interval NOT NULL DEFAULT '7 days'::interval,
  archive_retention interval NOT NULL DEFAULT '7 days'::interval,
  effect_retention interval NOT NULL DEFAULT '7 days'::interval,
  audit_retention interval NOT NULL DEFAULT '90 days'::interval,
  age_after interval DEFAULT '00:10:00'::interval,
  max_pending integer,
  waiting bigint,
  waiting_at timestamp with time zone,
  recount_at timestamp with time zone,
  maintained_at timestamp with time zone,
  serviced_at jsonb NOT NULL DEFAULT '{}'::jsonb,
  limits_version bigint NOT NULL DEFAULT 0,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  migration integer NOT NULL DEFAULT 1,
  archive_segments jsonb NOT NULL DEFAULT '{"0": "-infinity"}'::jsonb,
  CONSTRAINT queues_age_after_check CHECK ((age_after > '00:00:00'::interval)),
  CONSTRAINT queues_archive_retention_check CHECK ((archive_retention >= '00:00:00'::interval)),
  CONSTRAINT queues_archive_segments_check CHECK ((jsonb_typeof(archive_segments) = 'object'::text)),
  CONSTRAINT queues_audit_retention_check CHECK ((audit_retention > '00:00:00'::interval)),
  CONSTRAINT queues_effect_retention_check CHECK ((effect_retention > '00:00:00'::interval)),
  CONSTRAINT queues_idempotency_retention_check CHECK ((idempotency_retention > '00:00:00'::interval)),
  CONSTRAINT queues_max_payload_bytes_check CHECK ((max_payload_bytes > 0)),
  CONSTRAINT queues_max_pending_check CHECK ((max_pending > 0)),
  CONSTRAINT queues_per_group_check CHECK (((per_group >= 1) AND (per_group <= 10000))),
  CONSTRAINT queues_per_key_check CHECK (((per_key >= 1) AND (per_key <= 10000))),
  CONSTRAINT queues_pkey PRIMARY KEY (name),
  CONSTRAINT queues_serviced_at_check CHECK ((jsonb_typeof(serviced_at) = 'object'::text)),
  CONSTRAINT queues_turns_check CHECK (((ordering = 'turns'::holdfast.ordering) = (fair OR (per_key IS NOT NULL) OR (per_group IS NOT NULL)))),
  CONSTRAINT queues_weights_check CHECK (((jsonb_typeof(weights) = 'object'::text) AND (fair OR (weights = '{}'::jsonb)) AND (NOT jsonb_path_exists(weights, '$.*?(((@.type() != "number" || @ < 1) || @ > 1000) || @ % 1 != 0)'::jsonpath))))
) WITH (fillfactor=50);

CREATE TABLE holdfast.rates (
  limit_id integer NOT NULL,
  key text NOT NULL,
  started_tat timestamp with time zone NOT NULL,
  slot_tat timestamp with time zone NOT NULL,
  pace double precision,
  CONSTRAINT rates_pkey PRIMARY KEY (limit_id, key)
) WITH (fillfactor=50, autovacuum_vacuum_scale_factor=0.05, autovacuum_vacuum_threshold=500);

CREATE TABLE holdfast.schedules (
  name text NOT NULL,
  queue text NOT NULL,
  type text NOT NULL,
  version holdfast.positive NOT NULL DEFAULT 1,
  payload jsonb NOT NULL,
  partition_key text,
  group_key text,
  limit_key text,
  priority holdfast.priority NOT NULL DEFAULT 2,
  max_attempts holdfast.positive NOT NULL DEFAULT 5,
  cron text,
  every interval,
  timezone text NOT NULL DEFAULT 'UTC'::text,
  catch_up text NOT NULL DEFAULT 'last'::text,
  overlap text NOT NULL DEFAULT 'allow'::text,
  jitter interval NOT NULL DEFAULT '00:00:00'::interval,
  paused boolean NOT NULL DEFAULT false,
  declared_by text,
  next_instant timestamp with time zone,
  next_at timestamp with time zone,
  last_instant timestamp with time zone,
  last_at timestamp with time zone,
  last_job uuid,
  ticks bigint NOT NULL DEFAULT 0,
  skipped bigint NOT NULL DEFAULT 0,
  missed bigint NOT NULL DEFAULT 0,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  updated_at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT schedules_catch_up_check CHECK ((catch_up = ANY (ARRAY['none'::text, 'last'::text, 'all'::text]))),
  CONSTRAINT schedules_every_check CHECK ((every >= '00:00:01'::interval)),
  CONSTRAINT schedules_jitter_check CHECK ((jitter >= '00:00:00'::interval)),
  CONSTRAINT schedules_next_check CHECK (((next_instant IS NULL) = (next_at IS NULL))),
  CONSTRAINT schedules_overlap_check CHECK ((overlap = ANY (ARRAY['skip'::text, 'queue'::text, 'allow'::text]))),
  CONSTRAINT schedules_pkey PRIMARY KEY (name),
  CONSTRAINT schedules_timing_check CHECK (((cron IS NULL) <> (every IS NULL)))
) WITH (fillfactor=80, autovacuum_vacuum_scale_factor=0.05, autovacuum_vacuum_threshold=1000);

CREATE TABLE holdfast.webhook_endpoints (
  id uuid NOT NULL,
  queue text NOT NULL,
  tenant text NOT NULL,
  url text NOT NULL,
  events text[] NOT NULL,
  header_names text[] NOT NULL DEFAULT '{}'::text[],
  ordered boolean NOT NULL,
  concurrency smallint NOT NULL,
  rate_limit integer,
  rate_ms bigint,
  rate_burst integer,
  state text NOT NULL DEFAULT 'active'::text,
  state_reason text,
  state_by text,
  state_at timestamp with time zone NOT NULL DEFAULT now(),
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  updated_at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT webhook_endpoints_concurrency_check CHECK (((concurrency >= 1) AND (concurrency <= 100))),
  CONSTRAINT webhook_endpoints_pkey PRIMARY KEY (id),
  CONSTRAINT webhook_endpoints_rate_burst_check CHECK ((rate_burst > 0)),
  CONSTRAINT webhook_endpoints_rate_check CHECK ((num_nulls(rate_limit, rate_ms, rate_burst) = ANY (ARRAY[0, 3]))),
  CONSTRAINT webhook_endpoints_rate_limit_check CHECK ((rate_limit > 0)),
  CONSTRAINT webhook_endpoints_rate_ms_check CHECK ((rate_ms > 0)),
  CONSTRAINT webhook_endpoints_state_check CHECK ((state = ANY (ARRAY['active'::text, 'disabled'::text])))
);

CREATE TABLE holdfast.webhook_health (
  endpoint_id uuid NOT NULL,
  failing_since timestamp with time zone,
  rests_until timestamp with time zone,
  next_at timestamp with time zone,
  CONSTRAINT webhook_health_pkey PRIMARY KEY (endpoint_id)
) WITH (fillfactor=70);

CREATE TABLE holdfast.webhook_log (
  id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  at timestamp with time zone NOT NULL DEFAULT clock_timestamp(),
  queue text NOT NULL,
  endpoint_id uuid NOT NULL,
  delivery_id uuid NOT NULL,
  message_id text NOT NULL,
  type text NOT NULL,
  attempt integer NOT NULL,
  delivered boolean NOT NULL,
  status smallint,
  ms integer NOT NULL,
  answer text,
  error text,
  CONSTRAINT webhook_log_pkey PRIMARY KEY (id)
);

CREATE TABLE holdfast.webhook_secrets (
  id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  endpoint_id uuid NOT NULL,
  kind "char" NOT NULL,
  value text NOT NULL,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  expires_at timestamp with time zone,
  CONSTRAINT webhook_secrets_kind_check CHECK ((kind = ANY (ARRAY['s'::"char", 'h'::"char"]))),
  CONSTRAINT webhook_secrets_pkey PRIMARY KEY (id)
);

CREATE TABLE holdfast.workers (
  id text NOT NULL,
  status text NOT NULL DEFAULT 'alive'::text,
  last_seen_at timestamp with time zone NOT NULL DEFAULT now(),
  started_at timestamp with time zone NOT NULL DEFAULT now(),
  metadata jsonb DEFAULT '{}'::jsonb,
  released_all boolean NOT NULL DEFAULT false,
  handles jsonb NOT NULL DEFAULT '{}'::jsonb,
  lock_key integer,
  holds_liveness_lock boolean NOT NULL DEFAULT false,
  left_at timestamp with time zone,
  workflows jsonb,
  CONSTRAINT workers_pkey PRIMARY KEY (id),
  CONSTRAINT workers_status_check CHECK ((status = ANY (ARRAY['alive'::text, 'draining'::text, 'dead'::text])))
) WITH (fillfactor=50, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=500);

REVOKE ALL ON FUNCTION holdfast.count_act(uuid,bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION holdfast.event_fill() FROM PUBLIC;

REVOKE ALL ON FUNCTION holdfast.events_wake() FROM PUBLIC;

REVOKE ALL ON FUNCTION holdfast.inbox_count_waiting() FROM PUBLIC;

REVOKE ALL ON FUNCTION holdfast.inbox_enqueue_unique(uuid,text,integer,text,integer,jsonb,jsonb,integer,integer,timestamp with time zone,text,text,text,interval,text,text,bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION holdfast.inbox_fill() FROM PUBLIC;

REVOKE ALL ON FUNCTION holdfast.inbox_lock_unique(text[],text[],text[],text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION holdfast.inbox_prune_archive() FROM PUBLIC;

REVOKE ALL ON FUNCTION holdfast.inbox_retake_unique(text[],text[],uuid[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION holdfast.inbox_signal(uuid,text,jsonb,text,boolean,text) FROM PUBLIC;

REVOKE ALL ON FUNCTION holdfast.inbox_take_key(text,uuid,text,jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION holdfast.inbox_take_keys(text[],uuid[],bytea[],boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION holdfast.inbox_verb_prune_archive_older(bigint,integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION holdfast.inbox_verb_replay(tid[],uuid[],boolean,boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION holdfast.inbox_wake() FROM PUBLIC;

REVOKE ALL ON FUNCTION holdfast.limits_changed() FROM PUBLIC;

REVOKE ALL ON FUNCTION holdfast.prune_audit(integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION holdfast.worker_cancel(text,uuid,bigint,text,text) FROM PUBLIC;

REVOKE ALL ON FUNCTION holdfast.worker_claim(text,text,integer,interval,text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION holdfast.worker_complete(text,uuid,bigint,jsonb,text) FROM PUBLIC;

REVOKE ALL ON FUNCTION holdfast.worker_complete_many(text,uuid[],bigint[],jsonb,text) FROM PUBLIC;

REVOKE ALL ON FUNCTION holdfast.worker_dead_letter(text,uuid,bigint,text,text) FROM PUBLIC;

REVOKE ALL ON FUNCTION holdfast.worker_fail(text,uuid,bigint,text,interval,text) FROM PUBLIC;

REVOKE ALL ON FUNCTION holdfast.worker_heartbeat(text) FROM PUBLIC;

REVOKE ALL ON FUNCTION holdfast.worker_hold(text) FROM PUBLIC;

REVOKE ALL ON FUNCTION holdfast.worker_leave(text) FROM PUBLIC;

REVOKE ALL ON FUNCTION holdfast.worker_listen(text) FROM PUBLIC;

REVOKE ALL ON FUNCTION holdfast.worker_register(text[],text[],jsonb,text,jsonb,interval) FROM PUBLIC;

REVOKE ALL ON FUNCTION holdfast.worker_release(text,uuid,bigint,text) FROM PUBLIC;

REVOKE ALL ON FUNCTION holdfast.worker_renew(text,uuid[],bigint[],interval,text) FROM PUBLIC;

REVOKE ALL ON FUNCTION holdfast.worker_snooze(text,uuid,bigint,interval,text) FROM PUBLIC;

CREATE TABLE holdfast.inbox_archive_0 PARTITION OF holdfast.inbox_archive FOR VALUES IN (0) WITH (fillfactor=100, autovacuum_vacuum_insert_scale_factor=0.02, autovacuum_vacuum_insert_threshold=100000);

ALTER TABLE holdfast.inbox_claims ALTER COLUMN jobs SET STORAGE EXTERNAL;

ALTER SEQUENCE holdfast.inbox_position_seq OWNED BY holdfast.inbox."position";

CREATE INDEX audit_at_idx ON holdfast.audit USING btree (at);

CREATE INDEX event_log_xid_idx ON holdfast.event_log USING btree (xid, "position");

CREATE INDEX inbox_archive_completed_idx ON holdfast.inbox_archive USING brin (completed_at) WITH (autosummarize='on', pages_per_range='32');

CREATE INDEX inbox_archive_id_idx ON holdfast.inbox_archive USING brin (id uuid_minmax_multi_ops) WITH (autosummarize='on', pages_per_range='32');

CREATE INDEX inbox_children_check_idx ON holdfast.inbox_children USING brin (check_at) WITH (autosummarize='on');

CREATE INDEX inbox_dead_idx ON holdfast.inbox USING btree (id) WHERE (available_at = 'infinity'::timestamp with time zone);

CREATE INDEX inbox_effects_prune_idx ON holdfast.inbox_effects USING btree (created_at);

CREATE INDEX inbox_idempotency_prune_idx ON holdfast.inbox_idempotency USING btree (expires_at);

CREATE INDEX inbox_line_idx ON holdfast.inbox USING btree (hashtextextended(type, (version)::bigint), priority, available_at, "position") WHERE ((crashes < 2) AND (limit_key IS NULL));

CREATE INDEX inbox_rate_idx ON holdfast.inbox USING btree (type COLLATE "C", limit_key COLLATE "C", priority, available_at, "position") WHERE ((crashes < 2) AND (limit_key IS NOT NULL));

CREATE INDEX inbox_signals_check_idx ON holdfast.inbox_signals USING brin (check_at) WITH (autosummarize='on');

CREATE INDEX inbox_signals_free_idx ON holdfast.inbox_signals USING btree (run_id, name, id) WHERE (taken_by IS NULL);

CREATE UNIQUE INDEX inbox_signals_key_idx ON holdfast.inbox_signals USING btree (run_id, key) WHERE (key IS NOT NULL);

CREATE INDEX inbox_signals_unseen_idx ON holdfast.inbox_signals USING btree (id) WHERE (NOT seen);

CREATE INDEX inbox_steps_check_idx ON holdfast.inbox_steps USING btree (check_at) WHERE (check_at IS NOT NULL);

CREATE INDEX inbox_steps_open_idx ON holdfast.inbox_steps USING btree (run_id) WHERE ((place IS NULL) OR (kind = '!'::"char"));

CREATE INDEX inbox_suspect_idx ON holdfast.inbox USING btree (id) WHERE (crashes > 1);

CREATE INDEX inbox_tag_idx ON holdfast.inbox USING btree (((headers ->> 'holdfast_tag'::text)), id) WHERE (headers ? 'holdfast_tag'::text);

CREATE INDEX inbox_unique_prune_idx ON holdfast.inbox_unique USING btree (prune_at);

CREATE UNIQUE INDEX limits_of_idx ON holdfast.limits USING btree (queue, COALESCE(type, ''::text));

CREATE INDEX projection_parked_position_idx ON holdfast.projection_parked USING btree ("position");

CREATE UNIQUE INDEX projections_building_idx ON holdfast.projections USING btree (name, version) WHERE (state = 'building'::text);

CREATE UNIQUE INDEX projections_live_idx ON holdfast.projections USING btree (name) WHERE (state = 'live'::text);

CREATE INDEX schedules_declared_idx ON holdfast.schedules USING btree (declared_by) WHERE (declared_by IS NOT NULL);

CREATE INDEX schedules_due_idx ON holdfast.schedules USING btree (queue, next_at) WHERE (NOT paused);

CREATE INDEX webhook_endpoints_state_idx ON holdfast.webhook_endpoints USING btree (state_at);

CREATE INDEX webhook_endpoints_tenant_idx ON holdfast.webhook_endpoints USING btree (queue, tenant, id);

CREATE INDEX webhook_log_endpoint_idx ON holdfast.webhook_log USING btree (endpoint_id, id);

CREATE INDEX webhook_log_message_idx ON holdfast.webhook_log USING btree (message_id, id);

CREATE INDEX webhook_secrets_endpoint_idx ON holdfast.webhook_secrets USING btree (endpoint_id);

ALTER TABLE holdfast.projection_cursors ADD CONSTRAINT projection_cursors_projection_id_fkey FOREIGN KEY (projection_id) REFERENCES holdfast.projections(id) ON DELETE CASCADE;

ALTER TABLE holdfast.projection_parked ADD CONSTRAINT projection_parked_projection_id_fkey FOREIGN KEY (projection_id) REFERENCES holdfast.projections(id) ON DELETE CASCADE;

ALTER TABLE holdfast.projection_stops ADD CONSTRAINT projection_stops_projection_id_fkey FOREIGN KEY (projection_id) REFERENCES holdfast.projections(id) ON DELETE CASCADE;

INSERT INTO holdfast.migrations (id, name, breaks_before) VALUES (1, 'engine', 1);
INSERT INTO holdfast.migrations (id, name, breaks_before) VALUES (2, 'big-fleet', 1);
INSERT INTO holdfast.migrations (id, name, breaks_before) VALUES (3, 'archive-segment', 1);
INSERT INTO holdfast.migrations (id, name, breaks_before) VALUES (4, 'archive-validated', 1);
INSERT INTO holdfast.migrations (id, name, breaks_before) VALUES (5, 'archive-segments', 1);
INSERT INTO holdfast.migrations (id, name, breaks_before) VALUES (6, 'prune-indexes', 1);
INSERT INTO holdfast.migrations (id, name, breaks_before) VALUES (7, 'on-dead-letter', 1);
INSERT INTO holdfast.migrations (id, name, breaks_before) VALUES (8, 'workflows', 1);
INSERT INTO holdfast.migrations (id, name, breaks_before) VALUES (9, 'unique-keys', 1);
INSERT INTO holdfast.migrations (id, name, breaks_before) VALUES (10, 'projections', 1);
INSERT INTO holdfast.migrations (id, name, breaks_before) VALUES (11, 'webhooks', 1);

INSERT INTO holdfast.functions (name, checksum) VALUES ('allow', 'abe886d5c296accd');
INSERT INTO holdfast.functions (name, checksum) VALUES ('archive-verbs', 'e20ff519a3d2e087');
INSERT INTO holdfast.functions (name, checksum) VALUES ('arrive', '62eb776c5351c1b9');
INSERT INTO holdfast.functions (name, checksum) VALUES ('audit', 'cdd9def4e6d0cc9b');
INSERT INTO holdfast.functions (name, checksum) VALUES ('bucket-of', '52f83713d92cc4d7');
INSERT INTO holdfast.functions (name, checksum) VALUES ('check-job', 'ba614127e6812f1c');
INSERT INTO holdfast.functions (name, checksum) VALUES ('children-ended', '3caca674daa202c1');
INSERT INTO holdfast.functions (name, checksum) VALUES ('claim', '13bf6167ee78d628');
INSERT INTO holdfast.functions (name, checksum) VALUES ('cluster-id', 'fce7960902741506');
INSERT INTO holdfast.functions (name, checksum) VALUES ('count-waiting', '9236d543495f5606');
INSERT INTO holdfast.functions (name, checksum) VALUES ('dead-letter-hook', '4bd9b87fa96fbf68');
INSERT INTO holdfast.functions (name, checksum) VALUES ('due', '058fa5d2ecd2b8ab');
INSERT INTO holdfast.functions (name, checksum) VALUES ('due-queues', '3f360ab815c9b0a4');
INSERT INTO holdfast.functions (name, checksum) VALUES ('enqueue', 'ab503b6d3bf05f14');
INSERT INTO holdfast.functions (name, checksum) VALUES ('enqueue-unique', '445d82ea69fac931');
INSERT INTO holdfast.functions (name, checksum) VALUES ('event-page', 'c6dc915fbdb98f66');
INSERT INTO holdfast.functions (name, checksum) VALUES ('events-wake', '1ca0f08671530287');
INSERT INTO holdfast.functions (name, checksum) VALUES ('fill', '24d61fcb544c35f8');
INSERT INTO holdfast.functions (name, checksum) VALUES ('fleet-changed', '20411c06cef53e68');
INSERT INTO holdfast.functions (name, checksum) VALUES ('held', 'b79e7545afa45b12');
INSERT INTO holdfast.functions (name, checksum) VALUES ('legacy', 'ff43d2cc03f85ed7');
INSERT INTO holdfast.functions (name, checksum) VALUES ('limits-changed', '1ab94b316e8c9382');
INSERT INTO holdfast.functions (name, checksum) VALUES ('lock-unique', 'b30f2902fb237966');
INSERT INTO holdfast.functions (name, checksum) VALUES ('new-id', '2f910b48dfb9a8d8');
INSERT INTO holdfast.functions (name, checksum) VALUES ('protocol-claim', '8dfd99615829966b');
INSERT INTO holdfast.functions (name, checksum) VALUES ('protocol-claim-verbs', 'd3ba7987755b4372');
INSERT INTO holdfast.functions (name, checksum) VALUES ('protocol-heartbeat', '9261b4eebb2ab332');
INSERT INTO holdfast.functions (name, checksum) VALUES ('protocol-holds', 'ce31a67bb3cc1b11');
INSERT INTO holdfast.functions (name, checksum) VALUES ('protocol-maintain', '78a50bed2edb8fa7');
INSERT INTO holdfast.functions (name, checksum) VALUES ('protocol-maintenance-verbs', 'd3c5e75e4c9f5f6b');
INSERT INTO holdfast.functions (name, checksum) VALUES ('protocol-owner-verbs', '7df08c27a3ca471a');
INSERT INTO holdfast.functions (name, checksum) VALUES ('protocol-register', '6397f5cdba92e949');
INSERT INTO holdfast.functions (name, checksum) VALUES ('protocol-settle', 'e3fef6c5672b6dc4');
INSERT INTO holdfast.functions (name, checksum) VALUES ('protocol-settle-calls', '444aa29c5b2eb3cc');
INSERT INTO holdfast.functions (name, checksum) VALUES ('protocol-words', 'b66738577384eafe');
INSERT INTO holdfast.functions (name, checksum) VALUES ('protocol-work-claim', 'ca77951f9110a86d');
INSERT INTO holdfast.functions (name, checksum) VALUES ('protocol-work-keys', '8e73a10161071346');
INSERT INTO holdfast.functions (name, checksum) VALUES ('protocol-work-ordered', '427d4a3441e803ab');
INSERT INTO holdfast.functions (name, checksum) VALUES ('protocol-work-time', '465ef1ad45a174e1');
INSERT INTO holdfast.functions (name, checksum) VALUES ('prune-archive', '115f97a1200274f1');
INSERT INTO holdfast.functions (name, checksum) VALUES ('queue-ordered', '676f5f5a6856f48d');
INSERT INTO holdfast.functions (name, checksum) VALUES ('rate-keys', 'b80b647dba07d713');
INSERT INTO holdfast.functions (name, checksum) VALUES ('reject-stale-fence', '547e3c1f2df1bd94');
INSERT INTO holdfast.functions (name, checksum) VALUES ('retake-unique', '8fcc267eed7f7e87');
INSERT INTO holdfast.functions (name, checksum) VALUES ('room', '58e3a8dfba09d3fc');
INSERT INTO holdfast.functions (name, checksum) VALUES ('schedules-changed', 'a3ff9302e5ad5085');
INSERT INTO holdfast.functions (name, checksum) VALUES ('set-limit', 'b3ac695cc0b381a2');
INSERT INTO holdfast.functions (name, checksum) VALUES ('signal', 'af44d2ffdce0dd77');
INSERT INTO holdfast.functions (name, checksum) VALUES ('state-fits', '8ba5c72cf4816e87');
INSERT INTO holdfast.functions (name, checksum) VALUES ('suspects', '9ff2f5fe96fdef2e');
INSERT INTO holdfast.functions (name, checksum) VALUES ('suspend', '40b163e9960b650a');
INSERT INTO holdfast.functions (name, checksum) VALUES ('take-key', '0e764918541a0aa7');
INSERT INTO holdfast.functions (name, checksum) VALUES ('turns', '089966be66d3bf54');
INSERT INTO holdfast.functions (name, checksum) VALUES ('turns-choose', '1a094b5a4ccab34d');
INSERT INTO holdfast.functions (name, checksum) VALUES ('turns-line', '1c0a8e6b351ed7e4');
INSERT INTO holdfast.functions (name, checksum) VALUES ('turns-walk', '11841ef234a681de');
INSERT INTO holdfast.functions (name, checksum) VALUES ('wake', 'cbeecafd3ede46cc');
INSERT INTO holdfast.functions (name, checksum) VALUES ('wake-run', 'c1a58efcbb2c25a1');

INSERT INTO holdfast.queues (name, migration) VALUES ('inbox', 11);

INSERT INTO holdfast.fleet DEFAULT VALUES;

CREATE TRIGGER fill BEFORE INSERT ON holdfast.event_log FOR EACH ROW WHEN (((new.bucket IS NULL) OR (new.id IS NULL))) EXECUTE FUNCTION holdfast.event_fill();

CREATE TRIGGER wake AFTER INSERT ON holdfast.event_log FOR EACH STATEMENT EXECUTE FUNCTION holdfast.events_wake();

CREATE TRIGGER fill BEFORE INSERT ON holdfast.inbox FOR EACH ROW WHEN (((new.parked IS NULL) OR (new.group_key IS NOT NULL))) EXECUTE FUNCTION holdfast.inbox_fill();

CREATE TRIGGER wake AFTER INSERT ON holdfast.inbox REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION holdfast.inbox_wake('time');

CREATE TRIGGER keep_young BEFORE DELETE ON holdfast.inbox_archive FOR EACH ROW WHEN ((current_query() ~~ '%AS t%WHERE t.ctid = ANY (ARRAY(%SELECT old.ctid FROM%'::text)) EXECUTE FUNCTION holdfast.keep_young('inbox');

CREATE TRIGGER limits_gone AFTER DELETE ON holdfast.limits FOR EACH ROW EXECUTE FUNCTION holdfast.limits_changed();

CREATE TRIGGER limits_made AFTER INSERT ON holdfast.limits FOR EACH ROW WHEN (((new.concurrency IS NOT NULL) OR (new.rate_limit IS NOT NULL))) EXECUTE FUNCTION holdfast.limits_changed();

CREATE TRIGGER limits_set AFTER UPDATE ON holdfast.limits FOR EACH ROW WHEN (((((((old.concurrency)::integer IS DISTINCT FROM (new.concurrency)::integer) OR ((old.rate_limit)::integer IS DISTINCT FROM (new.rate_limit)::integer)) OR (old.rate_per IS DISTINCT FROM new.rate_per)) OR ((old.rate_burst)::integer IS DISTINCT FROM (new.rate_burst)::integer)) OR (old.keyed IS DISTINCT FROM new.keyed))) EXECUTE FUNCTION holdfast.limits_changed();

CREATE TRIGGER queues_changed AFTER UPDATE OF ordering, per_key, per_group, fair, weights ON holdfast.queues FOR EACH ROW WHEN ((((((old.ordering IS DISTINCT FROM new.ordering) OR (old.per_key IS DISTINCT FROM new.per_key)) OR (old.per_group IS DISTINCT FROM new.per_group)) OR (old.fair IS DISTINCT FROM new.fair)) OR (old.weights IS DISTINCT FROM new.weights))) EXECUTE FUNCTION holdfast.fleet_changed();

CREATE TRIGGER queues_made AFTER INSERT ON holdfast.queues FOR EACH ROW EXECUTE FUNCTION holdfast.queue_ordered();

CREATE TRIGGER queues_ordered AFTER UPDATE OF ordering ON holdfast.queues FOR EACH ROW WHEN ((old.ordering IS DISTINCT FROM new.ordering)) EXECUTE FUNCTION holdfast.queue_ordered();

CREATE TRIGGER schedules_earlier AFTER UPDATE ON holdfast.schedules FOR EACH ROW WHEN (((NOT new.paused) AND ((new.next_at < old.next_at) OR old.paused OR (old.next_at IS NULL)))) EXECUTE FUNCTION holdfast.schedules_changed();

CREATE TRIGGER schedules_made AFTER INSERT ON holdfast.schedules REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION holdfast.schedules_changed();

CREATE TRIGGER workers_changed AFTER UPDATE OF status ON holdfast.workers FOR EACH ROW WHEN ((old.status IS DISTINCT FROM new.status)) EXECUTE FUNCTION holdfast.fleet_changed();

CREATE TRIGGER workers_joined AFTER INSERT ON holdfast.workers FOR EACH ROW EXECUTE FUNCTION holdfast.fleet_changed();

COMMIT;
