/**
 * Migration 1: the engine. `common` makes what a schema has once; `perQueue` makes one queue with its
 * side tables and is run again, with the names replaced, for every further queue.
 *
 * The columns of `inbox` stand in an order that is part of the design: what a claim writes stands
 * together (from `status` to `claimed_by`), so that the WAL record of a claim holds those bytes only.
 * Nothing that a claim, a renewal or a settle of the same row version writes stands in an index; that is
 * what makes a claim a HOT update. A check constraint ties a status to its columns. It calls a function,
 * and ranges are domains, because Postgres reads and prepares the text of every check constraint again
 * for every statement: written out, they took most of the time of a single INSERT.
 */
import type { Migration } from './migration.js';

const common = `
CREATE TYPE holdfast.inbox_status AS ENUM (
  'pending', 'processing', 'completed', 'failed', 'dead_letter', 'cancelled'
);

-- none: a job runs as soon as it is due. key: after all earlier jobs of its key; a dead letter frees the
-- key. key_strict: the same, but a dead letter holds the key until a human acts. parked: a dead letter
-- that has freed its key.
CREATE TYPE holdfast.ordering AS ENUM ('none', 'key', 'key_strict', 'parked');

CREATE DOMAIN holdfast.bucket AS integer CHECK (VALUE >= 0 AND VALUE < 1024);
CREATE DOMAIN holdfast.priority AS smallint CHECK (VALUE BETWEEN 1 AND 4);
CREATE DOMAIN holdfast.positive AS integer CHECK (VALUE > 0);

-- Whether the columns of a job in the queue fit its status. A dead letter either has freed its key or
-- holds it on purpose; nothing else is parked. Operators have their full names: a function's are looked up
-- by the path of whoever inserts.
CREATE FUNCTION holdfast.state_fits(
  status holdfast.inbox_status, ordering holdfast.ordering, attempts integer, lease_generation bigint,
  available_at timestamptz, claimed_by text, claimed_at timestamptz, lease_expires_at timestamptz,
  completed_at timestamptz
) RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $fn$
BEGIN
  RETURN completed_at IS NULL AND attempts OPERATOR(pg_catalog.>=) 0 AND CASE
    WHEN status OPERATOR(pg_catalog.=) 'pending' THEN
      claimed_by IS NULL AND claimed_at IS NULL AND lease_expires_at IS NULL
      AND available_at OPERATOR(pg_catalog.<) 'infinity' AND ordering OPERATOR(pg_catalog.<>) 'parked'
    WHEN status OPERATOR(pg_catalog.=) 'processing' THEN
      claimed_by IS NOT NULL AND claimed_at IS NOT NULL AND lease_expires_at IS NOT NULL
      AND lease_generation OPERATOR(pg_catalog.>) 0
      AND available_at OPERATOR(pg_catalog.<) 'infinity' AND ordering OPERATOR(pg_catalog.<>) 'parked'
    WHEN status OPERATOR(pg_catalog.=) 'dead_letter' THEN
      claimed_by IS NULL AND claimed_at IS NULL AND lease_expires_at IS NULL
      AND available_at OPERATOR(pg_catalog.=) 'infinity' AND ordering OPERATOR(pg_catalog.<>) 'key'
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
  -- It stopped by itself and left nothing behind: its death is of no interest to claims.
  empty_handed boolean NOT NULL DEFAULT false
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

CREATE TABLE holdfast.queues (
  name                  text PRIMARY KEY,
  paused                boolean NOT NULL DEFAULT false,
  max_payload_bytes     integer NOT NULL DEFAULT 1048576 CHECK (max_payload_bytes > 0),
  idempotency_retention interval NOT NULL DEFAULT '7 days' CHECK (idempotency_retention > '0'),
  archive_retention     interval NOT NULL DEFAULT '7 days' CHECK (archive_retention >= '0'),
  effect_retention      interval NOT NULL DEFAULT '7 days' CHECK (effect_retention > '0'),
  housekept_at          timestamptz,
  created_at            timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);

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
`;

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
  ordering         holdfast.ordering NOT NULL DEFAULT 'none',
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
  CONSTRAINT inbox_id_pkey PRIMARY KEY (id, partition_bucket),
  CONSTRAINT inbox_state_check CHECK (holdfast.state_fits(status, ordering, attempts, lease_generation,
    available_at, claimed_by, claimed_at, lease_expires_at, completed_at))
) WITH (
  -- Room on the page for a second version of every row, which is longer by the owner and the times of
  -- its claim, so that a claim stays on the page (HOT) even while a long transaction forbids pruning;
  -- renewals do so while old versions can be pruned.
  fillfactor = 35,
  -- Rows live for seconds: clean by count and not by share of the table, and never vacuum for inserts
  -- alone, which would only set visibility bits that the claim has to clear again.
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
  autovacuum_vacuum_insert_threshold = -1, autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 10000
);
ALTER SEQUENCE holdfast.inbox_position_seq OWNED BY holdfast.inbox.position;

