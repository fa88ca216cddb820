/** Counting the jobs that wait, for queues with a limit of them. */
import type { FunctionFile } from '../../function-file.js';

export const countWaiting: FunctionFile = {
  name: 'count-waiting',
  of: 'queue',
  text: `
-- Counts the jobs that wait, up to the limit of the queue, unless that was done within the last second or somebody
-- does it just now. Where counting takes long, it is done more rarely. With the rights of the owner, so that producers
-- need no others. The queue is read through its index: the table may be much larger than what is in it.
CREATE OR REPLACE FUNCTION holdfast.inbox_count_waiting() RETURNS bigint
  LANGUAGE plpgsql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off AS $fn$
DECLARE
  settings holdfast.queues;
  began timestamptz := clock_timestamp();
  jobs bigint;
BEGIN
  SELECT q.* INTO settings FROM holdfast.queues AS q WHERE q.name = 'inbox';
  IF settings.max_pending IS NULL OR settings.recount_at > began
    -- Those from 1 on are the mutexes of buckets.
    OR NOT pg_try_advisory_xact_lock('holdfast.inbox'::regclass::oid::integer, -1) THEN
    RETURN settings.waiting;
  END IF;
  SELECT count(*) INTO jobs
  FROM (SELECT FROM holdfast.inbox AS i
    -- Not those of runs that wait for something: they are no work yet.
    WHERE i.status = 'pending' AND (i.wait_until = i.available_at AND i.available_at > now()) IS NOT TRUE ORDER BY i.id
    LIMIT settings.max_pending::bigint + 1) AS w;
  UPDATE holdfast.queues AS q
  SET waiting = jobs, waiting_at = began,
      recount_at = clock_timestamp() + greatest(interval '1 second', 20 * (clock_timestamp() - began))
  WHERE q.name = 'inbox';
  RETURN jobs;
END
$fn$;
REVOKE EXECUTE ON FUNCTION holdfast.inbox_count_waiting FROM PUBLIC;
`,
};
