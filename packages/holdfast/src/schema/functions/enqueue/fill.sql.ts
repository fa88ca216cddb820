/** The trigger function that completes a plain INSERT. */
import type { FunctionFile } from '../../function-file.js';

export const fill: FunctionFile = {
  name: 'fill',
  of: 'queue',
  text: `
-- A plain INSERT gets what an enqueue gets: checks, the bucket of its key or group whatever it says, and one job for an
-- idempotency key; a row whose key stands for the same job already is not written. The type may stand in the payload.
-- With the rights of the owner, so that whoever may insert needs no others.
CREATE OR REPLACE FUNCTION holdfast.inbox_fill() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
  taker uuid := gen_random_uuid();
BEGIN
  -- The bucket of a job with a group is that of its group. Elsewhere that would take a key's line apart.
  IF NEW.group_key IS NOT NULL
    AND (SELECT q.ordering FROM holdfast.queues AS q WHERE q.name = 'inbox') <> 'turns' THEN
    RAISE EXCEPTION 'queue % has no groups: nothing was enqueued', quote_literal('inbox')
      USING ERRCODE = 'HF002', HINT = 'Leave the group out, or make a queue with perGroup, perKey or fair.';
  ELSIF NEW.parked IS NOT NULL THEN
    RETURN NEW;
  END IF;
  NEW.parked := false;
  NEW.type := coalesce(NEW.type, NEW.payload ->> 'type');
  PERFORM holdfast.check_job(NEW.type, NEW.payload, NEW.partition_key, NEW.group_key, NEW.idempotency_key,
    NEW.headers, (SELECT q.max_payload_bytes FROM holdfast.queues AS q WHERE q.name = 'inbox'));
  IF NEW.limit_key = '' OR octet_length(NEW.limit_key) > 512 THEN
    RAISE EXCEPTION 'the limit key is empty or longer than 512 bytes: nothing was enqueued'
      USING ERRCODE = 'HF002', HINT = 'Pass 1 to 512 bytes, or NULL for none.';
  END IF;
  NEW.partition_key := coalesce(NEW.partition_key, NEW.id::text);
  NEW.partition_bucket := holdfast.bucket_of(coalesce(NEW.group_key, NEW.partition_key));
  IF NEW.idempotency_key IS NOT NULL THEN
    -- Under an id that nobody has: an insert that names its id and is sent again is the job for which its key stands.
    IF holdfast.inbox_take_key(NEW.idempotency_key, taker, NEW.type, NEW.payload) <> taker THEN
      RETURN NULL;
    END IF;
    UPDATE holdfast.inbox_idempotency AS k SET job_id = NEW.id WHERE k.key = NEW.idempotency_key;
  END IF;
  RETURN NEW;
END
$fn$;
REVOKE EXECUTE ON FUNCTION holdfast.inbox_fill() FROM PUBLIC;
`,
};
