
CREATE TYPE holdfast.inbox_status AS ENUM (
  'pending', 'processing', 'completed', 'failed', 'dead_letter', 'cancelled'
);

-- How a queue is read. none: by time, oldest first. key: by key, one job of a key after the other; a dead
-- letter frees its key. key_strict: the same, but a dead letter holds its key until a human acts. turns: by key,
-- a few jobs of a key beside each other, and keys take turns.
CREATE TYPE holdfast.ordering AS ENUM ('none', 'key', 'key_strict', 'turns');

CREATE DOMAIN holdfast.bucket AS integer CHECK (VALUE >= 0 AND VALUE < 1024);
CREATE DOMAIN holdfast.priority AS smallint CHECK (VALUE BETWEEN 1 AND 4);
CREATE DOMAIN holdfast.positive AS integer CHECK (VALUE > 0);

-- Whether the columns of a job fit its status. (claimed_at is written and never read, so it is free while a job
-- waits or runs.) Operators have their full names: a function looks them up by the path of whoever inserts.
CREATE FUNCTION holdfast.state_fits(
  status holdfast.inbox_status, parked boolean, attempts integer, lease_generation bigint,
  available_at timestamptz, claimed_by text, claimed_at timestamptz, lease_expires_at timestamptz,
  completed_at timestamptz
) RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $fn$
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
$fn$;

-- Time-ordered ids: the server's own uuidv7() from Postgres 18 on, the same layout built here before.
DO $do$
BEGIN
  IF to_regprocedure('pg_catalog.uuidv7()') IS NOT NULL THEN
    CREATE FUNCTION holdfast.new_id() RETURNS uuid
      LANGUAGE sql VOLATILE PARALLEL SAFE AS 'SELECT pg_catalog.uuidv7()';
  ELSE
    CREATE FUNCTION holdfast.new_id() RETURNS uuid
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

-- FNV-1a over the UTF-8 bytes, mixed by murmur3's finaliser: the same number as hash32() in TypeScript.
CREATE FUNCTION holdfast.hash32(key text) RETURNS bigint
  LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $fn$
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
$fn$;

CREATE FUNCTION holdfast.bucket_of(key text) RETURNS integer
  LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT (holdfast.hash32(key) & 1023)::integer';

-- Worker registry. Heartbeats update one narrow row each: no index but the key, so they stay HOT.
CREATE TABLE holdfast.workers (
  id           text PRIMARY KEY,
  status       text NOT NULL DEFAULT 'alive' CHECK (status IN ('alive', 'draining', 'dead')),
  last_seen_at timestamptz NOT NULL DEFAULT now(),
  started_at   timestamptz NOT NULL DEFAULT now(),
  metadata     jsonb DEFAULT '{}',
  -- It stopped by itself and holds nothing: there is nothing to recover.
  released_all boolean NOT NULL DEFAULT false,
  -- By queue and type, the newest payload version that it handles.
  handles      jsonb NOT NULL DEFAULT '{}',
  -- The number of its liveness lock.
  lock_key     integer,
  -- It holds the lock on a session of its own: when the lock is free, the process is gone.
  holds_liveness_lock boolean NOT NULL DEFAULT false,
  -- When it stopped by itself. A dead worker without it vanished.
  left_at      timestamptz
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

CREATE TABLE holdfast.queues (
  name                  text PRIMARY KEY,
  paused                boolean NOT NULL DEFAULT false,
  -- Of these none is claimed, although the queue is open. NULL: none of them.
  paused_types          text[],
  paused_keys           text[],
  ordering              holdfast.ordering NOT NULL DEFAULT 'none',
  -- Of a queue whose keys take turns: how many jobs of a key, and of a group, run at once in the whole fleet.
  -- NULL: any number.
  per_key               integer CONSTRAINT queues_per_key_check CHECK (per_key BETWEEN 1 AND 10000),
  per_group             integer CONSTRAINT queues_per_group_check CHECK (per_group BETWEEN 1 AND 10000),
  -- A key gets so many jobs a turn as its weight says, 1 if it has none. Not fair: as many as may run.
  fair                  boolean NOT NULL DEFAULT false,
  weights               jsonb NOT NULL DEFAULT '{}' CONSTRAINT queues_weights_check CHECK (
    jsonb_typeof(weights) = 'object' AND (fair OR weights = '{}')
    AND NOT jsonb_path_exists(weights, '$.* ? (@.type() <> "number" || @ < 1 || @ > 1000 || @ % 1 <> 0)')),
  max_payload_bytes     integer NOT NULL DEFAULT 1048576 CHECK (max_payload_bytes > 0),
  idempotency_retention interval NOT NULL DEFAULT '7 days' CHECK (idempotency_retention > '0'),
  archive_retention     interval NOT NULL DEFAULT '7 days' CHECK (archive_retention >= '0'),
  effect_retention      interval NOT NULL DEFAULT '7 days' CHECK (effect_retention > '0'),
  audit_retention       interval NOT NULL DEFAULT '90 days' CHECK (audit_retention > '0'),
  -- A job that has been due for so long gets a share of the claims, however urgent the others are. NULL: never.
  age_after             interval DEFAULT '10 minutes' CHECK (age_after > '0'),
  -- Enqueues are refused while so many jobs wait. NULL: never.
  max_pending           integer CHECK (max_pending > 0),
  -- Of a queue that has a limit: how many waited when they were counted, at most one more than may; and when to count
  -- again.
  waiting               bigint,
  waiting_at            timestamptz,
  recount_at            timestamptz,
  maintained_at         timestamptz,
  -- By the name of a periodic service, when it last began; see src/maintenance/turn.ts.
  serviced_at           jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(serviced_at) = 'object'),
  -- Rises with every change of its limits; see limits.
  limits_version        bigint NOT NULL DEFAULT 0,
  created_at            timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT queues_turns_check CHECK (
    (ordering = 'turns') = (fair OR per_key IS NOT NULL OR per_group IS NOT NULL))
) WITH (fillfactor = 50);

