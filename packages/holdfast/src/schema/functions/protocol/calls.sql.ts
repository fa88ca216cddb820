/**
 * The calls of a worker in another language on its jobs. Each finds the queue, and hands on to the function of that queue.
 *
 * The worker need not name the queue of a job: it is looked for in those that the worker serves.
 */
import type { FunctionFile } from '../../function-file.js';
import { SAFE } from './safe.js';

export const claimCall: FunctionFile = {
  name: 'protocol-claim',
  of: 'schema',
  text: `
-- Takes up to so many jobs that are due, for so long. Take what you start at once: what crashed a worker before counts as
-- started. types: only these, of those that the worker handles. A worker that drains gets none, and one that is dead an error.
CREATE OR REPLACE FUNCTION holdfast.worker_claim(
  worker text, queue text DEFAULT 'inbox', most integer DEFAULT 1, lease interval DEFAULT '90 seconds', types text[] DEFAULT NULL
) RETURNS TABLE (
  id uuid, type text, version integer, payload jsonb, headers jsonb, partition_key text, generation bigint, attempt integer,
  max_attempts integer, priority integer, crashes integer, created_at timestamptz, lease_expires_at timestamptz
) ${SAFE} AS $fn$
#variable_conflict use_variable
DECLARE
  me      record;
  other   text;
  it      record;
  handled jsonb;
  others  bigint := 0;
BEGIN
  SELECT w.status, w.handles, nullif(w.metadata -> 'places' -> queue, 'null') AS place INTO me
  FROM holdfast.workers AS w WHERE w.id = worker AND w.metadata ? 'sqlProtocol';
  IF NOT FOUND OR me.status = 'dead' THEN
    RAISE EXCEPTION 'the worker % is dead or was never registered: it claims nothing, and what it held is lost', quote_nullable(worker)
      USING ERRCODE = 'HF008', HINT = 'Call worker_register() again, and go on under the new id.';
  ELSIF me.handles -> queue IS NULL OR NOT EXISTS (SELECT FROM holdfast.queues AS q WHERE q.name = queue) THEN
    RAISE EXCEPTION 'the worker % does not serve queue %: nothing was claimed', worker, quote_nullable(queue)
      USING ERRCODE = 'HF002', HINT = 'Name the queue in worker_register().';
  ELSIF most IS NULL OR most NOT BETWEEN 1 AND 1000 OR lease IS NULL OR lease < '1 second' OR lease > '1 day' THEN
    RAISE EXCEPTION 'most or lease is out of range: nothing was claimed'
      USING ERRCODE = 'HF002', HINT = 'Give 1 to 1000 jobs, and a lease of 1 second to 1 day.';
  END IF;
  SELECT jsonb_object_agg(h.key, h.value) INTO handled FROM jsonb_each(me.handles -> queue) AS h
  WHERE (h.key = ANY (types)) IS NOT FALSE;
  IF me.status <> 'alive' OR handled IS NULL THEN
    RETURN;
  END IF;
  -- What runs alone runs alone in its process, whatever the queue is.
  FOR other IN SELECT q.name FROM jsonb_object_keys(me.handles) AS h(name) JOIN holdfast.queues AS q ON q.name = h.name
    WHERE h.name <> queue ORDER BY 1
  LOOP
    EXECUTE format('SELECT h.held, h.alone FROM holdfast.%I(%L) AS h', other || '_worker_holds', worker) INTO it;
    IF it.alone THEN
      RETURN;
    END IF;
    others := others + it.held;
  END LOOP;
  RETURN QUERY EXECUTE format('SELECT * FROM holdfast.%I(%L, %L, %L, %L, %L, %L)', queue || '_work', worker, most,
    ceil(extract(epoch FROM lease) * 1000), handled, others, me.place);
END
$fn$;
REVOKE EXECUTE ON FUNCTION holdfast.worker_claim FROM PUBLIC;

-- Renews leases. Returns the jobs that the worker still holds: of all others it must stop, and settle nothing.
CREATE OR REPLACE FUNCTION holdfast.worker_renew(
  worker text, jobs uuid[], generations bigint[], lease interval DEFAULT '90 seconds', queue text DEFAULT NULL
) RETURNS SETOF uuid ${SAFE} AS $fn$
DECLARE
  one text;
BEGIN
  IF cardinality(jobs) IS DISTINCT FROM cardinality(generations) OR lease IS NULL OR lease < '1 second' OR lease > '1 day' THEN
    RAISE EXCEPTION 'jobs and generations differ in length, or the lease is out of range: no lease was renewed'
      USING ERRCODE = 'HF002', HINT = 'Give a generation for each job, and a lease of 1 second to 1 day.';
  END IF;
  FOREACH one IN ARRAY holdfast.worker_queues(worker, queue) LOOP
    RETURN QUERY EXECUTE format('SELECT r.id FROM holdfast.%I(%L, %L, %L, %L) AS r', one || '_verb_renew', worker, jobs, generations,
      ceil(extract(epoch FROM lease) * 1000));
  END LOOP;
END
$fn$;
REVOKE EXECUTE ON FUNCTION holdfast.worker_renew FROM PUBLIC;
`,
};

/** A call that settles one job: its name, the parameters of its own, what it says and how long it asks to wait. */
const settling = (
  name: string,
  verb: string,
  params: string,
  said: string,
  delay: string,
  what: string,
) => `
-- ${what}
CREATE OR REPLACE FUNCTION holdfast.${name}(worker text, job uuid, generation bigint${params}, queue text DEFAULT NULL)
  RETURNS text ${SAFE} AS $fn$
BEGIN
  RETURN holdfast.worker_settle('${verb}', worker, job, generation, queue, ${said}, ${delay});
END
$fn$;
REVOKE EXECUTE ON FUNCTION holdfast.${name} FROM PUBLIC;
`;

