/** How ids are made. */
import type { FunctionFile } from '../../function-file.js';

export const newId: FunctionFile = {
  name: 'new-id',
  of: 'schema',
  text: `
-- Time-ordered ids: the server's own uuidv7() from Postgres 18 on, the same layout built here before.
DO $do$
BEGIN
  IF to_regprocedure('pg_catalog.uuidv7()') IS NOT NULL THEN
    CREATE OR REPLACE FUNCTION holdfast.new_id() RETURNS uuid
      LANGUAGE sql VOLATILE PARALLEL SAFE AS 'SELECT pg_catalog.uuidv7()';
  ELSE
    CREATE OR REPLACE FUNCTION holdfast.new_id() RETURNS uuid
      LANGUAGE sql VOLATILE PARALLEL SAFE AS $fn$
        SELECT encode(
          set_byte(
            overlay(uuid_send(gen_random_uuid())
              PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3)
              FROM 1 FOR 6),
            6, (get_byte(uuid_send(gen_random_uuid()), 6) & 15) | 112),
          'hex')::uuid
      $fn$;
  END IF;
END
$do$;
`,
};
