/**
 * Migration 1: the tables, as version 0.1 made them. `common` is what a schema has once; the queue is 0001-queue.sql.ts.
 *
 * Only a new schema runs this text, and the migrations after it and functions/ follow in the same transaction. So it has no
 * functions of its own: what version 0.1 made, word for word, is test/support/upgrade/0.1, and a test compares the results.
 */
import type { Migration } from '../migration.js';
import { queue } from './0001-queue.sql.js';

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

-- What the tables below call. Their bodies come after the tables: functions/.
CREATE FUNCTION holdfast.new_id() RETURNS uuid LANGUAGE sql AS 'SELECT gen_random_uuid()';
CREATE FUNCTION holdfast.fleet_changed() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE FUNCTION holdfast.queue_ordered() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE FUNCTION holdfast.schedules_changed() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE FUNCTION holdfast.limits_changed() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';

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

CREATE TRIGGER workers_joined AFTER INSERT ON holdfast.workers
  FOR EACH ROW EXECUTE FUNCTION holdfast.fleet_changed();
CREATE TRIGGER workers_changed AFTER UPDATE OF status ON holdfast.workers
  FOR EACH ROW WHEN (OLD.status IS DISTINCT FROM NEW.status) EXECUTE FUNCTION holdfast.fleet_changed();
-- What waited for a limit is looked for at once when that is raised.
CREATE TRIGGER queues_changed AFTER UPDATE OF ordering, per_key, per_group, fair, weights ON holdfast.queues
  FOR EACH ROW WHEN ((OLD.ordering, OLD.per_key, OLD.per_group, OLD.fair, OLD.weights)
    IS DISTINCT FROM (NEW.ordering, NEW.per_key, NEW.per_group, NEW.fair, NEW.weights))
  EXECUTE FUNCTION holdfast.fleet_changed();

CREATE TRIGGER queues_made AFTER INSERT ON holdfast.queues
  FOR EACH ROW EXECUTE FUNCTION holdfast.queue_ordered();
CREATE TRIGGER queues_ordered AFTER UPDATE OF ordering ON holdfast.queues
  FOR EACH ROW WHEN (OLD.ordering IS DISTINCT FROM NEW.ordering) EXECUTE FUNCTION holdfast.queue_ordered();

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
`;

export const engine: Migration = {
  ...{ id: 1, name: 'engine', breaksBefore: 1 },
  ...{ common, perQueue: queue },
};