export const settleCalls: FunctionFile = {
  name: 'protocol-settle-calls',
  of: 'schema',
  text: [
    `
-- The queues in which a worker's job may be: the one that is named, or those that the worker serves, or the first queue.
CREATE OR REPLACE FUNCTION holdfast.worker_queues(worker text, queue text) RETURNS text[] LANGUAGE plpgsql AS $fn$
DECLARE
  found text[];
BEGIN
  SELECT array_agg(q.name ORDER BY q.name) INTO found FROM holdfast.queues AS q
  WHERE q.name = coalesce(queue, 'inbox') AND queue IS NOT NULL
    OR queue IS NULL AND q.name IN (SELECT jsonb_object_keys(w.handles) FROM holdfast.workers AS w WHERE w.id = worker);
  IF found IS NULL AND queue IS NOT NULL THEN
    RAISE EXCEPTION 'there is no queue %: nothing was done', quote_literal(queue) USING ERRCODE = 'HF002';
  END IF;
  RETURN coalesce(found, ARRAY['inbox']);
END
$fn$;

-- Settles a job of a worker wherever it is.
CREATE OR REPLACE FUNCTION holdfast.worker_settle(
  verb text, worker text, job uuid, generation bigint, queue text, said text, delay_ms bigint
) RETURNS text LANGUAGE plpgsql AS $fn$
DECLARE
  one   text;
  state text;
BEGIN
  IF delay_ms NOT BETWEEN 0 AND 315360000000 THEN
    RAISE EXCEPTION 'the delay is negative or longer than ten years: nothing was done' USING ERRCODE = 'HF002';
  END IF;
  FOREACH one IN ARRAY holdfast.worker_queues(worker, queue) LOOP
    EXECUTE format('SELECT holdfast.%I(%L, %L, %L, %L, %L, %L)', one || '_worker_settle', verb, worker, job, generation, said, delay_ms)
    INTO state;
    EXIT WHEN state <> 'lost';
  END LOOP;
  RETURN state;
END
$fn$;
`,
    `
-- What was done is done: the job goes to the archive. A result of more than 8 KiB is not kept. Returns 'completed' or 'lost'.
CREATE OR REPLACE FUNCTION holdfast.worker_complete(
  worker text, job uuid, generation bigint, result jsonb DEFAULT NULL, queue text DEFAULT NULL
) RETURNS text ${SAFE} AS $fn$
BEGIN
  IF octet_length(result::text) > 8192 THEN
    RAISE WARNING 'the result of job % has % bytes, the limit is 8192: it was not kept', job, octet_length(result::text);
    result := NULL;
  END IF;
  RETURN holdfast.worker_settle('complete', worker, job, generation, queue, nullif(result, 'null')::text, 0);
END
$fn$;
REVOKE EXECUTE ON FUNCTION holdfast.worker_complete FROM PUBLIC;

-- The same for many jobs of one queue, in one statement. results: an object by the id of the job. Returns the jobs that were
-- completed; the others are lost.
CREATE OR REPLACE FUNCTION holdfast.worker_complete_many(
  worker text, jobs uuid[], generations bigint[], results jsonb DEFAULT NULL, queue text DEFAULT 'inbox'
) RETURNS SETOF uuid ${SAFE} AS $fn$
BEGIN
  IF cardinality(jobs) IS DISTINCT FROM cardinality(generations) THEN
    RAISE EXCEPTION 'jobs and generations differ in length: nothing was completed'
      USING ERRCODE = 'HF002', HINT = 'Give a generation for each job.';
  END IF;
  results := (SELECT jsonb_object_agg(r.key, r.value) FROM jsonb_each(results) AS r
    WHERE r.value <> 'null' AND octet_length(r.value::text) <= 8192);
  -- One row without an id says that all were.
  RETURN QUERY EXECUTE format('SELECT j.id FROM holdfast.%I(%L, %L, %L, %L) AS c CROSS JOIN LATERAL unnest('
      'CASE WHEN c.id IS NOT NULL THEN ARRAY[c.id] WHEN c.moved > 0 THEN %L::uuid[] END) AS j(id)',
    (holdfast.worker_queues(worker, queue))[1] || '_verb_complete', worker, jobs, generations, results, jobs);
END
$fn$;
REVOKE EXECUTE ON FUNCTION holdfast.worker_complete_many FROM PUBLIC;
`,
    settling(
      ...(['worker_fail', 'fail'] as const),
      ', error text, retry_in interval DEFAULT NULL',
      'error',
      'floor(extract(epoch FROM retry_in) * 1000)::bigint',
      `The attempt failed. It is tried again after retry_in, or after a random time under the usual ceiling. Returns 'pending',\n-- 'dead_letter' if it was the last attempt, or 'lost'.`,
    ),
    settling(
      ...(['worker_dead_letter', 'dead_letter', ', error text', 'error', '0'] as const),
      `It is not tried again until a human says so. Returns 'dead_letter' or 'lost'.`,
    ),
    settling(
      ...(['worker_release', 'release', '', 'NULL', '0'] as const),
      `It goes back as if it had never been claimed. Returns 'pending' or 'lost'.`,
    ),
    settling(
      ...(['worker_snooze', 'snooze', ', delay interval', 'NULL'] as const),
      'floor(extract(epoch FROM delay) * 1000)::bigint',
      `It is to run again after a while, and this was no attempt. Returns 'pending' or 'lost'.`,
    ),
    settling(
      ...(['worker_cancel', 'cancel', ', reason text', 'reason', '0'] as const),
      `The work is not wanted any more. Returns 'cancelled' or 'lost'.`,
    ),
  ].join(''),
};
