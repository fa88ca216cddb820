/** The trigger function that tells workers of a changed limit. */
import type { FunctionFile } from '../../function-file.js';

export const limitsChanged: FunctionFile = {
  name: 'limits-changed',
  of: 'schema',
  text: `
-- Workers leave limited types out of their ordinary claims, so they must know which ones there are: an ordinary claim
-- that knows an older version of the limits takes nothing. With the rights of the owner, so that whoever may set a
-- limit needs none on queues.
CREATE OR REPLACE FUNCTION holdfast.limits_changed() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
  UPDATE holdfast.queues AS q SET limits_version = q.limits_version + 1
  WHERE q.name = CASE TG_OP WHEN 'DELETE' THEN OLD.queue ELSE NEW.queue END;
  UPDATE holdfast.fleet SET epoch = epoch + 1;
  PERFORM pg_notify('holdfast_fleet', TG_TABLE_SCHEMA);
  RETURN NULL;
END
$fn$;
REVOKE EXECUTE ON FUNCTION holdfast.limits_changed() FROM PUBLIC;
`,
};
