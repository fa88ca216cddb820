/** Unique keys of jobs that come back. */
import type { FunctionFile } from '../../function-file.js';
import { grantAsUnique } from './grant-as-unique.js';

export const retakeUnique: FunctionFile = {
  name: 'retake-unique',
  of: 'queue',
  text: `
-- A job that a replay brings back takes its unique key again, unless another job has it. Of several jobs with one key, the
-- last takes it. The row of a key is locked first, in the order of all, and read only then. The function runs with the
-- rights of the owner, so whoever may replay needs no others.
CREATE OR REPLACE FUNCTION holdfast.inbox_retake_unique(types text[], keys text[], ids uuid[])
  RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off AS $fn$
DECLARE
  wanted record;
BEGIN
  FOR wanted IN
    SELECT DISTINCT ON (w.type, w.key) w.type, w.key, w.id
    FROM unnest(types, keys, ids) WITH ORDINALITY AS w(type, key, id, nth)
    ORDER BY w.type, w.key, w.nth DESC
  LOOP
    INSERT INTO holdfast.inbox_unique (type, key, jobs, prune_at)
    VALUES (wanted.type, wanted.key, '{}', now() + interval '10 minutes')
    ON CONFLICT (type, key) DO UPDATE SET key = excluded.key;
    UPDATE holdfast.inbox_unique AS u
    SET jobs = ARRAY[wanted.id], prune_at = greatest(u.prune_at, now() + interval '10 minutes')
    WHERE u.type = wanted.type AND u.key = wanted.key AND (u.kept_until > statement_timestamp()) IS NOT TRUE
      AND NOT EXISTS (SELECT FROM holdfast.inbox AS i WHERE i.id = ANY (u.jobs) AND i.status <> 'dead_letter');
  END LOOP;
  RETURN true;
END
$fn$;
REVOKE EXECUTE ON FUNCTION holdfast.inbox_retake_unique FROM PUBLIC;
-- Whoever may enqueue under a unique key may bring a job back under it.
${grantAsUnique('inbox_retake_unique')}`,
};
