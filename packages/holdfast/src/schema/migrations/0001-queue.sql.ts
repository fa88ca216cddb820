/**
 * The queue in migration 1, with its side tables; it is run again, with the names replaced, for every further queue.
 *
 * The columns of `inbox` stand in an order that is part of the design: what a claim writes stands together
 * (from `status` to `claimed_by`), so that the WAL record of a claim holds those bytes only. Nothing that a
 * claim, a renewal or a settle of the same row version writes stands in an index; that makes a claim a HOT
 * update. A check constraint ties a status to its columns. It calls a function, and ranges are domains,
 * because Postgres parses the text of every check constraint again for every statement.
 */
export const queue = `
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

-- Its body comes with functions/.
CREATE FUNCTION holdfast.inbox_fill() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER fill BEFORE INSERT ON holdfast.inbox
  FOR EACH ROW WHEN (NEW.parked IS NULL OR NEW.group_key IS NOT NULL) EXECUTE FUNCTION holdfast.inbox_fill();
`;
