/** Setting a limit. */
import type { FunctionFile } from '../function-file.js';

export const setLimit: FunctionFile = {
  name: 'set-limit',
  of: 'queue',
  text: `
-- Sets a limit of this queue or of a type in it; true: something changed. act: declare (what code says; all NULL: it
-- says nothing any more), set (an operator's value), reset (back to what is declared), remove. When the rate changes,
-- the slots of those who wait are moved in the same transaction: nearer or further in the proportion of the paces.
CREATE OR REPLACE FUNCTION holdfast.inbox_set_limit(
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
`,
};
