/**
 * The fleet: what many workers need beyond the row that each job has.
 *
 * Common: the registry says what each worker handles and by which number its locks and its channel are
 * named, and `fleet.epoch` counts changes of membership. Per queue: how jobs of one key are ordered, and
 * the published ring by which an insert finds the one worker that it may have to wake.
 *
 * Every job stands in exactly one of two indexes, and pays for one: `inbox_claim_idx` if it may run
 * beside others of its key, `inbox_order_idx` if it has to wait for them.
 */
import type { Migration } from './migration.js';

const common = `
ALTER TABLE holdfast.workers
  -- By queue and type, the newest payload version that it handles.
  ADD COLUMN handles  jsonb NOT NULL DEFAULT '{}',
  -- Names its advisory locks and its notification channel.
  ADD COLUMN lock_key integer,
  -- It holds its liveness lock on a session of its own: when the lock is free, the process is gone.
  ADD COLUMN watched  boolean NOT NULL DEFAULT false;

ALTER TABLE holdfast.queues
  ADD COLUMN assignment text NOT NULL DEFAULT 'ring' CHECK (assignment IN ('ring', 'competing')),
  ADD COLUMN ordering   holdfast.ordering NOT NULL DEFAULT 'none' CHECK (ordering <> 'parked');

-- One row. The epoch rises with every change of who is alive, and with every change of a queue's assignment.
CREATE TABLE holdfast.fleet (
  one   boolean PRIMARY KEY DEFAULT true CHECK (one),
  epoch bigint NOT NULL DEFAULT 1
) WITH (fillfactor = 50);
INSERT INTO holdfast.fleet DEFAULT VALUES;

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
CREATE TRIGGER queues_assigned AFTER UPDATE OF assignment ON holdfast.queues
  FOR EACH ROW WHEN (OLD.assignment IS DISTINCT FROM NEW.assignment)
  EXECUTE FUNCTION holdfast.fleet_changed();

-- [order] begin
-- What a queue says of order is also the default of its column, so that a plain INSERT obeys. The table
-- is locked for a moment; if somebody keeps it in use, this gives up before those behind it wait long.
CREATE FUNCTION holdfast.queue_ordered() RETURNS trigger
  LANGUAGE plpgsql SET lock_timeout = '2s' AS $fn$
BEGIN
  EXECUTE format('ALTER TABLE %I.%I ALTER COLUMN ordering SET DEFAULT %L',
    TG_TABLE_SCHEMA, NEW.name, NEW.ordering);
  RETURN NULL;
END
$fn$;
CREATE TRIGGER queues_ordered AFTER UPDATE OF ordering ON holdfast.queues
  FOR EACH ROW WHEN (OLD.ordering IS DISTINCT FROM NEW.ordering)
  EXECUTE FUNCTION holdfast.queue_ordered();

-- Undoes the statement that asks, unless it did all that it was to do.
CREATE FUNCTION holdfast.all_or_none(done boolean) RETURNS boolean
  LANGUAGE plpgsql AS $fn$
BEGIN
  IF done THEN
    RETURN true;
  END IF;
  RAISE EXCEPTION 'some of the jobs were not this worker''s any more: none was completed'
    USING ERRCODE = 'HF004';
END
$fn$;
-- [order] end
`;

