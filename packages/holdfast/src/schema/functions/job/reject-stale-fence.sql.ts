/** The trigger function for tables of users that keep a fence token. */
import type { FunctionFile } from '../../function-file.js';

export const rejectStaleFence: FunctionFile = {
  name: 'reject-stale-fence',
  of: 'schema',
  text: `
-- For downstream tables: refuse a write that carries an older fence token than the row already has.
CREATE OR REPLACE FUNCTION holdfast.reject_stale_fence() RETURNS trigger
  LANGUAGE plpgsql AS $fn$
BEGIN
  IF NEW.fence_token < OLD.fence_token THEN
    RAISE EXCEPTION 'fence token % is older than the stored token %: the write was refused',
      NEW.fence_token, OLD.fence_token
      USING ERRCODE = 'HF001',
            HINT = 'A newer claim of the same job has already written this row; this attempt is stale.';
  END IF;
  RETURN NEW;
END
$fn$;
`,
};
