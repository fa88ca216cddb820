/** The trigger function that raises the epoch of the fleet. */
import type { FunctionFile } from '../../function-file.js';

export const fleetChanged: FunctionFile = {
  name: 'fleet-changed',
  of: 'schema',
  text: `
CREATE OR REPLACE FUNCTION holdfast.fleet_changed() RETURNS trigger
  LANGUAGE plpgsql AS $fn$
BEGIN
  UPDATE holdfast.fleet SET epoch = epoch + 1;
  PERFORM pg_notify('holdfast_fleet', TG_TABLE_SCHEMA);
  RETURN NULL;
END
$fn$;
`,
};