-- The one index that claims read. In each bucket, dead letters lie at the far end, at infinity.
CREATE INDEX inbox_claim_idx ON holdfast.inbox (priority, partition_bucket, available_at, position);

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
  history          jsonb
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

-- Enqueue for producers in any language and for triggers. Everything is checked before it is written;
-- a refusal is an error that, as any error in SQL, ends the caller's transaction.
CREATE FUNCTION holdfast.inbox_enqueue(
  type text,
  payload jsonb,
  key text DEFAULT NULL,
  idempotency_key text DEFAULT NULL,
  delay interval DEFAULT NULL,
  available_at timestamptz DEFAULT NULL,
  priority integer DEFAULT 2,
  max_attempts integer DEFAULT 5,
  headers jsonb DEFAULT NULL,
  version integer DEFAULT 1,
  OUT id uuid,
  OUT deduplicated boolean
) LANGUAGE plpgsql AS $fn$
#variable_conflict use_column
DECLARE
  a_type ALIAS FOR $1;  a_payload ALIAS FOR $2;  a_key ALIAS FOR $3;  a_idempotency_key ALIAS FOR $4;
  a_delay ALIAS FOR $5;  a_available_at ALIAS FOR $6;  a_priority ALIAS FOR $7;
  a_max_attempts ALIAS FOR $8;  a_headers ALIAS FOR $9;  a_version ALIAS FOR $10;
  o_id ALIAS FOR $11;  o_deduplicated ALIAS FOR $12;
  settings holdfast.queues;
  print bytea;
  held holdfast.inbox_idempotency;
  stream text;
  due timestamptz;
