/** The checks of a job that is enqueued in SQL. */
import type { FunctionFile } from '../../function-file.js';

export const checkJob: FunctionFile = {
  name: 'check-job',
  of: 'schema',
  text: `
-- What a job must be that is written in SQL. NULL for a partition key means a stream of its own.
CREATE OR REPLACE FUNCTION holdfast.check_job(
  type text, payload jsonb, key text, group_key text, idempotency_key text, headers jsonb, max_bytes integer
) RETURNS void LANGUAGE plpgsql AS $fn$
BEGIN
  IF type IS NULL OR type !~ '^[A-Za-z][A-Za-z0-9_.:-]{0,99}$' THEN
    RAISE EXCEPTION 'job type % is not valid: nothing was enqueued', quote_nullable(type)
      USING ERRCODE = 'HF002', HINT = 'Start with a letter; then letters, digits and _ . : - (at most 100).';
  ELSIF payload IS NULL THEN
    RAISE EXCEPTION 'the payload is NULL: nothing was enqueued'
      USING ERRCODE = 'HF002', HINT = 'Pass a jsonb value; the JSON null is ''null''.';
  ELSIF octet_length(payload::text) > max_bytes THEN
    RAISE EXCEPTION 'the payload has % bytes, the limit is %: nothing was enqueued',
      octet_length(payload::text), max_bytes
      USING ERRCODE = 'HF002', HINT = 'Store the data elsewhere and enqueue a reference to it.';
  ELSIF key = '' OR octet_length(key) > 512 THEN
    RAISE EXCEPTION 'the partition key is empty or longer than 512 bytes: nothing was enqueued'
      USING ERRCODE = 'HF002', HINT = 'Pass 1 to 512 bytes, or NULL for a stream of its own.';
  ELSIF group_key = '' OR octet_length(group_key) > 512 THEN
    RAISE EXCEPTION 'the group is empty or longer than 512 bytes: nothing was enqueued'
      USING ERRCODE = 'HF002', HINT = 'Pass 1 to 512 bytes, or NULL for none.';
  ELSIF idempotency_key = '' OR octet_length(idempotency_key) > 512 THEN
    RAISE EXCEPTION 'the idempotency key is empty or longer than 512 bytes: nothing was enqueued'
      USING ERRCODE = 'HF002', HINT = 'Pass 1 to 512 bytes, or NULL for none.';
  ELSIF jsonb_typeof(headers) <> 'object'
    OR jsonb_path_exists(headers, '$.* ? (@.type() <> "string")') THEN
    RAISE EXCEPTION 'headers must be a JSON object of strings: nothing was enqueued'
      USING ERRCODE = 'HF002';
  END IF;
END
$fn$;

-- What a unique key must be.
CREATE OR REPLACE FUNCTION holdfast.check_unique(
  unique_key text, unique_while text, on_conflict text, unique_window interval
) RETURNS void LANGUAGE plpgsql AS $fn$
BEGIN
  IF unique_key IS NULL OR unique_key = '' OR octet_length(unique_key) > 512 THEN
    RAISE EXCEPTION 'the unique key is empty or longer than 512 bytes: nothing was enqueued'
      USING ERRCODE = 'HF002', HINT = 'Pass 1 to 512 bytes.';
  ELSIF unique_while IS NULL OR unique_while NOT IN ('pending', 'running', 'kept')
    OR on_conflict IS NULL OR on_conflict NOT IN ('ignore', 'replace', 'later') THEN
    RAISE EXCEPTION 'unique_while % or on_conflict % is not known: nothing was enqueued',
      quote_nullable(unique_while), quote_nullable(on_conflict)
      USING ERRCODE = 'HF002', HINT = 'unique_while is pending, running or kept; on_conflict is ignore, replace or later.';
  ELSIF unique_while = 'kept' AND on_conflict <> 'ignore' THEN
    RAISE EXCEPTION 'unique_while kept goes with on_conflict ignore: nothing was enqueued'
      USING ERRCODE = 'HF002', HINT = 'What has ended cannot be replaced.';
  ELSIF unique_window <= '0' OR unique_window > '3650 days' OR unique_window IS NOT NULL AND unique_while <> 'kept' THEN
    RAISE EXCEPTION 'the window of the unique key is out of range, or it is not kept: nothing was enqueued'
      USING ERRCODE = 'HF002', HINT = 'Give up to 3650 days, with unique_while kept.';
  END IF;
END
$fn$;
`,
};
