/** Settling one job by the fence of its owner, in one queue. */
import { DEFAULT_RETRY } from '../../../job/retry.js';
import type { FunctionFile } from '../../function-file.js';
import { verbName } from './verbatim.js';

const { baseMs, factor, capMs } = DEFAULT_RETRY;
/** What the engine keeps of an error in all, and of its first line in the history (job/errors/failure.ts, worker/run/attempt.ts). */
const ERROR_BYTES = 8192;
const SUMMARY_CHARS = 300;

export const settleOne: FunctionFile = {
  name: 'protocol-settle',
  of: 'queue',
  text: `
-- Settles a job. said: the error, the reason, or the result as JSON; delay_ms: of a failure NULL for a random time under the
-- usual ceiling. Returns its state afterwards, or 'lost': the worker does not hold it in this generation, and nothing was changed.
CREATE OR REPLACE FUNCTION holdfast.inbox_worker_settle(
  the_verb text, the_worker text, the_id uuid, the_generation bigint, said text, delay_ms bigint
) RETURNS text LANGUAGE plpgsql AS $fn$
DECLARE
  ids    CONSTANT uuid[] := ARRAY[the_id];
  fences CONSTANT bigint[] := ARRAY[the_generation];
  one    record;
  error  text := holdfast.cut_text(said, ${ERROR_BYTES});
  facts  text;
BEGIN
  IF the_verb = 'fail' AND delay_ms IS NULL THEN
    delay_ms := floor(random() * least(${capMs}, ${baseMs} * ${factor} ^ least(32, (
      SELECT i.attempts FROM holdfast.inbox AS i WHERE i.id = the_id))));
  END IF;
  facts := jsonb_build_object(the_id, jsonb_build_object('delay', coalesce(delay_ms, 0), 'reason', error,
    'summary', CASE WHEN length(split_part(error, chr(10), 1)) > ${SUMMARY_CHARS}
      THEN left(error, ${SUMMARY_CHARS - 3}) || '...' ELSE split_part(error, chr(10), 1) END));
  CASE the_verb
    WHEN 'complete' THEN
      SELECT 'completed' AS state, NULL::timestamptz AS woken INTO one
      FROM holdfast.${verbName('complete')}(the_worker, ids, fences,
        CASE WHEN said IS NOT NULL THEN jsonb_build_object(the_id, said::jsonb)::text END) AS m WHERE m.moved = 1;
    WHEN 'fail' THEN
      SELECT f.status::text AS state, f.woken_at AS woken, f.partition_bucket AS bucket, f.untold INTO one
      FROM holdfast.${verbName('fail')}(the_worker, ids, fences, facts, jsonb_build_object(the_id, error)::text) AS f;
      PERFORM holdfast.warn_untold(the_id, one.untold);
    WHEN 'dead_letter' THEN
      SELECT d.status::text AS state, NULL::timestamptz AS woken, d.untold INTO one
      FROM holdfast.${verbName('dead_letter')}(the_worker, ids, fences, facts, jsonb_build_object(the_id, error)::text) AS d;
      PERFORM holdfast.warn_untold(the_id, one.untold);
    WHEN 'release' THEN
      SELECT 'pending' AS state, r.run_at AS woken, r.partition_bucket AS bucket INTO one
      FROM holdfast.${verbName('release')}(the_worker, ids, fences) AS r;
    WHEN 'snooze' THEN
      SELECT 'pending' AS state, s.woken_at AS woken, s.partition_bucket AS bucket INTO one
      FROM holdfast.${verbName('snooze')}(the_worker, ids, fences, facts) AS s;
    WHEN 'cancel' THEN
      SELECT 'cancelled' AS state, NULL::timestamptz AS woken INTO one
      FROM holdfast.${verbName('cancel_own')}(the_worker, ids, fences, facts) AS c;
  END CASE;
  IF one.woken IS NOT NULL THEN
    -- Cursors of others have passed it.
    PERFORM holdfast.${verbName('notify_queue')}(one.woken::text, one.bucket::text, 'holdfast.notify');
  END IF;
  RETURN coalesce(one.state, 'lost');
END
$fn$;

-- Hands back all that a worker holds of this queue, unspent. Returns how many jobs.
CREATE OR REPLACE FUNCTION holdfast.inbox_worker_release(the_worker text) RETURNS bigint LANGUAGE plpgsql AS $fn$
DECLARE
  ids    uuid[];
  fences bigint[];
  one    record;
BEGIN
  SELECT array_agg(i.id ORDER BY i.id), array_agg(i.lease_generation ORDER BY i.id) INTO ids, fences
  FROM (SELECT DISTINCT j.id FROM holdfast.inbox_claims AS c CROSS JOIN LATERAL unnest(c.jobs) AS j(id)
    WHERE c.worker_id = the_worker) AS j
  CROSS JOIN LATERAL (SELECT i.id, i.lease_generation FROM holdfast.inbox AS i
    WHERE i.id = j.id AND i.claimed_by = the_worker AND i.status = 'processing' LIMIT 1) AS i;
  SELECT count(*) AS released, min(r.run_at) AS woken INTO one FROM holdfast.${verbName('release')}(the_worker, ids, fences) AS r;
  IF one.released > 0 THEN
    PERFORM holdfast.${verbName('notify_queue')}(one.woken::text, '*', 'holdfast.notify');
  END IF;
  RETURN one.released;
END
$fn$;
`,
};

export const words: FunctionFile = {
  name: 'protocol-words',
  of: 'schema',
  text: `
-- A text in at most so many bytes, marked if it had to be cut.
CREATE OR REPLACE FUNCTION holdfast.cut_text(words text, most integer) RETURNS text
  LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $fn$
DECLARE
  mark CONSTANT text := '... [cut, ' || octet_length(words) || ' bytes]';
BEGIN
  IF octet_length(words) <= most THEN
    RETURN words;
  END IF;
  words := left(words, most);
  WHILE octet_length(words) > most - octet_length(mark) LOOP
    words := left(words, greatest(0, length(words) - greatest(1, (octet_length(words) - most + octet_length(mark)) / 4)));
  END LOOP;
  RETURN words || mark;
END
$fn$;

-- The dead letter is written all the same, and its history says it.
CREATE OR REPLACE FUNCTION holdfast.warn_untold(job uuid, why text) RETURNS void LANGUAGE plpgsql STRICT AS $fn$
BEGIN
  RAISE WARNING 'the dead letter % was written without its onDeadLetter job: %', job, why;
END
$fn$;
`,
};
