/**
 * Migration 1: the schema. `common` makes what a schema has once; `perQueue` makes one queue with its side
 * tables and is run again, with the names replaced, for every further queue.
 *
 * The columns of `inbox` stand in an order that is part of the design: what a claim writes stands together
 * (from `status` to `claimed_by`), so that the WAL record of a claim holds those bytes only. Nothing that a
 * claim, a renewal or a settle of the same row version writes stands in an index; that makes a claim a HOT
 * update. A check constraint ties a status to its columns. It calls a function, and ranges are domains,
 * because Postgres parses the text of every check constraint again for every statement.
 */

import type { Migration } from '../migration.js';
import { limitedClaims } from './0001-limited-claims.sql.js';
import { limitsCommon, limitsPerQueue } from './0001-limits.sql.js';
import { turns } from './0001-turns.sql.js';

const common = `
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
${limitsCommon}`;

const perQueue = `
CREATE SEQUENCE holdfast.inbox_position_seq;

CREATE TABLE holdfast.inbox (
  id               uuid NOT NULL DEFAULT holdfast.new_id(),
  position         bigint NOT NULL DEFAULT nextval('holdfast.inbox_position_seq'),
  created_at       timestamptz NOT NULL DEFAULT now(),
  available_at     timestamptz NOT NULL DEFAULT statement_timestamp(),
  partition_bucket holdfast.bucket NOT NULL,
  max_attempts     holdfast.positive NOT NULL DEFAULT 5,
  version          holdfast.positive NOT NULL DEFAULT 1,
  priority         holdfast.priority NOT NULL DEFAULT 2,
  isolated         boolean NOT NULL DEFAULT false,
  -- Of a job that crashed before: its handler was called since it was claimed.
  started          boolean NOT NULL DEFAULT false,
  -- A dead letter that does not hold its key. It has no default: an INSERT that leaves it out is not the
  -- engine's, and inbox_fill does for it what the engine does.
  parked           boolean NOT NULL,
  crashes          integer NOT NULL DEFAULT 0,
  status           holdfast.inbox_status NOT NULL DEFAULT 'pending',
  attempts         integer NOT NULL DEFAULT 0,
  lease_generation bigint NOT NULL DEFAULT 0,
  claimed_at       timestamptz,
  lease_expires_at timestamptz,
  claimed_by       text,
  type             text NOT NULL,
  partition_key    text NOT NULL,
  payload          jsonb NOT NULL,
  headers          jsonb,
  idempotency_key  text,
  completed_at     timestamptz,
  last_error       text,
  history          jsonb,
  -- A coarser key, such as the tenant of a user; only where keys take turns. NULL: it belongs to no group.
  group_key        text,
  -- Whose rate it counts for, where the rate of its type has keys.
  limit_key        text,
  -- The slot that a rate gave it. It waits for it as long as available_at says the same time.
  limit_slot       timestamptz,
  CONSTRAINT inbox_id_pkey PRIMARY KEY (id, partition_bucket),
  CONSTRAINT inbox_state_check CHECK (holdfast.state_fits(status, parked, attempts, lease_generation,
    available_at, claimed_by, claimed_at, lease_expires_at, completed_at))
) WITH (
  -- Room on the page for the version that a claim writes, so that the claim stays on the page (HOT).
  fillfactor = 50,
  -- Rows live for seconds: clean by count and not by share of the table, and never vacuum for inserts
  -- alone, which would only set visibility bits that the claim has to clear again.
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
  autovacuum_vacuum_insert_threshold = -1, autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 10000
);
ALTER SEQUENCE holdfast.inbox_position_seq OWNED BY holdfast.inbox.position;

-- Jobs whose worker vanished twice or more: they are run in small groups, apart from all others.
CREATE INDEX inbox_suspect_idx ON holdfast.inbox (id) WHERE crashes > 1;
-- Dead letters: what an operator lists, counts and retries. A job that lives pays nothing for it.
CREATE INDEX inbox_dead_idx ON holdfast.inbox (id) WHERE available_at = 'infinity';

-- What each worker took with one claim, until all of it has left. It says what a dead worker held, and
-- what nobody renewed, without reading the queue. A hint: the rows of the queue decide.
CREATE TABLE holdfast.inbox_claims (
  worker_id  text NOT NULL,
  number     bigint NOT NULL,
  claimed_at timestamptz NOT NULL DEFAULT now(),
  jobs       uuid[] NOT NULL,
  -- The bucket of each, where keys take turns: a claim looks for what is held in some of them.
  buckets    smallint[],
  CONSTRAINT inbox_claims_pkey PRIMARY KEY (worker_id, number)
) WITH (
  toast_tuple_target = 8160,
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE holdfast.inbox_claims ALTER COLUMN jobs SET STORAGE EXTERNAL;

-- Finished jobs, append-only. Rows arrive in order of time, so block ranges find them by id and by age
-- at almost no cost to the completing statement.
CREATE TABLE holdfast.inbox_archive (
  id               uuid NOT NULL,
  created_at       timestamptz NOT NULL,
  claimed_at       timestamptz,
  completed_at     timestamptz NOT NULL,
  lease_generation bigint NOT NULL,
  partition_bucket integer NOT NULL,
  attempts         integer NOT NULL,
  max_attempts     integer NOT NULL,
  version          integer NOT NULL,
  status           holdfast.inbox_status NOT NULL
                   CONSTRAINT inbox_archive_status_check CHECK (status IN ('completed', 'cancelled', 'dead_letter')),
  priority         smallint NOT NULL,
  type             text NOT NULL,
  partition_key    text NOT NULL,
  payload          jsonb NOT NULL,
  headers          jsonb,
  idempotency_key  text,
  claimed_by       text,
  last_error       text,
  history          jsonb,
  -- What the handler returned; NULL: nothing.
  result           jsonb,
  group_key        text
) WITH (
  -- Never updated, so pages are filled; vacuum follows the inserts to summarise the block ranges.
  fillfactor = 100, autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_vacuum_insert_threshold = 100000
);
CREATE INDEX inbox_archive_id_idx ON holdfast.inbox_archive
  USING brin (id uuid_minmax_multi_ops) WITH (autosummarize = on, pages_per_range = 32);
CREATE INDEX inbox_archive_completed_idx ON holdfast.inbox_archive
  USING brin (completed_at) WITH (autosummarize = on, pages_per_range = 32);

-- Which job an idempotency key stands for, and until when; it outlives the job.
CREATE TABLE holdfast.inbox_idempotency (
  key         text PRIMARY KEY,
  job_id      uuid NOT NULL,
  fingerprint bytea NOT NULL,
  expires_at  timestamptz NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX inbox_idempotency_expires_idx ON holdfast.inbox_idempotency
  USING brin (expires_at) WITH (autosummarize = on);

-- Which jobs a unique key of a type stands for: those that had not ended when one was last enqueued under it, the
-- newest last. Only enqueues under such a key write here.
CREATE TABLE holdfast.inbox_unique (
  type       text NOT NULL,
  key        text NOT NULL,
  jobs       uuid[] NOT NULL,
  -- Until then it stands for its last job although that may have ended. NULL: it does not.
  kept_until timestamptz,
  -- When maintenance looks whether it still stands for anything.
  prune_at   timestamptz NOT NULL,
  PRIMARY KEY (type, key)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX inbox_unique_prune_idx ON holdfast.inbox_unique (prune_at);

-- What a handler has already done, by job and name, with the value that it returned.
CREATE TABLE holdfast.inbox_effects (
  job_id     uuid NOT NULL,
  name       text NOT NULL,
  value      jsonb NOT NULL,
  generation bigint NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (job_id, name)
);
CREATE INDEX inbox_effects_created_idx ON holdfast.inbox_effects
  USING brin (created_at) WITH (autosummarize = on);

-- Takes an idempotency key for a job, unless it stands for one already; returns the job for which it stands.
CREATE FUNCTION holdfast.inbox_take_key(idempotency_key text, id uuid, type text, payload jsonb)
  RETURNS uuid LANGUAGE plpgsql AS $fn$
DECLARE
  print bytea := sha256(convert_to(type || E'\\n' || payload::text, 'UTF8'));
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
$fn$;

-- Counts the jobs that wait, up to the limit of the queue, unless that was done within the last second or somebody
-- does it just now. Where counting takes long, it is done more rarely. With the rights of the owner, so that producers
-- need no others. The queue is read through its index: the table may be much larger than what is in it.
CREATE FUNCTION holdfast.inbox_count_waiting() RETURNS bigint
  LANGUAGE plpgsql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off AS $fn$
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
  FROM (SELECT FROM holdfast.inbox AS i WHERE i.status = 'pending' ORDER BY i.id
    LIMIT settings.max_pending::bigint + 1) AS w;
  UPDATE holdfast.queues AS q
  SET waiting = jobs, waiting_at = began,
      recount_at = clock_timestamp() + greatest(interval '1 second', 20 * (clock_timestamp() - began))
  WHERE q.name = 'inbox';
  RETURN jobs;
END
$fn$;
REVOKE EXECUTE ON FUNCTION holdfast.inbox_count_waiting FROM PUBLIC;

-- Enqueues a job under a unique key, unless one stands for it; returns the job that stands then, and whether it was
-- written, ignored or replaced. The row of the key is locked, so producers of one key decide one after the other. A job
-- that waits is locked too and looked at again under the lock, so a claim takes it before this or after the caller's
-- commit, with what the caller has written; one that was claimed before is never locked. With the rights of the
-- owner, so that whoever may enqueue needs no right to change jobs. A bulk call takes keys in their own order and jobs
-- in that of its items, so it says their positions. Small tables are read through indexes too: these plans are kept
-- while the tables grow.
CREATE FUNCTION holdfast.inbox_enqueue_unique(
  id uuid, type text, version integer, partition_key text, partition_bucket integer, payload jsonb, headers jsonb,
  priority integer, max_attempts integer, available_at timestamptz,
  unique_key text, unique_while text, on_conflict text, unique_window interval, group_key text, limit_key text,
  at_position bigint DEFAULT NULL, OUT job_id uuid, OUT outcome text
) LANGUAGE plpgsql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off AS $fn$
#variable_conflict use_column
DECLARE
  a_id ALIAS FOR $1;  a_type ALIAS FOR $2;  a_version ALIAS FOR $3;  a_key ALIAS FOR $4;  a_bucket ALIAS FOR $5;
  a_payload ALIAS FOR $6;  a_headers ALIAS FOR $7;  a_priority ALIAS FOR $8;  a_max_attempts ALIAS FOR $9;
  a_due ALIAS FOR $10;  a_unique ALIAS FOR $11;  a_while ALIAS FOR $12;  a_conflict ALIAS FOR $13;
  a_window ALIAS FOR $14;  a_group ALIAS FOR $15;  a_limit_key ALIAS FOR $16;  a_position ALIAS FOR $17;
  o_id ALIAS FOR $18;  o_outcome ALIAS FOR $19;
  held holdfast.inbox_unique;
  waiting holdfast.inbox;
  live uuid[];
  slot timestamptz;
BEGIN
  IF a_unique IS NULL OR a_unique = '' OR octet_length(a_unique) > 512 THEN
    RAISE EXCEPTION 'the unique key is empty or longer than 512 bytes: nothing was enqueued'
      USING ERRCODE = 'HF002', HINT = 'Pass 1 to 512 bytes.';
  ELSIF a_while IS NULL OR a_while NOT IN ('pending', 'running', 'kept')
    OR a_conflict IS NULL OR a_conflict NOT IN ('ignore', 'replace', 'later') THEN
    RAISE EXCEPTION 'unique_while % or on_conflict % is not known: nothing was enqueued',
      quote_nullable(a_while), quote_nullable(a_conflict)
      USING ERRCODE = 'HF002', HINT = 'unique_while is pending, running or kept; on_conflict is ignore, replace or later.';
  ELSIF a_while = 'kept' AND a_conflict <> 'ignore' THEN
    RAISE EXCEPTION 'unique_while kept goes with on_conflict ignore: nothing was enqueued'
      USING ERRCODE = 'HF002', HINT = 'What has ended cannot be replaced.';
  ELSIF a_window <= '0' OR a_window > '3650 days' OR a_window IS NOT NULL AND a_while <> 'kept' THEN
    RAISE EXCEPTION 'the window of the unique key is out of range, or it is not kept: nothing was enqueued'
      USING ERRCODE = 'HF002', HINT = 'Give up to 3650 days, with unique_while kept.';
  END IF;

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
          -- A slot of a rate is kept, or the line would have a hole for each enqueue.
          IF waiting.limit_slot = waiting.available_at AND waiting.limit_slot >= a_due
            AND waiting.limit_key IS NOT DISTINCT FROM a_limit_key THEN
            slot := waiting.limit_slot;
          END IF;
          -- Written anew and not updated, so that workers get the hint that an insert sends.
          DELETE FROM holdfast.inbox AS i WHERE i.id = waiting.id;
          INSERT INTO holdfast.inbox (id, position, created_at, available_at, partition_bucket, type, partition_key,
            payload, priority, max_attempts, headers, version, group_key, limit_key, limit_slot, parked)
          VALUES (waiting.id, waiting.position, waiting.created_at, coalesce(slot, a_due), waiting.partition_bucket,
            a_type, waiting.partition_key, a_payload, a_priority, a_max_attempts, a_headers, a_version,
            waiting.group_key, a_limit_key, slot, false);
          o_outcome := 'replaced';
        END IF;
        RETURN;
      END IF;
    END IF;
  END LOOP;

  INSERT INTO holdfast.inbox (id, position, available_at, partition_bucket, type, partition_key, payload, priority,
    max_attempts, headers, version, group_key, limit_key, parked)
  VALUES (a_id, coalesce(a_position, nextval('holdfast.inbox_position_seq')), a_due, a_bucket, a_type, a_key, a_payload,
    a_priority, a_max_attempts, a_headers, a_version, a_group, a_limit_key, false);
  UPDATE holdfast.inbox_unique AS u
  SET jobs = live || a_id,
      kept_until = CASE WHEN a_while = 'kept' THEN statement_timestamp() + coalesce(a_window,
        (SELECT q.idempotency_retention FROM holdfast.queues AS q WHERE q.name = 'inbox')) END,
      prune_at = greatest(a_due, statement_timestamp()) + interval '10 minutes'
  WHERE u.type = a_type AND u.key = a_unique;
  o_id := a_id;
  o_outcome := 'written';
END
$fn$;
REVOKE EXECUTE ON FUNCTION holdfast.inbox_enqueue_unique FROM PUBLIC;

-- A plain INSERT gets what an enqueue gets: checks, the bucket of its key or group whatever it says, and one job for an
-- idempotency key; a row whose key stands for the same job already is not written. The type may stand in the payload.
-- With the rights of the owner, so that whoever may insert needs no others.
CREATE FUNCTION holdfast.inbox_fill() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
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
$fn$;
CREATE TRIGGER fill BEFORE INSERT ON holdfast.inbox
  FOR EACH ROW WHEN (NEW.parked IS NULL OR NEW.group_key IS NOT NULL) EXECUTE FUNCTION holdfast.inbox_fill();
REVOKE EXECUTE ON FUNCTION holdfast.inbox_fill() FROM PUBLIC;

-- Enqueue for producers in any language and for triggers. Everything is checked before it is written;
-- a refusal is an error that, as any error in SQL, ends the caller's transaction.
CREATE FUNCTION holdfast.inbox_enqueue(
  type text,
  payload jsonb,
  partition_key text DEFAULT NULL,
  idempotency_key text DEFAULT NULL,
  delay interval DEFAULT NULL,
  available_at timestamptz DEFAULT NULL,
  priority integer DEFAULT 2,
  max_attempts integer DEFAULT 5,
  headers jsonb DEFAULT NULL,
  version integer DEFAULT 1,
  unique_key text DEFAULT NULL,
  unique_while text DEFAULT 'pending',
  on_conflict text DEFAULT 'ignore',
  unique_window interval DEFAULT NULL,
  group_key text DEFAULT NULL,
  limit_key text DEFAULT NULL,
  OUT id uuid,
  OUT deduplicated boolean
) LANGUAGE plpgsql AS $fn$
#variable_conflict use_column
DECLARE
  a_type ALIAS FOR $1;  a_payload ALIAS FOR $2;  a_key ALIAS FOR $3;  a_idempotency_key ALIAS FOR $4;
  a_delay ALIAS FOR $5;  a_available_at ALIAS FOR $6;  a_priority ALIAS FOR $7;
  a_max_attempts ALIAS FOR $8;  a_headers ALIAS FOR $9;  a_version ALIAS FOR $10;
  a_unique ALIAS FOR $11;  a_while ALIAS FOR $12;  a_conflict ALIAS FOR $13;  a_window ALIAS FOR $14;
  a_group ALIAS FOR $15;  a_limit_key ALIAS FOR $16;  o_id ALIAS FOR $17;  o_deduplicated ALIAS FOR $18;
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
$fn$;

-- A notification serialises the commits of a whole database, so an insert sends one only if a worker waits
-- for it: who waits holds (table, 0) shared. The hint says, in tenths of a second, from when on jobs are due,
-- and for a queue that is read by key in which buckets they are. With the rights of the owner, so that whoever
-- may insert needs no others; so everything has its full name here, operators too (IN, BETWEEN and CASE x WHEN
-- look theirs up by the path).
CREATE FUNCTION holdfast.inbox_wake() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER AS $fn$
DECLARE
  due  timestamp with time zone;
  hint pg_catalog.text;
BEGIN
  -- Nobody waits: this is all that an insert into a busy queue pays for. (Two inserts at the same moment
  -- may take each other for a waiting worker; then they send a hint that nobody needs.)
  IF pg_catalog.pg_try_advisory_lock(TG_RELID::integer, 0)
    AND pg_catalog.pg_advisory_unlock(TG_RELID::integer, 0) THEN
    RETURN NULL;
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
    SELECT pg_catalog.min(a.available_at) INTO due FROM added AS a;
  END IF;
  -- What is due later is found by the polls.
  IF due OPERATOR(pg_catalog.<) (pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) interval '5 seconds') THEN
    PERFORM pg_catalog.pg_notify(pg_catalog.concat('holdfast_', TG_RELID),
      pg_catalog.concat(pg_catalog.floor(pg_catalog.date_part('epoch', due) OPERATOR(pg_catalog.*) 10::double precision)::bigint, hint));
  END IF;
  RETURN NULL;
END
$fn$;
-- Who may make triggers with it could have it run code of theirs with the rights of the owner.
REVOKE EXECUTE ON FUNCTION holdfast.inbox_wake() FROM PUBLIC;

${turns}
${limitsPerQueue}${limitedClaims}
`;

/** The end of the frozen text. Today a queue is registered after all migrations and functions: see ../plan.ts. */
export const registerInbox = `-- Its trigger makes the index that claims read and the trigger that calls inbox_wake.
INSERT INTO holdfast.queues (name) VALUES ('inbox');
`;

export const engine: Migration = { id: 1, name: 'engine', breaksBefore: 1, common, perQueue };
