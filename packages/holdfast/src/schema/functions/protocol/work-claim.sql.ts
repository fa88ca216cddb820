/** A claim as a whole: suspects, what has waited for too long, and the queue as it is read. */
import { ALONE_FROM, SUSPECTS_LOCK } from '../../../claim/suspects.js';
import type { FunctionFile } from '../../function-file.js';
import { verbName } from './verbatim.js';

export const workClaim: FunctionFile = {
  name: 'protocol-work-claim',
  of: 'queue',
  text: `
-- Takes suspects, if some are due. ends: this claim takes nothing else, because one of them runs alone, or because one waits
-- for this worker to hold nothing. is_busy: it holds jobs.
CREATE OR REPLACE FUNCTION holdfast.inbox_work_suspects(
  the_worker text, the_lease_ms integer, the_most integer, the_handled jsonb, is_busy boolean, OUT jobs uuid[], OUT ends boolean
) LANGUAGE plpgsql AS $fn$
DECLARE
  one  record;
BEGIN
  jobs := '{}';
  ends := false;
  SELECT count(*) AS due, count(*) FILTER (WHERE s.crashes >= ${ALONE_FROM}) AS alone INTO one
  FROM (SELECT s.crashes FROM holdfast.inbox AS s
    WHERE s.crashes > 1 AND s.status = 'pending' AND s.available_at <= now() AND the_handled ? s.type LIMIT 1000) AS s;
  IF one.due = 0 THEN
    RETURN;
  ELSIF is_busy AND one.alone > 0 AND holdfast.inbox_worker_drains(the_worker) THEN
    ends := true;
    RETURN;
  ELSIF is_busy AND one.alone > 0 AND EXISTS (SELECT FROM holdfast.inbox AS s WHERE s.crashes >= ${ALONE_FROM} AND s.crashes > 1
    AND s.status = 'pending' AND greatest(s.available_at, (s.history -> -1 ->> 'at')::timestamptz) > now() - interval '30 seconds') THEN
    -- A worker that holds nothing takes it.
    RETURN;
  END IF;
  SELECT coalesce(array_agg(c.id) FILTER (WHERE c.id IS NOT NULL), '{}'), coalesce(bool_or(c.crashes >= ${ALONE_FROM}), false)
  INTO jobs, ends
  FROM holdfast.${verbName('claim_suspects')}(the_worker, the_lease_ms, nextval('holdfast.inbox_position_seq'), '{}', the_most,
    NULL, ARRAY(SELECT jsonb_object_keys(the_handled)), the_handled, ${SUSPECTS_LOCK}) AS c;
  IF ends AND is_busy THEN
    -- It has waited for long enough: it runs beside others, and a crash spends no attempt.
    UPDATE holdfast.inbox AS i SET isolated = false WHERE i.id = ANY (jobs) AND i.isolated;
    ends := false;
  END IF;
END
$fn$;

-- What worker_claim() does in one queue. others: how many jobs of other queues the worker holds.
CREATE OR REPLACE FUNCTION holdfast.inbox_work(
  the_worker text, the_most integer, the_lease_ms integer, the_handled jsonb, the_others bigint, the_place jsonb
) RETURNS TABLE (
  id uuid, type text, version integer, payload jsonb, headers jsonb, partition_key text, generation bigint, attempt integer,
  max_attempts integer, priority integer, crashes integer, created_at timestamptz, lease_expires_at timestamptz
) LANGUAGE plpgsql AS $fn$
#variable_conflict use_column
DECLARE
  queue holdfast.queues;
  mine  record;
  got   record;
  jobs  uuid[];
BEGIN
  SELECT q.* INTO queue FROM holdfast.queues AS q WHERE q.name = 'inbox';
  SELECT h.* INTO mine FROM holdfast.inbox_worker_holds(the_worker) AS h;
  IF queue.paused OR mine.alone THEN
    RETURN;
  END IF;
  SELECT s.* INTO got
  FROM holdfast.inbox_work_suspects(the_worker, the_lease_ms, the_most, the_handled, mine.held + the_others > 0) AS s;
  jobs := got.jobs;
  IF NOT got.ends AND cardinality(jobs) < the_most THEN
    jobs := jobs || holdfast.inbox_work_ordered(the_worker, the_lease_ms, mine.finished, the_most - cardinality(jobs), the_handled,
      queue.ordering, queue.age_after, the_place);
  END IF;
  -- It starts what it got: what crashed a worker before is to blame for the next crash.
  UPDATE holdfast.inbox AS i SET started = true WHERE i.id = ANY (jobs) AND i.crashes > 0;
  RETURN QUERY
  SELECT i.* FROM unnest(jobs) WITH ORDINALITY AS j(id, nth)
  CROSS JOIN LATERAL (
    SELECT i.id, i.type, i.version::integer, i.payload, i.headers, i.partition_key, i.lease_generation, i.attempts,
      i.max_attempts::integer, i.priority::integer, i.crashes, i.created_at, i.lease_expires_at
    FROM holdfast.inbox AS i WHERE i.id = j.id LIMIT 1
  ) AS i
  ORDER BY j.nth;
END
$fn$;
`,
};

