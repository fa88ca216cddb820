
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
    held := (
    SELECT coalesce(jsonb_object_agg(h.name, h.jobs), '{}')
    FROM (
      SELECT n.name, count(*) AS jobs
      FROM (
        SELECT DISTINCT i.id, i.group_key, i.partition_key
        FROM (
          SELECT t.id FROM (
            SELECT u.id, u.bucket, count(*) OVER (PARTITION BY u.bucket) AS jobs FROM holdfast.inbox_claims AS c CROSS JOIN LATERAL unnest(c.jobs, c.buckets) AS u(id, bucket)
          ) AS t
          WHERE t.bucket IS NULL OR t.jobs >= queue.per_group) AS j
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
        i.partition_key COLLATE "C" AS key, i.available_at, i.available_at <= now() AND (i.status = 'pending' OR i.lease_expires_at <= now())
          AND (i.version = 1 AND i.type = ANY (types) OR i.version <= (versions -> i.type)::integer)
          AND (i.type = ANY (queue.paused_types)) IS NOT TRUE AS ready
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
          (CASE WHEN h.grp <> '' THEN queue.per_group - coalesce((held ->> concat('g', h.grp))::integer, 0) END) AS of_group
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
            SELECT i.place, (i.status = 'pending' OR i.lease_expires_at <= now())
          AND (i.version = 1 AND i.type = ANY (types) OR i.version <= (versions -> i.type)::integer)
          AND (i.type = ANY (queue.paused_types)) IS NOT TRUE AS ready FROM (
              SELECT i.ctid AS place, i.status, i.lease_expires_at, i.version, i.type FROM holdfast.inbox AS i
          WHERE NOT i.parked AND i.crashes < 2 AND i.partition_bucket = h.bucket
            AND coalesce(i.group_key, '') COLLATE "C" = h.grp AND i.partition_key COLLATE "C" = h.key
                AND i.available_at <= now()
              ORDER BY i.available_at, i.position LIMIT most + 5000
            ) AS i
            WHERE queue.per_key IS NOT NULL AND i.lease_expires_at > now() OR (i.status = 'pending' OR i.lease_expires_at <= now())
          AND (i.version = 1 AND i.type = ANY (types) OR i.version <= (versions -> i.type)::integer)
          AND (i.type = ANY (queue.paused_types)) IS NOT TRUE
            LIMIT r.room + coalesce(queue.per_key, 0)
          ) AS l) END AS places
        OFFSET 0
      ) AS p
      OFFSET 0
    ) AS n
    -- A key of which nothing can be taken yet: when will that be?
    LEFT JOIN LATERAL (
      SELECT i.available_at FROM holdfast.inbox AS i
          WHERE NOT i.parked AND i.crashes < 2 AND i.partition_bucket = h.bucket
            AND coalesce(i.group_key, '') COLLATE "C" = h.grp AND i.partition_key COLLATE "C" = h.key
        AND i.available_at > now() AND i.available_at < soon AND n.jobs = 0 AND r.room > 0 AND h.available_at <= now()
      ORDER BY i.available_at, i.position LIMIT 1
    ) AS d ON true
    WHERE w.wanted < most AND w.step < max_keys AND w.buckets < 128
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
    held := (
    SELECT coalesce(jsonb_object_agg(h.name, h.jobs), '{}')
    FROM (
      SELECT n.name, count(*) AS jobs
      FROM (
        SELECT DISTINCT i.id, i.group_key, i.partition_key
        FROM (
          SELECT u.id FROM holdfast.inbox_claims AS c CROSS JOIN LATERAL unnest(c.jobs, c.buckets) AS u(id, bucket)
          WHERE u.bucket IS NULL OR u.bucket BETWEEN lowest AND highest AND u.bucket = ANY (mine)) AS j
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
          SELECT k.*, (CASE WHEN k.grp <> '' THEN queue.per_group - coalesce((held ->> concat('g', k.grp))::integer, 0) END) AS of_group,
            generate_series(1, least(k.jobs, (queue.per_key - coalesce((held ->> concat('k', length(k.grp), ':', k.grp, k.key))::integer, 0)))) AS nth
          FROM unnest(walked.buckets, walked.groups, walked.keys, walked.jobs, walked.ends) WITH ORDINALITY
            AS k(bucket, grp, key, jobs, until, n)
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
        SELECT c.*, (CASE WHEN c.grp <> '' THEN queue.per_group - coalesce((held ->> concat('g', c.grp))::integer, 0) END) AS of_group,
          least(most, (queue.per_key - coalesce((held ->> concat('k', length(c.grp), ':', c.grp, c.key))::integer, 0)), c.part + c.weight * (rounds - 1)) AS room
        FROM unnest(walked.buckets, walked.groups, walked.keys, walked.weights, walked.parts) WITH ORDINALITY
          AS c(bucket, grp, key, weight, part, n)
        WHERE c.bucket = ANY (mine)
        OFFSET 0
      ) AS k
      CROSS JOIN LATERAL (
        SELECT s.*, row_number() OVER () AS nth, count(*) OVER () AS seen
        FROM (
          SELECT i.place, i.available_at FROM (
            SELECT i.ctid AS place, i.available_at, i.status, i.lease_expires_at, i.version, i.type FROM holdfast.inbox AS i
          WHERE NOT i.parked AND i.crashes < 2 AND i.partition_bucket = k.bucket
            AND coalesce(i.group_key, '') COLLATE "C" = k.grp AND i.partition_key COLLATE "C" = k.key
              AND i.available_at < greatest(soon, now() + interval '1 microsecond')
            ORDER BY i.available_at, i.position LIMIT most + 5000
          ) AS i
          WHERE (i.status = 'pending' OR i.lease_expires_at <= now())
          AND (i.version = 1 AND i.type = ANY (types) OR i.version <= (versions -> i.type)::integer)
          AND (i.type = ANY (queue.paused_types)) IS NOT TRUE
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
  held := (
    SELECT coalesce(jsonb_object_agg(h.name, h.jobs), '{}')
    FROM (
      SELECT n.name, count(*) AS jobs
      FROM (
        SELECT DISTINCT i.id, i.group_key, i.partition_key
        FROM (SELECT u.id FROM holdfast.inbox_claims AS c CROSS JOIN LATERAL unnest(c.jobs, c.buckets) AS u(id, bucket)) AS j
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
  RETURN QUERY
  SELECT r.id
  FROM (
    SELECT i.id, (queue.per_key - coalesce((held ->> concat('k', length(i.grp), ':', i.grp, i.partition_key))::integer, 0)) AS of_key, (CASE WHEN i.grp <> '' THEN queue.per_group - coalesce((held ->> concat('g', i.grp))::integer, 0) END) AS of_group,
      row_number() OVER (PARTITION BY i.grp, i.partition_key ORDER BY i.id) AS in_key,
      row_number() OVER (PARTITION BY i.grp ORDER BY i.id) AS in_group
    FROM (
      SELECT i.id, i.partition_key, coalesce(i.group_key, '') AS grp FROM holdfast.inbox AS i WHERE i.id = ANY (mine)
    ) AS i
  ) AS r
  WHERE (r.of_key IS NULL OR r.in_key <= r.of_key) AND (r.of_group IS NULL OR r.in_group <= r.of_group);
END
$fn$;


-- Jobs that wait for a slot of a rate. A job without one pays nothing for it. By type, so that slots that have passed,
-- such as those of a paused type, are not read for the others.
CREATE INDEX inbox_slot_idx ON holdfast.inbox (type, limit_slot) WHERE limit_slot IS NOT NULL;
-- Whether anybody of a key waits for one, or of none.
CREATE INDEX inbox_slot_key_idx ON holdfast.inbox (type, limit_key, limit_slot) WHERE limit_slot IS NOT NULL;

-- Sets a limit of this queue or of a type in it; true: something changed. act: declare (what code says; all NULL: it
-- says nothing any more), set (an operator's value), reset (back to what is declared), remove. When the rate changes,
-- the slots of those who wait are moved in the same transaction: nearer or further in the proportion of the paces.
CREATE FUNCTION holdfast.inbox_set_limit(
  act text, of_type text, new_concurrency integer, new_limit integer, new_per interval, new_burst integer,
  with_keys boolean
) RETURNS boolean LANGUAGE plpgsql AS $fn$
DECLARE
  was holdfast.limits;
  wanted holdfast.limits;
  moment timestamptz;
  old_pace double precision;
  new_pace double precision;
BEGIN
  IF act = 'declare' AND with_keys AND new_limit IS NOT NULL
    AND NOT EXISTS (SELECT FROM holdfast.queues AS q WHERE q.name = 'inbox' AND q.ordering = 'none') THEN
    RAISE EXCEPTION 'queue % is read by key, and a rate with keys is for queues that are read by time: no limit was set',
      quote_literal('inbox')
      USING ERRCODE = 'HF002', HINT = 'Leave the key of the rate out, or put the job into a queue that is read by time.';
  END IF;
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
    IF act = 'remove' OR wanted.concurrency IS NULL AND wanted.rate_limit IS NULL THEN
      wanted.rate_limit := NULL;
      act := 'remove';
    END IF;
  END IF;
  IF act <> 'remove' AND wanted IS NOT DISTINCT FROM was THEN
    RETURN false;
  END IF;

  -- The slots come first: they may be many, and writing the limit locks rows that the whole fleet needs. Jobs are
  -- locked in the order of their ids, as everywhere.
  old_pace := extract(epoch FROM was.rate_per) / was.rate_limit;
  new_pace := CASE WHEN wanted.rate_limit IS NOT NULL
    THEN extract(epoch FROM wanted.rate_per) / wanted.rate_limit END;
  moment := clock_timestamp();
  -- A type that gets a rate of its own may have slots of its queue's.
  IF (old_pace IS NULL) <> (new_pace IS NULL) OR old_pace IS NOT NULL AND was.keyed <> wanted.keyed THEN
    -- In the order of their enqueues, which their positions have kept.
    UPDATE holdfast.inbox AS m SET available_at = moment, limit_slot = NULL
    WHERE m.id = ANY (ARRAY(
      SELECT i.id FROM holdfast.inbox AS i
      WHERE i.limit_slot IS NOT NULL AND i.limit_slot = i.available_at AND i.status = 'pending'
        AND CASE WHEN of_type IS NOT NULL THEN i.type = of_type
          ELSE i.type <> ALL (ARRAY(SELECT l.type FROM holdfast.limits AS l
            WHERE l.queue = 'inbox' AND l.type IS NOT NULL AND l.rate_limit IS NOT NULL)) END
      ORDER BY i.id FOR UPDATE));
    DELETE FROM holdfast.rates AS r WHERE r.limit_id = was.id;
  ELSIF old_pace <> new_pace THEN
    UPDATE holdfast.inbox AS m
    SET (available_at, limit_slot) = (SELECT n.slot, n.slot
      FROM (SELECT moment + least(extract(epoch FROM m.limit_slot - moment)::double precision * new_pace / old_pace,
        315360000) * interval '1 second') AS n(slot))
    WHERE m.id = ANY (ARRAY(
      SELECT i.id FROM holdfast.inbox AS i
      WHERE i.limit_slot > moment AND i.limit_slot = i.available_at AND i.status = 'pending'
        AND CASE WHEN of_type IS NOT NULL THEN i.type = of_type
          ELSE i.type <> ALL (ARRAY(SELECT l.type FROM holdfast.limits AS l
            WHERE l.queue = 'inbox' AND l.type IS NOT NULL AND l.rate_limit IS NOT NULL)) END
      ORDER BY i.id FOR UPDATE));
    UPDATE holdfast.rates AS r
    SET started_tat = moment + least(extract(epoch FROM greatest(r.started_tat - moment, '0'))::double precision
          * new_pace / old_pace, 315360000) * interval '1 second',
        slot_tat = moment + least(extract(epoch FROM greatest(r.slot_tat - moment, '0'))::double precision
          * new_pace / old_pace, 315360000) * interval '1 second'
    WHERE r.limit_id = was.id;
  END IF;

  IF act = 'remove' THEN
    DELETE FROM holdfast.limits AS l WHERE l.id = was.id;
  ELSE
    UPDATE holdfast.limits AS l
    SET (concurrency, rate_limit, rate_per, rate_burst, keyed, declared_concurrency, declared_rate_limit,
        declared_rate_per, declared_rate_burst, overridden, updated_at)
      = (wanted.concurrency, wanted.rate_limit, wanted.rate_per, wanted.rate_burst, wanted.keyed,
        wanted.declared_concurrency, wanted.declared_rate_limit, wanted.declared_rate_per,
        wanted.declared_rate_burst, wanted.overridden, now())
    WHERE l.id = was.id;
  END IF;
  RETURN true;
END
$fn$;

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
    SELECT c.* FROM unnest($8::smallint[], $9::timestamptz[], $10::bigint[]) AS p(priority, after_at, after_position)
      CROSS JOIN LATERAL (
        SELECT i.ctid, i.priority, i.available_at, i.position, i.status = 'pending',
          false, CASE WHEN rate.keyed THEN coalesce(i.limit_key, '') ELSE '' END
        FROM holdfast.inbox AS i
        WHERE NOT $12::boolean AND i.priority = p.priority
          AND (i.available_at, i.position) > (p.after_at, p.after_position)
          AND i.available_at <= aged_until
          AND i.crashes < 2
          AND (pace IS NULL OR i.limit_slot IS DISTINCT FROM i.available_at)
          AND (i.status = 'pending' OR (i.status = 'processing' AND i.lease_expires_at <= now()))
          AND (i.version = 1 AND i.type = ANY ($6::text[])
        OR i.version <= ($7::jsonb -> i.type)::integer)
        AND (i.type = ANY (shut.paused_types)) IS NOT TRUE
        AND (i.partition_key = ANY (shut.paused_keys)) IS NOT TRUE
        ORDER BY i.available_at, i.position
        LIMIT $5
      ) AS c(place, priority, available_at, position, pending, reserved, key)
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
      (SELECT c.* FROM unnest($8::smallint[], $9::timestamptz[], $10::bigint[]) AS p(priority, after_at, after_position)
      CROSS JOIN LATERAL (
        SELECT i.ctid, i.priority, i.available_at, i.position, i.status = 'pending',
          false, CASE WHEN rate.keyed THEN coalesce(i.limit_key, '') ELSE '' END
        FROM holdfast.inbox AS i
        WHERE NOT $12::boolean AND i.priority = p.priority
          AND (i.available_at, i.position) > (p.after_at, p.after_position)
          AND i.available_at <= moment
          AND i.crashes < 2
          AND (pace IS NULL OR i.limit_slot IS DISTINCT FROM i.available_at)
          AND (i.status = 'pending' OR (i.status = 'processing' AND i.lease_expires_at <= now()))
          AND (i.version = 1 AND i.type = ANY ($6::text[])
        OR i.version <= ($7::jsonb -> i.type)::integer)
        AND (i.type = ANY (shut.paused_types)) IS NOT TRUE
        AND (i.partition_key = ANY (shut.paused_keys)) IS NOT TRUE
        ORDER BY i.available_at, i.position
        LIMIT reads
      ) AS c(place, priority, available_at, position, pending, reserved, key)
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

