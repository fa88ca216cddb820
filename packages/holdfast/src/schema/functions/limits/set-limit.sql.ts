/** Setting a limit of a queue, or of a type in it. */
import type { FunctionFile } from '../../function-file.js';

export const setLimit: FunctionFile = {
  name: 'set-limit',
  of: 'queue',
  text: `
-- Sets a limit of this queue or of a type in it; true: something changed. act: declare (what code says; all NULL: it
-- says nothing any more), set (an operator's value), reset (back to what is declared), remove. Jobs that wait are not
-- touched: a claim reads the limit as it is then.
CREATE OR REPLACE FUNCTION holdfast.inbox_set_limit(
  act text, of_type text, new_concurrency integer, new_limit integer, new_per interval, new_burst integer,
  with_keys boolean
) RETURNS boolean LANGUAGE plpgsql AS $fn$
DECLARE
  was holdfast.limits;
  wanted holdfast.limits;
BEGIN
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
  END IF;
  IF act = 'remove' OR NOT wanted.overridden AND wanted.concurrency IS NULL AND wanted.rate_limit IS NULL THEN
    DELETE FROM holdfast.limits AS l WHERE l.id = was.id;
    -- Nobody starts under it: its row is locked, and claims look for it again.
    DELETE FROM holdfast.rates AS r WHERE r.limit_id = was.id;
    RETURN true;
  ELSIF wanted IS NOT DISTINCT FROM was THEN
    RETURN false;
  ELSIF was.concurrency IS NULL THEN
    -- What workers said while nothing was counted is old.
    DELETE FROM holdfast.permits AS p WHERE p.limit_id = was.id;
  END IF;
  UPDATE holdfast.limits AS l
  SET (concurrency, rate_limit, rate_per, rate_burst, keyed, declared_concurrency, declared_rate_limit,
      declared_rate_per, declared_rate_burst, overridden, updated_at)
    = (wanted.concurrency, wanted.rate_limit, wanted.rate_per, wanted.rate_burst, wanted.keyed,
      wanted.declared_concurrency, wanted.declared_rate_limit, wanted.declared_rate_per,
      -- By this time what waits for a token is scaled. Nobody is paying: the row is locked.
      wanted.declared_rate_burst, wanted.overridden, clock_timestamp())
  WHERE l.id = was.id;
  RETURN true;
END
$fn$;
`,
};