export const workOrdered: FunctionFile = {
  name: 'protocol-work-ordered',
  of: 'queue',
  text: `
-- Takes jobs in the way in which the queue is read. A quarter of the claims first take what has waited for too long.
CREATE OR REPLACE FUNCTION holdfast.inbox_work_ordered(
  the_worker text, the_lease_ms integer, the_finished bigint[], the_most integer, the_handled jsonb,
  the_ordering holdfast.ordering, the_age interval, the_place jsonb
) RETURNS uuid[] LANGUAGE plpgsql AS $fn$
DECLARE
  jobs  uuid[] := '{}';
  more  uuid[];
  place jsonb := the_place;
  -- Half of the claims begin with the keys of rates, so that neither waits for the other.
  first boolean := random() < 0.5;
BEGIN
  IF the_ordering = 'turns' THEN
    SELECT t.jobs, t.place INTO jobs, place
    FROM holdfast.inbox_work_turns(the_worker, the_lease_ms, the_finished, the_most, the_handled, the_place) AS t;
  ELSIF the_ordering <> 'none' THEN
    SELECT k.jobs, k.place INTO jobs, place
    FROM holdfast.inbox_work_keys(the_worker, the_lease_ms, the_finished, the_most, the_handled, the_place) AS k;
  ELSE
    IF first THEN
      SELECT r.jobs, r.place INTO jobs, place
      FROM holdfast.inbox_work_rates(the_worker, the_lease_ms, '{}', the_most, the_handled, the_place) AS r;
    END IF;
    IF the_age IS NOT NULL AND random() < 0.25 AND cardinality(jobs) < the_most THEN
      jobs := jobs || holdfast.inbox_work_time(the_worker, the_lease_ms, '{}', the_most - cardinality(jobs), the_handled, true);
    END IF;
    IF cardinality(jobs) < the_most THEN
      jobs := jobs || holdfast.inbox_work_time(the_worker, the_lease_ms, the_finished, the_most - cardinality(jobs), the_handled, false);
    END IF;
    IF NOT first AND cardinality(jobs) < the_most THEN
      SELECT r.jobs, r.place INTO more, place
      FROM holdfast.inbox_work_rates(the_worker, the_lease_ms, '{}', the_most - cardinality(jobs), the_handled, the_place) AS r;
      jobs := jobs || more;
    END IF;
  END IF;
  IF place IS DISTINCT FROM the_place THEN
    UPDATE holdfast.workers AS w SET metadata = jsonb_set(w.metadata, '{places}',
      coalesce(w.metadata -> 'places', '{}') || jsonb_build_object('inbox', place))
    WHERE w.id = the_worker;
  END IF;
  RETURN jobs;
END
$fn$;
`,
};
