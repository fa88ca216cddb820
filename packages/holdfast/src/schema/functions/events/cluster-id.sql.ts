/** In which cluster of PostgreSQL the cursors of projections are taken. */
import type { FunctionFile } from '../../function-file.js';

export const clusterId: FunctionFile = {
  name: 'cluster-id',
  of: 'schema',
  text: `
-- NULL: the owner may not read it. A query is refused as a whole, also where it asks for the right first; here only what
-- is reached is looked at. With the rights of the owner, so that all roles have the same answer.
CREATE OR REPLACE FUNCTION holdfast.cluster_id() RETURNS text
  LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
  IF NOT has_function_privilege('pg_catalog.pg_control_system()', 'EXECUTE') THEN
    RETURN NULL;
  END IF;
  RETURN (SELECT s.system_identifier::text FROM pg_control_system() AS s);
END
$fn$;
`,
};
