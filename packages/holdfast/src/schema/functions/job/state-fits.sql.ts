/** Whether the columns of a job fit its status. A check constraint of every queue calls it. */
import type { FunctionFile } from '../../function-file.js';

export const stateFits: FunctionFile = {
  name: 'state-fits',
  of: 'schema',
  text: `
-- Whether the columns of a job fit its status. (claimed_at is written and never read, so it is free while a job
-- waits or runs.) Operators have their full names: a function looks them up by the path of whoever inserts.
CREATE OR REPLACE FUNCTION holdfast.state_fits(
  status holdfast.inbox_status, parked boolean, attempts integer, lease_generation bigint,
  available_at timestamptz, claimed_by text, claimed_at timestamptz, lease_expires_at timestamptz,
  completed_at timestamptz
) RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $fn$
BEGIN
  RETURN completed_at IS NULL AND attempts OPERATOR(pg_catalog.>=) 0 AND CASE
    WHEN status OPERATOR(pg_catalog.=) 'pending' THEN
      claimed_by IS NULL AND lease_expires_at IS NULL
      AND available_at OPERATOR(pg_catalog.<) 'infinity' AND NOT parked
    WHEN status OPERATOR(pg_catalog.=) 'processing' THEN
      claimed_by IS NOT NULL AND lease_expires_at IS NOT NULL
      AND lease_generation OPERATOR(pg_catalog.>) 0
      AND available_at OPERATOR(pg_catalog.<) 'infinity' AND NOT parked
    WHEN status OPERATOR(pg_catalog.=) 'dead_letter' THEN
      claimed_by IS NULL AND claimed_at IS NULL AND lease_expires_at IS NULL
      AND available_at OPERATOR(pg_catalog.=) 'infinity'
    ELSE false
  END;
END
$fn$;
`,
};
