/**
 * The part of migration 1 that is about limits: how many jobs of a type or a queue run at once in the whole fleet, and
 * how many start in a time. Here is what a limit is and how it is set; who claims under one: 0001-limited-claims.sql.ts.
 *
 * The row of a limit is its mutex: whoever claims under it locks the row first and counts then, with a snapshot that
 * is newer than the lock. Nothing is written when a job ends, so nothing can leak. A rate has two times (GCRA):
 * `started_tat` decides alone whether a job may start, `slot_tat` is the next free slot of those who wait in line.
 */

export const limitsCommon = `
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
`;

export const limitsPerQueue = `
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
`;
