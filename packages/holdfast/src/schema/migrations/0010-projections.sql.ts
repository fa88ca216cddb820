/**
 * Migration 10: the event log, and the projections that read it. A cursor says by a snapshot what its projection has read
 * (decision 18).
 *
 * Locks: none that anybody waits for. All of it is new.
 */
import type { Migration } from '../migration.js';

const common = `
-- Events, of all logs. Only ever appended to, and pruned. The columns stand in this order for a reason: defaults are
-- evaluated from left to right, and a cursor relies on it that a transaction has its xid before its first position.
CREATE TABLE holdfast.event_log (
  xid         xid8 NOT NULL DEFAULT pg_current_xact_id(),
  position    bigint GENERATED ALWAYS AS IDENTITY,
  written_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  occurred_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  id          uuid NOT NULL,
  version     integer NOT NULL DEFAULT 1,
  bucket      smallint NOT NULL,
  -- A shard reads some of the 32 slices.
  slice       smallint NOT NULL GENERATED ALWAYS AS (bucket >> 5) STORED,
  stream      text NOT NULL,
  key         text NOT NULL,
  type        text NOT NULL,
  data        jsonb NOT NULL,
  headers     jsonb,
  CONSTRAINT event_log_pkey PRIMARY KEY (stream, slice, position),
  CONSTRAINT event_log_bucket_check CHECK (bucket BETWEEN 0 AND 1023),
  CONSTRAINT event_log_version_check CHECK (version > 0)
) WITH (
  -- Never updated, so pages are filled; vacuum follows the inserts.
  fillfactor = 100, autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_vacuum_insert_threshold = 100000
);
-- What a transaction that committed late has written.
CREATE INDEX event_log_xid_idx ON holdfast.event_log (xid, position);

-- Their bodies come with functions/.
CREATE FUNCTION holdfast.event_fill() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER fill BEFORE INSERT ON holdfast.event_log
  FOR EACH ROW WHEN (NEW.bucket IS NULL OR NEW.id IS NULL) EXECUTE FUNCTION holdfast.event_fill();
CREATE FUNCTION holdfast.events_wake() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER wake AFTER INSERT ON holdfast.event_log
  FOR EACH STATEMENT EXECUTE FUNCTION holdfast.events_wake();

CREATE TABLE holdfast.projections (
  id           bigint GENERATED ALWAYS AS IDENTITY,
  created_at   timestamptz NOT NULL DEFAULT now(),
  promoted_at  timestamptz,
  -- Of the code that builds it.
  version      integer NOT NULL,
  shards       smallint NOT NULL,
  -- Whether it takes the place of the live one by itself, once it has caught up.
  auto         boolean NOT NULL DEFAULT true,
  -- Whether its tables have been made.
  created      boolean NOT NULL DEFAULT false,
  state        text NOT NULL,
  name         text NOT NULL,
  stream       text NOT NULL,
  -- The schema that its tables are in. NULL: its program sees to them.
  tables       text,
  -- In which cluster its cursors' snapshots were taken. NULL: the role could not read that.
  cluster      text,
  CONSTRAINT projections_pkey PRIMARY KEY (id),
  CONSTRAINT projections_state_check CHECK (state IN ('building', 'live', 'old')),
  CONSTRAINT projections_shards_check CHECK (shards IN (1, 2, 4, 8, 16, 32))
);
CREATE UNIQUE INDEX projections_live_idx ON holdfast.projections (name) WHERE state = 'live';
CREATE UNIQUE INDEX projections_building_idx ON holdfast.projections (name, version) WHERE state = 'building';

-- How far each shard has read. It has applied all events that read_snapshot sees; and while until_snapshot is set, of
-- those between the two all up to at_position.
CREATE TABLE holdfast.projection_cursors (
  projection_id  bigint NOT NULL REFERENCES holdfast.projections (id) ON DELETE CASCADE,
  -- A write of an owner that was overtaken has an older one, and is refused.
  generation     bigint NOT NULL DEFAULT 0,
  read_snapshot  pg_snapshot NOT NULL DEFAULT '1:1:',
  -- Events of transactions whose xid is greater than this one stand behind read_top.
  read_mark      xid8 NOT NULL DEFAULT '0',
  read_top       bigint NOT NULL DEFAULT 0,
  until_snapshot pg_snapshot,
  until_mark     xid8,
  until_top      bigint,
  at_position    bigint NOT NULL DEFAULT 0,
  applied        bigint NOT NULL DEFAULT 0,
  at             timestamptz NOT NULL DEFAULT now(),
  shard          smallint NOT NULL,
  first_slice    smallint NOT NULL,
  last_slice     smallint NOT NULL,
  CONSTRAINT projection_cursors_pkey PRIMARY KEY (projection_id, shard)
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0);

-- Keys that stopped at an event which its projection could not apply.
CREATE TABLE holdfast.projection_stops (
  projection_id bigint NOT NULL REFERENCES holdfast.projections (id) ON DELETE CASCADE,
  position      bigint NOT NULL,
  since         timestamptz NOT NULL DEFAULT now(),
  event_id      uuid NOT NULL,
  shard         smallint NOT NULL,
  -- Somebody asked for it to go on; skip: without the event at which it stopped.
  resume        boolean NOT NULL DEFAULT false,
  skip          boolean NOT NULL DEFAULT false,
  key           text NOT NULL,
  type          text NOT NULL,
  error         text NOT NULL,
  CONSTRAINT projection_stops_pkey PRIMARY KEY (projection_id, shard, key)
);

-- The events of those keys that have been read and wait, in their order.
CREATE TABLE holdfast.projection_parked (
  projection_id bigint NOT NULL REFERENCES holdfast.projections (id) ON DELETE CASCADE,
  nth           bigint GENERATED ALWAYS AS IDENTITY,
  position      bigint NOT NULL,
  slice         smallint NOT NULL,
  key           text NOT NULL,
  CONSTRAINT projection_parked_pkey PRIMARY KEY (projection_id, key, nth)
);
CREATE INDEX projection_parked_position_idx ON holdfast.projection_parked (position);
`;

export const projections: Migration = {
  ...{ id: 10, name: 'projections', breaksBefore: 1 },
  ...{ common, perQueue: '' },
};