-- One row. The epoch rises with every change of who is alive and of how a queue is read.
CREATE TABLE holdfast.fleet (
  one   boolean PRIMARY KEY DEFAULT true CHECK (one),
  epoch bigint NOT NULL DEFAULT 1
) WITH (fillfactor = 50);
INSERT INTO holdfast.fleet DEFAULT VALUES;

-- What people did, one row an act, written in the transaction of the act. Who has the right to insert the columns
-- from actor on cannot make up the others.
CREATE TABLE holdfast.audit (
  id          uuid PRIMARY KEY DEFAULT holdfast.new_id(),
  at          timestamptz NOT NULL DEFAULT now(),
  role        text NOT NULL DEFAULT session_user,
  application text NOT NULL DEFAULT current_setting('application_name'),
  -- NULL: over a socket of the machine itself.
  client      inet DEFAULT inet_client_addr(),
  -- Who it was as far as the client says.
  actor       text,
  act         text NOT NULL,
  -- NULL: not about one queue.
  queue       text,
  -- How many jobs; it rises with every batch. NULL: not about jobs.
  jobs        bigint,
  -- Which jobs: the filter, or the ids of those that moved, at most 100.
  filter      jsonb,
  -- What was set, from what to what.
  changes     jsonb,
  reason      text
);
CREATE INDEX audit_at_idx ON holdfast.audit (at);

-- An act in batches counts on in its row. With the rights of the owner, so that nobody needs the right to change other
-- rows: a session raises the counts of its own role only, for a day. False: there is no such row.
CREATE FUNCTION holdfast.count_act(counted uuid, more bigint) RETURNS boolean
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
  UPDATE holdfast.audit AS a SET jobs = a.jobs + more
  WHERE a.id = counted AND a.role = session_user AND a.at > now() - interval '1 day' AND more > 0;
  RETURN FOUND;
END
$fn$;
REVOKE ALL ON FUNCTION holdfast.count_act(uuid, bigint) FROM PUBLIC;

-- With the rights of the owner, so that maintenance needs no right to delete anything else of it. Acts of a queue
-- that was dropped, and those that are not about one queue, are kept for the longest retention.
CREATE FUNCTION holdfast.prune_audit(most integer) RETURNS bigint
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
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
$fn$;
REVOKE ALL ON FUNCTION holdfast.prune_audit(integer) FROM PUBLIC;

