/** The locks of a bulk enqueue under unique keys. */
import type { FunctionFile } from '../../function-file.js';
import { grantAsUnique } from './grant-as-unique.js';

export const lockUnique: FunctionFile = {
  name: 'lock-unique',
  of: 'queue',
  text: `
-- Takes the locks that a bulk call of inbox_enqueue_unique needs, in the one order of all: the rows of the keys by type
-- and key, then the jobs under them that wait, or could be made to, by id. Cancelling, retrying and discarding lock jobs
-- by id too, so they and the bulk call never wait for each other. A key whose job is only looked at is not locked.
CREATE OR REPLACE FUNCTION holdfast.inbox_lock_unique(types text[], keys text[], whiles text[], conflicts text[])
  RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off AS $fn$
DECLARE
  wanted record;
  held holdfast.inbox_unique;
  waiting uuid[] := '{}';
BEGIN
  FOR wanted IN
    SELECT w.type, w.key, bool_or(w.conflict <> 'ignore' OR w.during = 'pending') AS takes_job
    FROM unnest(types, keys, whiles, conflicts) AS w(type, key, during, conflict)
    WHERE w.key <> ''
    GROUP BY w.type, w.key
    ORDER BY w.type, w.key
  LOOP
    IF NOT wanted.takes_job THEN
      SELECT u.* INTO held FROM holdfast.inbox_unique AS u WHERE u.type = wanted.type AND u.key = wanted.key;
      CONTINUE WHEN held.kept_until > statement_timestamp() OR EXISTS (
        SELECT FROM holdfast.inbox AS i WHERE i.id = ANY (held.jobs) AND i.status <> 'dead_letter');
    END IF;
    LOOP
      SELECT u.* INTO held FROM holdfast.inbox_unique AS u
      WHERE u.type = wanted.type AND u.key = wanted.key FOR NO KEY UPDATE;
      EXIT WHEN FOUND;
      INSERT INTO holdfast.inbox_unique (type, key, jobs, prune_at)
      VALUES (wanted.type, wanted.key, '{}', now() + interval '10 minutes')
      ON CONFLICT DO NOTHING;
    END LOOP;
    IF wanted.takes_job THEN
      waiting := waiting || held.jobs;
    END IF;
  END LOOP;
  PERFORM FROM holdfast.inbox AS i
  WHERE i.id = ANY (waiting) AND i.status IN ('pending', 'dead_letter') AND i.lease_generation = 0
  ORDER BY i.id
  FOR UPDATE;
  RETURN true;
END
$fn$;
REVOKE EXECUTE ON FUNCTION holdfast.inbox_lock_unique FROM PUBLIC;
-- Whoever may enqueue under a unique key may do it in bulk.
${grantAsUnique('inbox_lock_unique')}`,
};
