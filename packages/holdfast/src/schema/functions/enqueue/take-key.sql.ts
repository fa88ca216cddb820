/** Taking an idempotency key. */
import type { FunctionFile } from '../../function-file.js';

export const takeKey: FunctionFile = {
  name: 'take-key',
  of: 'queue',
  text: `
-- Takes an idempotency key for a job, unless it stands for one already; returns the job for which it stands.
CREATE OR REPLACE FUNCTION holdfast.inbox_take_key(idempotency_key text, id uuid, type text, payload jsonb)
  RETURNS uuid LANGUAGE plpgsql AS $fn$
DECLARE
  print bytea := sha256(convert_to(type || E'\\n' || payload::text, 'UTF8'));
  held holdfast.inbox_idempotency;
BEGIN
  INSERT INTO holdfast.inbox_idempotency AS k (key, job_id, fingerprint, expires_at)
  VALUES (idempotency_key, id, print,
    now() + (SELECT q.idempotency_retention FROM holdfast.queues AS q WHERE q.name = 'inbox'))
  ON CONFLICT (key) DO UPDATE SET (job_id, fingerprint, expires_at) = (
    SELECT CASE WHEN lapsed THEN excluded.job_id ELSE k.job_id END,
           CASE WHEN lapsed THEN excluded.fingerprint ELSE k.fingerprint END,
           CASE WHEN lapsed THEN excluded.expires_at ELSE k.expires_at END
    FROM (SELECT k.expires_at <= now()
            AND NOT EXISTS (SELECT FROM holdfast.inbox AS j WHERE j.id = k.job_id)) AS t(lapsed))
  RETURNING k.* INTO held;
  IF held.job_id <> id AND held.fingerprint <> print THEN
    RAISE EXCEPTION 'idempotency key % already stands for a job with another type or payload: nothing was enqueued',
      quote_literal(idempotency_key)
      USING ERRCODE = 'HF003', HINT = 'Use a new key for new work, or enqueue exactly what was enqueued before.';
  END IF;
  RETURN held.job_id;
END
$fn$;
`,
};
