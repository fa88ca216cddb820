/** Enqueueing in SQL. */
import type { FunctionFile } from '../../function-file.js';

export const enqueue: FunctionFile = {
  name: 'enqueue',
  of: 'queue',
  text: `
-- Enqueue for producers in any language and for triggers. Everything is checked before it is written;
-- a refusal is an error that, as any error in SQL, ends the caller's transaction.
CREATE OR REPLACE FUNCTION holdfast.inbox_enqueue(
  type text, payload jsonb,
  partition_key text DEFAULT NULL, idempotency_key text DEFAULT NULL,
  delay interval DEFAULT NULL, available_at timestamptz DEFAULT NULL,
  priority integer DEFAULT 2, max_attempts integer DEFAULT 5, headers jsonb DEFAULT NULL, version integer DEFAULT 1,
  unique_key text DEFAULT NULL, unique_while text DEFAULT 'pending',
  on_conflict text DEFAULT 'ignore', unique_window interval DEFAULT NULL,
  group_key text DEFAULT NULL, limit_key text DEFAULT NULL,
  OUT id uuid, OUT deduplicated boolean
) LANGUAGE plpgsql AS $fn$
#variable_conflict use_column
DECLARE
  a_type ALIAS FOR type;  a_payload ALIAS FOR payload;  a_key ALIAS FOR partition_key;  a_idempotency_key ALIAS FOR idempotency_key;
  a_delay ALIAS FOR delay;  a_available_at ALIAS FOR available_at;  a_priority ALIAS FOR priority;
  a_max_attempts ALIAS FOR max_attempts;  a_headers ALIAS FOR headers;  a_version ALIAS FOR version;
  a_unique ALIAS FOR unique_key;  a_while ALIAS FOR unique_while;  a_conflict ALIAS FOR on_conflict;  a_window ALIAS FOR unique_window;
  a_group ALIAS FOR group_key;  a_limit_key ALIAS FOR limit_key;  o_id ALIAS FOR id;  o_deduplicated ALIAS FOR deduplicated;
  standing uuid;
  stream text;
  due timestamptz;
  settings record;
BEGIN
  SELECT q.max_payload_bytes, q.max_pending, q.waiting INTO settings FROM holdfast.queues AS q WHERE q.name = 'inbox';
  PERFORM holdfast.check_job(a_type, a_payload, a_key, a_group, a_idempotency_key, a_headers, settings.max_payload_bytes);
  IF settings.waiting >= settings.max_pending THEN
    RAISE EXCEPTION 'queue % is full, % jobs may wait: nothing was enqueued', quote_literal('inbox'), settings.max_pending
      USING ERRCODE = 'HF006', HINT = 'Try again later, add workers, or raise max_pending.';
  ELSIF a_delay IS NOT NULL AND a_available_at IS NOT NULL THEN
    RAISE EXCEPTION 'both delay and available_at were given: nothing was enqueued'
      USING ERRCODE = 'HF002', HINT = 'Give one of them.';
  ELSIF a_delay < '0' OR a_delay > '3650 days' OR a_available_at > now() + interval '3650 days' THEN
    RAISE EXCEPTION 'the delay is negative or longer than ten years: nothing was enqueued'
      USING ERRCODE = 'HF002', HINT = 'Give a delay between 0 and 3650 days.';
  ELSIF a_priority IS NULL OR a_priority NOT BETWEEN 1 AND 4 THEN
    RAISE EXCEPTION 'the priority is %: nothing was enqueued', coalesce(a_priority::text, 'NULL')
      USING ERRCODE = 'HF002', HINT = 'Give 1 (first) to 4 (last); 2 is the default.';
  ELSIF a_max_attempts NOT BETWEEN 1 AND 10000 OR a_version IS NULL OR a_version < 1 THEN
    RAISE EXCEPTION 'max_attempts or version is out of range: nothing was enqueued'
      USING ERRCODE = 'HF002', HINT = 'max_attempts is 1 to 10000, version is 1 or more.';
  ELSIF a_unique IS NOT NULL AND a_idempotency_key IS NOT NULL THEN
    RAISE EXCEPTION 'both unique_key and idempotency_key were given: nothing was enqueued'
      USING ERRCODE = 'HF002', HINT = 'Give one of them: they may stand for two different jobs.';
  ELSIF a_limit_key = '' OR octet_length(a_limit_key) > 512 THEN
    RAISE EXCEPTION 'the limit key is empty or longer than 512 bytes: nothing was enqueued'
      USING ERRCODE = 'HF002', HINT = 'Pass 1 to 512 bytes, or NULL for none.';
  END IF;

  o_id := holdfast.new_id();
  o_deduplicated := false;
  IF a_idempotency_key IS NOT NULL THEN
    standing := holdfast.inbox_take_key(a_idempotency_key, o_id, a_type, a_payload);
    IF standing <> o_id THEN
      o_id := standing;
      o_deduplicated := true;
      RETURN;
    END IF;
  END IF;

  stream := coalesce(a_key, o_id::text);
  -- A time in the past means now: nobody jumps the queue by naming an old date.
  due := greatest(coalesce(a_available_at, statement_timestamp() + a_delay), statement_timestamp());
  IF a_unique IS NOT NULL THEN
    SELECT u.job_id, u.outcome <> 'written' INTO o_id, o_deduplicated
    FROM holdfast.inbox_enqueue_unique(o_id, a_type, a_version, stream,
      holdfast.bucket_of(coalesce(a_group, stream)), a_payload, a_headers, a_priority, coalesce(a_max_attempts, 5), due,
      a_unique, a_while, a_conflict, a_window, a_group, a_limit_key) AS u;
    RETURN;
  END IF;
  INSERT INTO holdfast.inbox (id, available_at, partition_bucket, type, partition_key, payload,
    priority, max_attempts, headers, version, idempotency_key, group_key, limit_key, parked)
  VALUES (o_id, due, holdfast.bucket_of(coalesce(a_group, stream)), a_type, stream, a_payload, a_priority,
    coalesce(a_max_attempts, 5), a_headers, a_version, a_idempotency_key, a_group, a_limit_key, false);
END
$fn$;
`,
};
