/** Enqueueing under a unique key. */
import type { FunctionFile } from '../../function-file.js';

export const enqueueUnique: FunctionFile = {
  name: 'enqueue-unique',
  of: 'queue',
  text: `
-- Enqueues a job under a unique key, unless one stands for it; returns the job that stands then, and whether it was
-- written, ignored or replaced. The row of the key is locked, so producers of one key decide one after the other. A job
-- that waits is locked too and looked at again under the lock, so a claim takes it before this or after the caller's
-- commit, with what the caller has written; one that was claimed before is never locked. With the rights of the
-- owner, so that whoever may enqueue needs no right to change jobs. A bulk call takes keys in their own order and jobs
-- in that of its items, so it says their positions. Small tables are read through indexes too: these plans are kept
-- while the tables grow.
CREATE OR REPLACE FUNCTION holdfast.inbox_enqueue_unique(
  id uuid, type text, version integer, partition_key text, partition_bucket integer, payload jsonb, headers jsonb,
  priority integer, max_attempts integer, available_at timestamptz,
  unique_key text, unique_while text, on_conflict text, unique_window interval, group_key text, limit_key text,
  at_position bigint DEFAULT NULL, OUT job_id uuid, OUT outcome text
) LANGUAGE plpgsql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off AS $fn$
#variable_conflict use_column
DECLARE
  a_id ALIAS FOR id;  a_type ALIAS FOR type;  a_version ALIAS FOR version;  a_key ALIAS FOR partition_key;
  a_bucket ALIAS FOR partition_bucket;  a_payload ALIAS FOR payload;  a_headers ALIAS FOR headers;  a_priority ALIAS FOR priority;
  a_max_attempts ALIAS FOR max_attempts;  a_due ALIAS FOR available_at;  a_unique ALIAS FOR unique_key;  a_while ALIAS FOR unique_while;
  a_conflict ALIAS FOR on_conflict;  a_window ALIAS FOR unique_window;  a_group ALIAS FOR group_key;  a_limit_key ALIAS FOR limit_key;
  a_position ALIAS FOR at_position;  o_id ALIAS FOR job_id;  o_outcome ALIAS FOR outcome;
  held holdfast.inbox_unique;
  waiting holdfast.inbox;
  live uuid[];
BEGIN
  PERFORM holdfast.check_unique(a_unique, a_while, a_conflict, a_window);
  FOR locked IN 0 .. 1 LOOP
    IF locked = 0 THEN
      -- Whether anything stands, of whatever state, is mostly seen without a lock.
      CONTINUE WHEN a_conflict <> 'ignore' OR a_while = 'pending';
      SELECT u.* INTO held FROM holdfast.inbox_unique AS u WHERE u.type = a_type AND u.key = a_unique;
      CONTINUE WHEN NOT FOUND;
    ELSE
      INSERT INTO holdfast.inbox_unique AS u (type, key, jobs, prune_at)
      VALUES (a_type, a_unique, '{}', now() + interval '10 minutes')
      ON CONFLICT (type, key) DO UPDATE SET key = excluded.key
      RETURNING u.* INTO held;
    END IF;
    SELECT array_agg(i.id ORDER BY i.position) INTO live
    FROM holdfast.inbox AS i
    WHERE i.id = ANY (held.jobs) AND i.status <> 'dead_letter';
    IF a_conflict = 'ignore' AND a_while <> 'pending' THEN
      IF live IS NOT NULL OR a_while = 'kept' AND held.kept_until > statement_timestamp() THEN
        o_id := coalesce(live[cardinality(live)], held.jobs[cardinality(held.jobs)]);
        o_outcome := 'ignored';
        RETURN;
      END IF;
    ELSE
      SELECT i.* INTO waiting
      FROM holdfast.inbox AS i
      WHERE i.id = ANY (held.jobs) AND i.status = 'pending' AND i.lease_generation = 0
      ORDER BY i.position DESC
      LIMIT 1
      FOR UPDATE;
      IF FOUND THEN
        o_id := waiting.id;
        o_outcome := 'ignored';
        IF a_conflict = 'replace' THEN
          -- Written anew and not updated, so that workers get the hint that an insert sends.
          DELETE FROM holdfast.inbox AS i WHERE i.id = waiting.id;
          INSERT INTO holdfast.inbox (id, position, created_at, available_at, partition_bucket, type, partition_key,
            payload, priority, max_attempts, headers, version, group_key, limit_key, unique_key, parked)
          VALUES (waiting.id, waiting.position, waiting.created_at, a_due, waiting.partition_bucket,
            a_type, waiting.partition_key, a_payload, a_priority, a_max_attempts, a_headers, a_version,
            waiting.group_key, a_limit_key, a_unique, false);
          o_outcome := 'replaced';
        END IF;
        RETURN;
      END IF;
    END IF;
  END LOOP;

  INSERT INTO holdfast.inbox (id, position, available_at, partition_bucket, type, partition_key, payload, priority,
    max_attempts, headers, version, group_key, limit_key, unique_key, parked)
  VALUES (a_id, coalesce(a_position, nextval('holdfast.inbox_position_seq')), a_due, a_bucket, a_type, a_key, a_payload,
    a_priority, a_max_attempts, a_headers, a_version, a_group, a_limit_key, a_unique, false);
  UPDATE holdfast.inbox_unique AS u
  SET jobs = live || a_id,
      kept_until = CASE WHEN a_while = 'kept' THEN statement_timestamp() + coalesce(a_window,
        (SELECT q.idempotency_retention FROM holdfast.queues AS q WHERE q.name = 'inbox')) END,
      prune_at = greatest(a_due, statement_timestamp()) + interval '10 minutes'
  WHERE u.type = a_type AND u.key = a_unique;
  o_id := a_id;
  o_outcome := 'written';
END
$fn$;
REVOKE EXECUTE ON FUNCTION holdfast.inbox_enqueue_unique FROM PUBLIC;
`,
};