BEGIN
  SELECT * INTO STRICT settings FROM holdfast.queues AS q WHERE q.name = 'inbox';
  IF a_type IS NULL OR a_type !~ '^[A-Za-z][A-Za-z0-9_.:-]{0,99}$' THEN
    RAISE EXCEPTION 'job type % is not valid: nothing was enqueued', quote_nullable(a_type)
      USING ERRCODE = 'HF002', HINT = 'Start with a letter; then letters, digits and _ . : - (at most 100).';
  ELSIF a_payload IS NULL THEN
    RAISE EXCEPTION 'the payload is NULL: nothing was enqueued'
      USING ERRCODE = 'HF002', HINT = 'Pass a jsonb value; the JSON null is ''null''.';
  ELSIF octet_length(a_payload::text) > settings.max_payload_bytes THEN
    RAISE EXCEPTION 'the payload has % bytes, the limit is %: nothing was enqueued',
      octet_length(a_payload::text), settings.max_payload_bytes
      USING ERRCODE = 'HF002', HINT = 'Store the data elsewhere and enqueue a reference to it.';
  ELSIF a_key = '' OR octet_length(a_key) > 512 THEN
    RAISE EXCEPTION 'the partition key is empty or longer than 512 bytes: nothing was enqueued'
      USING ERRCODE = 'HF002', HINT = 'Pass 1 to 512 bytes, or NULL for a stream of its own.';
  ELSIF a_idempotency_key = '' OR octet_length(a_idempotency_key) > 512 THEN
    RAISE EXCEPTION 'the idempotency key is empty or longer than 512 bytes: nothing was enqueued'
      USING ERRCODE = 'HF002', HINT = 'Pass 1 to 512 bytes, or NULL for none.';
  ELSIF a_delay IS NOT NULL AND a_available_at IS NOT NULL THEN
    RAISE EXCEPTION 'both delay and available_at were given: nothing was enqueued'
      USING ERRCODE = 'HF002', HINT = 'Give one of them.';
  ELSIF a_delay < '0' OR a_delay > '3650 days' OR a_available_at > now() + interval '3650 days' THEN
    RAISE EXCEPTION 'the delay is negative or longer than ten years: nothing was enqueued'
      USING ERRCODE = 'HF002', HINT = 'Give a delay between 0 and 3650 days.';
  ELSIF jsonb_typeof(a_headers) <> 'object'
    OR jsonb_path_exists(a_headers, '$.* ? (@.type() <> "string")') THEN
    RAISE EXCEPTION 'headers must be a JSON object of strings: nothing was enqueued'
      USING ERRCODE = 'HF002';
  ELSIF a_priority IS NULL OR a_priority NOT BETWEEN 1 AND 4 THEN
    RAISE EXCEPTION 'the priority is %: nothing was enqueued', coalesce(a_priority::text, 'NULL')
      USING ERRCODE = 'HF002', HINT = 'Give 1 (first) to 4 (last); 2 is the default.';
  ELSIF a_max_attempts NOT BETWEEN 1 AND 10000 OR a_version IS NULL OR a_version < 1 THEN
    RAISE EXCEPTION 'max_attempts or version is out of range: nothing was enqueued'
      USING ERRCODE = 'HF002', HINT = 'max_attempts is 1 to 10000, version is 1 or more.';
  END IF;

  o_id := holdfast.new_id();
  o_deduplicated := false;
  IF a_idempotency_key IS NOT NULL THEN
    print := sha256(convert_to(a_type || E'\\n' || a_payload::text, 'UTF8'));
    INSERT INTO holdfast.inbox_idempotency AS k (key, job_id, fingerprint, expires_at)
    VALUES (a_idempotency_key, o_id, print, now() + settings.idempotency_retention)
    ON CONFLICT (key) DO UPDATE SET (job_id, fingerprint, expires_at) = (
      SELECT CASE WHEN lapsed THEN excluded.job_id ELSE k.job_id END,
             CASE WHEN lapsed THEN excluded.fingerprint ELSE k.fingerprint END,
             CASE WHEN lapsed THEN excluded.expires_at ELSE k.expires_at END
      FROM (SELECT k.expires_at <= now()
              AND NOT EXISTS (SELECT FROM holdfast.inbox AS j WHERE j.id = k.job_id)) AS t(lapsed))
    RETURNING k.* INTO held;
    IF held.job_id <> o_id THEN
      IF held.fingerprint <> print THEN
        RAISE EXCEPTION 'idempotency key % already stands for a job with another type or payload: nothing was enqueued',
          quote_literal(a_idempotency_key)
          USING ERRCODE = 'HF003', HINT = 'Use a new key for new work, or enqueue exactly what was enqueued before.';
      END IF;
      o_id := held.job_id;
      o_deduplicated := true;
      RETURN;
    END IF;
  END IF;

  stream := coalesce(a_key, o_id::text);
  -- A time in the past means now: nobody jumps the queue by naming an old date.
  due := greatest(coalesce(a_available_at, statement_timestamp() + a_delay), statement_timestamp());
  INSERT INTO holdfast.inbox (id, available_at, partition_bucket, type, partition_key, payload,
    priority, max_attempts, headers, version, idempotency_key)
  VALUES (o_id, due, holdfast.bucket_of(stream), a_type, stream, a_payload, a_priority,
    coalesce(a_max_attempts, 5), a_headers, a_version, a_idempotency_key);
END
$fn$;

INSERT INTO holdfast.queues (name) VALUES ('inbox');
`;

export const engine: Migration = { id: 1, name: 'engine', breaksBefore: 1, common, perQueue };