CREATE FUNCTION holdfast.fleet_changed() RETURNS trigger
  LANGUAGE plpgsql AS $fn$
BEGIN
  UPDATE holdfast.fleet SET epoch = epoch + 1;
  PERFORM pg_notify('holdfast_fleet', TG_TABLE_SCHEMA);
  RETURN NULL;
END
$fn$;
CREATE TRIGGER workers_joined AFTER INSERT ON holdfast.workers
  FOR EACH ROW EXECUTE FUNCTION holdfast.fleet_changed();
CREATE TRIGGER workers_changed AFTER UPDATE OF status ON holdfast.workers
  FOR EACH ROW WHEN (OLD.status IS DISTINCT FROM NEW.status) EXECUTE FUNCTION holdfast.fleet_changed();
-- What waited for a limit is looked for at once when that is raised.
CREATE TRIGGER queues_changed AFTER UPDATE OF ordering, per_key, per_group, fair, weights ON holdfast.queues
  FOR EACH ROW WHEN ((OLD.ordering, OLD.per_key, OLD.per_group, OLD.fair, OLD.weights)
    IS DISTINCT FROM (NEW.ordering, NEW.per_key, NEW.per_group, NEW.fair, NEW.weights))
  EXECUTE FUNCTION holdfast.fleet_changed();

