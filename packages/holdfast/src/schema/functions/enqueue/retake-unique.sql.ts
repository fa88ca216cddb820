/** Unique keys of jobs that come back. */
import type { FunctionFile } from '../../function-file.js';

export const retakeUnique: FunctionFile = {
  name: 'retake-unique',
  of: 'queue',
  text: `
-- Jobs that a replay brings back stand for their unique keys again, unless another job does. Of several under one key the
-- last does. The row of a key is locked first, in the order of all, and only then it is seen what it stands for. With the
-- rights of the owner, so that whoever may replay needs no others.
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
DO $do$
DECLARE
  holder text;
BEGIN
  FOR holder IN
    SELECT a.grantee::regrole::text
    FROM pg_proc AS p
    CROSS JOIN LATERAL aclexplode(p.proacl) AS a
    WHERE p.oid = 'holdfast.inbox_enqueue_unique'::regproc AND a.grantee <> 0 AND a.grantee <> p.proowner
  LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION holdfast.inbox_retake_unique TO %s', holder);
  END LOOP;
END
$do$;
`,
};
