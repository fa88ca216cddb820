/** Taking idempotency keys: the only way for a producer, who may neither read nor change what others have taken. */
import type { FunctionFile } from '../../function-file.js';
import { grantAsTable } from './grant-as-table.js';

export const takeKey: FunctionFile = {
  name: 'take-key',
  of: 'queue',
  text: `
-- Takes an idempotency key for a job, unless it stands for one already; returns the job for which it stands. With the rights
-- of the owner, so that nobody needs the right to change the keys of others.
CREATE OR REPLACE FUNCTION holdfast.inbox_take_key(idempotency_key text, id uuid, type text, payload jsonb)
  RETURNS uuid LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
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
REVOKE EXECUTE ON FUNCTION holdfast.inbox_take_key FROM PUBLIC;
-- Whoever could write keys before.
${grantAsTable('inbox_take_key', 'inbox_idempotency', 'INSERT')}
-- The same for many: by key, the job for which it stands and of what. Where one stands for other work, and that is not
-- allowed, those that were taken here are given up again. Keys are taken in their own order, so bulk calls never deadlock.
CREATE OR REPLACE FUNCTION holdfast.inbox_take_keys(the_keys text[], the_ids uuid[], the_prints bytea[],
  despite_mismatch boolean)
  RETURNS TABLE (held_key text, held_job uuid, held_print bytea)
  -- How many keys there are, the planner cannot know: by nested loops, ten thousand would take minutes.
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_nestloop = off AS $fn$
DECLARE
  keys text[];
  jobs uuid[];
  prints bytea[];
  mismatch boolean;
BEGIN
  WITH wanted AS MATERIALIZED (
    SELECT w.* FROM unnest(the_keys, the_ids, the_prints) WITH ORDINALITY AS w(key, job_id, print, nth)
  ), taken AS (
    INSERT INTO holdfast.inbox_idempotency AS k (key, job_id, fingerprint, expires_at)
    SELECT DISTINCT ON (w.key) w.key, w.job_id, w.print,
      now() + (SELECT q.idempotency_retention FROM holdfast.queues AS q WHERE q.name = 'inbox')
    FROM wanted AS w
    ORDER BY w.key, w.nth
    ON CONFLICT (key) DO UPDATE SET (job_id, fingerprint, expires_at) = (
      SELECT CASE WHEN lapsed THEN excluded.job_id ELSE k.job_id END,
             CASE WHEN lapsed THEN excluded.fingerprint ELSE k.fingerprint END,
             CASE WHEN lapsed THEN excluded.expires_at ELSE k.expires_at END
      FROM (SELECT k.expires_at <= now()
              AND NOT EXISTS (SELECT FROM holdfast.inbox AS i WHERE i.id = k.job_id)) AS t(lapsed))
    RETURNING k.key, k.job_id, k.fingerprint
  )
  SELECT array_agg(t.key), array_agg(t.job_id), array_agg(t.fingerprint),
    EXISTS (SELECT FROM wanted AS w JOIN taken AS h ON h.key = w.key WHERE w.print <> h.fingerprint)
  INTO keys, jobs, prints, mismatch
  FROM taken AS t;
  IF mismatch AND NOT despite_mismatch THEN
    DELETE FROM holdfast.inbox_idempotency AS k WHERE k.key = ANY (the_keys) AND k.job_id = ANY (the_ids);
  END IF;
  RETURN QUERY SELECT h.key, h.job_id, h.print FROM unnest(keys, jobs, prints) AS h(key, job_id, print);
END
$fn$;
REVOKE EXECUTE ON FUNCTION holdfast.inbox_take_keys FROM PUBLIC;
${grantAsTable('inbox_take_keys', 'inbox_idempotency', 'INSERT')}`,
};