const perQueue = `
-- [order] begin
DROP INDEX holdfast.inbox_claim_idx;
CREATE INDEX inbox_claim_idx ON holdfast.inbox (priority, partition_bucket, available_at, position)
  WHERE ordering IN ('none', 'parked');
-- Jobs that wait for their key, in its order. A claim steps from key to key and reads the head of each.
CREATE INDEX inbox_order_idx ON holdfast.inbox (partition_bucket, partition_key COLLATE "C", position)
  WHERE ordering IN ('key', 'key_strict');
DROP FUNCTION holdfast.inbox_enqueue(text, jsonb, text, text, interval, timestamptz, integer, integer,
  jsonb, integer);
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
  ordering text DEFAULT NULL,
  OUT id uuid,
  OUT deduplicated boolean
) LANGUAGE plpgsql AS $fn$
#variable_conflict use_column
DECLARE
  a_type ALIAS FOR $1;  a_payload ALIAS FOR $2;  a_key ALIAS FOR $3;  a_idempotency_key ALIAS FOR $4;
  a_delay ALIAS FOR $5;  a_available_at ALIAS FOR $6;  a_priority ALIAS FOR $7;
  a_max_attempts ALIAS FOR $8;  a_headers ALIAS FOR $9;  a_version ALIAS FOR $10;
  a_ordering ALIAS FOR $11;  o_id ALIAS FOR $12;  o_deduplicated ALIAS FOR $13;
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
  ELSIF a_ordering NOT IN ('none', 'key', 'key_strict') THEN
    RAISE EXCEPTION 'the ordering is %: nothing was enqueued', quote_literal(a_ordering)
      USING ERRCODE = 'HF002', HINT = 'Give none, key or key_strict, or NULL for what the queue says.';
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
    priority, max_attempts, headers, version, idempotency_key, ordering)
  VALUES (o_id, due, holdfast.bucket_of(stream), a_type, stream, a_payload, a_priority,
    coalesce(a_max_attempts, 5), a_headers, a_version, a_idempotency_key,
    coalesce(a_ordering::holdfast.ordering, settings.ordering));
END
$fn$;
-- [order] end

-- [wake] begin
-- The published ring: for each group of types the worker that owns a bucket, by the number of its locks
-- and its channel. A hint for inserts, never a fact: an old one costs a poll interval, or a notification
-- that nobody needed.
CREATE TABLE holdfast.inbox_ring (
  part   integer PRIMARY KEY,
  -- NULL: every type.
  types  text[],
  owners integer[] NOT NULL CHECK (cardinality(owners) = 1024),
  epoch  bigint NOT NULL
) WITH (toast_tuple_target = 8160);
-- Read by inserts, so it has to lie in its row as it is.
ALTER TABLE holdfast.inbox_ring ALTER COLUMN owners SET STORAGE PLAIN;

-- A notification serialises the commits of a whole database, so only an insert that finds the owner of
-- its bucket asleep sends one. Who sleeps holds (table, owner) exclusively and (table, 0) shared; both
-- locks are only tried here, never waited for, and let go within the same expression, where nothing can
-- interrupt.
CREATE FUNCTION holdfast.inbox_wake_owners(queue integer, buckets integer[], types text[]) RETURNS void
  LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
  -- For two-phase commits, which Postgres refuses after a notification.
  IF current_setting('holdfast.notify', true) = 'off' THEN
    RETURN;
  END IF;
  -- Many buckets are said as "look everywhere".
  PERFORM pg_notify('holdfast_' || s.owner,
    'inbox' || ':' || CASE WHEN cardinality(s.buckets) > 50 THEN '*' ELSE array_to_string(s.buckets, ',') END)
  FROM (
    SELECT o.owner, array_agg(DISTINCT o.bucket) AS buckets
    FROM (
      SELECT r.owners[a.bucket + 1] AS owner, a.bucket
      FROM unnest(buckets, types) AS a(bucket, type), holdfast.inbox_ring AS r
      WHERE r.types IS NULL OR a.type = ANY (r.types)
    ) AS o
    GROUP BY o.owner
    HAVING NOT (pg_try_advisory_lock_shared(queue, o.owner) AND pg_advisory_unlock_shared(queue, o.owner))
  ) AS s
  -- It keeps clear of a full queue of notifications, the one thing that would fail the commit.
  WHERE pg_notification_queue_usage() < 0.5;
END
$fn$;
REVOKE EXECUTE ON FUNCTION holdfast.inbox_wake_owners(integer, integer[], text[]) FROM PUBLIC;

-- With the rights of the owner, so that whoever may insert needs no others. A search path of its own would
-- cost every insert more than all the rest, so everything has its full name here, operators too (IS DISTINCT
-- FROM, IN, BETWEEN and CASE x WHEN look theirs up by the path). One job, which somebody may be waiting for,
-- takes a single query; the conditions are evaluated without one.
CREATE FUNCTION holdfast.inbox_wake() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER AS $fn$
DECLARE
  queue  integer := TG_RELID::integer;
  owner  integer;
  bucket integer;
  more   boolean;
BEGIN
  -- Nobody sleeps: this is all that an insert into a busy queue pays for. (Two inserts at the same moment
  -- may take each other for a sleeper; then they only look closer.)
  IF pg_catalog.pg_try_advisory_lock(queue, 0) AND pg_catalog.pg_advisory_unlock(queue, 0) THEN
    RETURN NULL;
  END IF;
  SELECT r.owners[a.partition_bucket OPERATOR(pg_catalog.+) 1], a.partition_bucket,
    EXISTS (SELECT FROM added OFFSET 1)
  INTO owner, bucket, more
  FROM added AS a, holdfast.inbox_ring AS r
  WHERE a.available_at OPERATOR(pg_catalog.<=) pg_catalog.clock_timestamp()
    AND (r.types IS NULL OR a.type OPERATOR(pg_catalog.=) ANY (r.types))
  LIMIT 1;
  IF more THEN
    PERFORM holdfast.inbox_wake_owners(queue,
      pg_catalog.array_agg(n.bucket), pg_catalog.array_agg(n.type))
    FROM (
      SELECT DISTINCT a.partition_bucket::integer AS bucket, a.type
      FROM added AS a
      WHERE a.available_at OPERATOR(pg_catalog.<=) pg_catalog.clock_timestamp()
    ) AS n;
  ELSIF owner IS NOT NULL AND NOT (pg_catalog.pg_try_advisory_lock_shared(queue, owner)
      AND pg_catalog.pg_advisory_unlock_shared(queue, owner))
    AND (pg_catalog.current_setting('holdfast.notify', true) OPERATOR(pg_catalog.=) 'off') IS NOT TRUE
    AND pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.5
    AND pg_catalog.pg_notify(pg_catalog.concat('holdfast_', owner),
      pg_catalog.concat('inbox', ':', bucket)) IS NOT NULL THEN
    RETURN NULL;
  END IF;
  RETURN NULL;
END
$fn$;
-- Who may make triggers with it could have it run code of theirs with the rights of the owner.
REVOKE EXECUTE ON FUNCTION holdfast.inbox_wake() FROM PUBLIC;
CREATE TRIGGER wake AFTER INSERT ON holdfast.inbox REFERENCING NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION holdfast.inbox_wake();
-- [wake] end

-- Dead letters, by id: what an operator lists, counts and retries. A job that lives pays nothing for it.
CREATE INDEX inbox_dead_idx ON holdfast.inbox (id) WHERE available_at = 'infinity';
`;

/** Code that does not know `ordering` would claim ordered jobs in any order, and without an index. */
export const fleet: Migration = { id: 2, name: 'fleet', breaksBefore: 2, common, perQueue };