-- A queue has one index that claims read, by time or by key, and it tells inserts which hint to send. It is
-- made with the queue. It can be changed while the queue is empty; the table is locked for that moment.
CREATE FUNCTION holdfast.queue_ordered() RETURNS trigger
  LANGUAGE plpgsql SET lock_timeout = '2s' AS $fn$
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
    IF NEW.ordering <> 'none' AND EXISTS (SELECT FROM holdfast.limits AS l WHERE l.queue = NEW.name AND l.keyed) THEN
      RAISE EXCEPTION 'queue % has a rate with keys, which is for queues that are read by time: its order was not changed',
        quote_literal(NEW.name)
        USING ERRCODE = 'HF005', HINT = 'Remove that limit first, or make another queue.';
    END IF;
    EXECUTE format('DROP INDEX IF EXISTS %I.%I', TG_TABLE_SCHEMA, NEW.name || '_claim_idx');
    SELECT t.tgenabled = 'D' INTO silent FROM pg_trigger AS t
    WHERE t.tgname = 'wake' AND t.tgrelid = format('%I.%I', TG_TABLE_SCHEMA, NEW.name)::regclass;
  END IF;
  EXECUTE format(CASE NEW.ordering
      -- Oldest first within a priority. Dead letters lie at the far end, at infinity; suspects are elsewhere.
      WHEN 'none' THEN 'CREATE INDEX %3$I ON %1$I.%2$I (priority, available_at, position) WHERE crashes < 2'
      -- The jobs of a key as they become due, so that nothing that waits stands before one that is due. The keys
      -- of a group stand together: a full group is passed in one step.
      WHEN 'turns' THEN 'CREATE INDEX %3$I ON %1$I.%2$I (partition_bucket, coalesce(group_key, '''') COLLATE "C", '
        'partition_key COLLATE "C", available_at, position) WHERE NOT parked AND crashes < 2'
      -- The jobs of a key in their order. A claim steps from key to key and reads the head of each.
      ELSE 'CREATE INDEX %3$I ON %1$I.%2$I (partition_bucket, partition_key COLLATE "C", position) WHERE NOT parked'
    END, TG_TABLE_SCHEMA, NEW.name, NEW.name || '_claim_idx');
  EXECUTE format('CREATE OR REPLACE TRIGGER wake AFTER INSERT ON %1$I.%2$I REFERENCING NEW TABLE AS added '
    'FOR EACH STATEMENT EXECUTE FUNCTION %1$I.%3$I(%4$L)', TG_TABLE_SCHEMA, NEW.name, NEW.name || '_wake',
    CASE NEW.ordering WHEN 'none' THEN 'time' ELSE 'key' END);
  -- A trigger that was made anew is on.
  IF silent THEN
    EXECUTE format('ALTER TABLE %I.%I DISABLE TRIGGER wake', TG_TABLE_SCHEMA, NEW.name);
  END IF;
  RETURN NULL;
END
$fn$;
CREATE TRIGGER queues_made AFTER INSERT ON holdfast.queues
  FOR EACH ROW EXECUTE FUNCTION holdfast.queue_ordered();
CREATE TRIGGER queues_ordered AFTER UPDATE OF ordering ON holdfast.queues
  FOR EACH ROW WHEN (OLD.ordering IS DISTINCT FROM NEW.ordering) EXECUTE FUNCTION holdfast.queue_ordered();

-- What a job must be that is written in SQL. NULL for a partition key means a stream of its own.
CREATE FUNCTION holdfast.check_job(
  type text, payload jsonb, key text, group_key text, idempotency_key text, headers jsonb, max_bytes integer
) RETURNS void LANGUAGE plpgsql AS $fn$
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
$fn$;

-- For downstream tables: refuse a write that carries an older fence token than the row already has.
CREATE FUNCTION holdfast.reject_stale_fence() RETURNS trigger
  LANGUAGE plpgsql AS $fn$
BEGIN
  IF NEW.fence_token < OLD.fence_token THEN
    RAISE EXCEPTION 'fence token % is older than the stored token %: the write was refused',
      NEW.fence_token, OLD.fence_token
      USING ERRCODE = 'HF001',
            HINT = 'A newer claim of the same job has already written this row; this attempt is stale.';
  END IF;
  RETURN NEW;
END
$fn$;

-- What is enqueued again and again. A worker of its queue writes the job of a tick and moves next_at in one
-- statement. An instant is what the cron line or the interval says; a jitter makes the tick so much later.
CREATE TABLE holdfast.schedules (
  name          text PRIMARY KEY,
  queue         text NOT NULL,
  type          text NOT NULL,
  version       holdfast.positive NOT NULL DEFAULT 1,
  payload       jsonb NOT NULL,
  -- NULL: each job is a stream of its own.
  partition_key text,
  -- Where keys take turns.
  group_key     text,
  -- For whom its jobs count in a rate that has keys.
  limit_key     text,
  priority      holdfast.priority NOT NULL DEFAULT 2,
  max_attempts  holdfast.positive NOT NULL DEFAULT 5,
  cron          text,
  every         interval CONSTRAINT schedules_every_check CHECK (every >= '1 second'),
  timezone      text NOT NULL DEFAULT 'UTC',
  catch_up      text NOT NULL DEFAULT 'last'
                CONSTRAINT schedules_catch_up_check CHECK (catch_up IN ('none', 'last', 'all')),
  overlap       text NOT NULL DEFAULT 'allow'
                CONSTRAINT schedules_overlap_check CHECK (overlap IN ('skip', 'queue', 'allow')),
  jitter        interval NOT NULL DEFAULT '0' CONSTRAINT schedules_jitter_check CHECK (jitter >= '0'),
  paused        boolean NOT NULL DEFAULT false,
  -- Who declares it in code; NULL: it was made at run time.
  declared_by   text,
  -- Both are NULL when it never fires again.
  next_instant  timestamptz,
  next_at       timestamptz,
  last_instant  timestamptz,
  last_at       timestamptz,
  last_job      uuid,
  -- Jobs that were written; ticks that overlapped the job before; ticks that nobody was there to write.
  ticks         bigint NOT NULL DEFAULT 0,
  skipped       bigint NOT NULL DEFAULT 0,
  missed        bigint NOT NULL DEFAULT 0,
  created_at    timestamptz NOT NULL DEFAULT now(),
  updated_at    timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT schedules_timing_check CHECK ((cron IS NULL) <> (every IS NULL)),
  CONSTRAINT schedules_next_check CHECK ((next_instant IS NULL) = (next_at IS NULL))
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);
-- What is due in a queue, and when something will be.
CREATE INDEX schedules_due_idx ON holdfast.schedules (queue, next_at) WHERE NOT paused;
-- What a part of a program declares.
CREATE INDEX schedules_declared_idx ON holdfast.schedules (declared_by) WHERE declared_by IS NOT NULL;

-- The worker that writes ticks sleeps until the next one. It is woken when there is an earlier one; a tick only
-- moves later, so it sends nothing. The hint says when, in milliseconds.
CREATE FUNCTION holdfast.schedules_changed() RETURNS trigger
  LANGUAGE plpgsql AS $fn$
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
$fn$;
CREATE TRIGGER schedules_made AFTER INSERT ON holdfast.schedules REFERENCING NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION holdfast.schedules_changed();
CREATE TRIGGER schedules_earlier AFTER UPDATE ON holdfast.schedules
  FOR EACH ROW WHEN (NOT NEW.paused AND (NEW.next_at < OLD.next_at OR OLD.paused OR OLD.next_at IS NULL))
  EXECUTE FUNCTION holdfast.schedules_changed();

CREATE TABLE holdfast.limits (
  id                   integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  queue                text NOT NULL,
  -- NULL: of all types of the queue together.
  type                 text,
  -- What is in force; NULL: no such limit.
  concurrency          holdfast.positive,
  rate_limit           holdfast.positive,
  rate_per             interval CONSTRAINT limits_per_check CHECK (rate_per > '0'),
  rate_burst           holdfast.positive,
  -- Each key of the rate (inbox.limit_key) has a rate of its own.
  keyed                boolean NOT NULL DEFAULT false,
  -- What code declares; an operator's value stands beside it, so that a deploy does not undo it.
  declared_concurrency holdfast.positive,
  declared_rate_limit  holdfast.positive,
  declared_rate_per    interval,
  declared_rate_burst  holdfast.positive,
  -- What is in force was set by an operator.
  overridden           boolean NOT NULL DEFAULT false,
  updated_at           timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT limits_rate_check CHECK (
    (rate_limit IS NULL) = (rate_per IS NULL) AND (rate_limit IS NULL) = (rate_burst IS NULL))
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX limits_of_idx ON holdfast.limits (queue, coalesce(type, ''));

-- One row for each key that was limited lately; '' where the rate has no keys. A row whose times have passed says
-- nothing that no row would not say.
CREATE TABLE holdfast.rates (
  limit_id    integer NOT NULL REFERENCES holdfast.limits ON DELETE CASCADE,
  key         text NOT NULL,
  -- The GCRA of starts: the theoretical arrival time of the next one.
  started_tat timestamptz NOT NULL,
  -- The next free slot of the line.
  slot_tat    timestamptz NOT NULL,
  CONSTRAINT rates_pkey PRIMARY KEY (limit_id, key)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500);

-- Workers leave limited types out of their ordinary claims, so they must know which ones there are: an ordinary claim
-- that knows an older version of the limits takes nothing. With the rights of the owner, so that whoever may set a
-- limit needs none on queues.
CREATE FUNCTION holdfast.limits_changed() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
  UPDATE holdfast.queues AS q SET limits_version = q.limits_version + 1
  WHERE q.name = CASE TG_OP WHEN 'DELETE' THEN OLD.queue ELSE NEW.queue END;
  UPDATE holdfast.fleet SET epoch = epoch + 1;
  PERFORM pg_notify('holdfast_fleet', TG_TABLE_SCHEMA);
  RETURN NULL;
END
$fn$;
REVOKE EXECUTE ON FUNCTION holdfast.limits_changed() FROM PUBLIC;
-- A limit begins as an empty row: its lock keeps others away while slots are moved, and it limits nothing yet.
CREATE TRIGGER limits_made AFTER INSERT ON holdfast.limits
  FOR EACH ROW WHEN (NEW.concurrency IS NOT NULL OR NEW.rate_limit IS NOT NULL)
  EXECUTE FUNCTION holdfast.limits_changed();
CREATE TRIGGER limits_gone AFTER DELETE ON holdfast.limits
  FOR EACH ROW EXECUTE FUNCTION holdfast.limits_changed();
CREATE TRIGGER limits_set AFTER UPDATE ON holdfast.limits
  FOR EACH ROW WHEN ((OLD.concurrency, OLD.rate_limit, OLD.rate_per, OLD.rate_burst, OLD.keyed)
    IS DISTINCT FROM (NEW.concurrency, NEW.rate_limit, NEW.rate_per, NEW.rate_burst, NEW.keyed))
  EXECUTE FUNCTION holdfast.limits_changed();
