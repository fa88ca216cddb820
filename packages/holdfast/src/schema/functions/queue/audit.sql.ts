/** Counting on in the audit and pruning it. */
import type { FunctionFile } from '../../function-file.js';

export const audit: FunctionFile = {
  name: 'audit',
  of: 'schema',
  text: `
-- An act in batches counts on in its row. With the rights of the owner, so that nobody needs the right to change other
-- rows: a session raises the counts of its own role only, for a day. False: there is no such row.
CREATE OR REPLACE FUNCTION holdfast.count_act(counted uuid, more bigint) RETURNS boolean
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
  UPDATE holdfast.audit AS a SET jobs = a.jobs + more
  WHERE a.id = counted AND a.role = session_user AND a.at > now() - interval '1 day' AND more > 0;
  RETURN FOUND;
END
$fn$;
REVOKE ALL ON FUNCTION holdfast.count_act(uuid, bigint) FROM PUBLIC;

-- With the rights of the owner, so that maintenance needs no right to delete anything else of it. Acts of a queue
-- that was dropped, and those that are not about one queue, are kept for the longest retention.
CREATE OR REPLACE FUNCTION holdfast.prune_audit(most integer) RETURNS bigint
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
  pruned bigint;
BEGIN
  DELETE FROM holdfast.audit AS a
  WHERE a.id = ANY (ARRAY(
    SELECT old.id FROM holdfast.audit AS old
    -- What is younger than the shortest retention is not even read.
    WHERE old.at < now() - (SELECT min(q.audit_retention) FROM holdfast.queues AS q)
      AND old.at < now() - coalesce(
        (SELECT q.audit_retention FROM holdfast.queues AS q WHERE q.name = old.queue),
        (SELECT max(q.audit_retention) FROM holdfast.queues AS q))
    ORDER BY old.at
    LIMIT most));
  GET DIAGNOSTICS pruned = ROW_COUNT;
  RETURN pruned;
END
$fn$;
REVOKE ALL ON FUNCTION holdfast.prune_audit(integer) FROM PUBLIC;
`,
};
