/** The trigger functions of the event log: they complete a plain INSERT, and tell waiting projectors of it. */
import type { FunctionFile } from '../../function-file.js';

export const eventsWake: FunctionFile = {
  name: 'events-wake',
  of: 'schema',
  text: `
-- A plain INSERT may leave the bucket of the key and the id out.
CREATE OR REPLACE FUNCTION holdfast.event_fill() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
  NEW.bucket := holdfast.bucket_of(NEW.key);
  NEW.id := coalesce(NEW.id, gen_random_uuid());
  RETURN NEW;
END
$fn$;
REVOKE EXECUTE ON FUNCTION holdfast.event_fill() FROM PUBLIC;

-- A notification serialises the commits of a whole database, so an insert sends one only if an idle projector waits for
-- it: that holds the lock of the table shared. A busy log pays for none. With the rights of the owner, so that whoever
-- may insert needs no others; so everything has its full name here, operators too.
CREATE OR REPLACE FUNCTION holdfast.events_wake() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER AS $fn$
BEGIN
  IF pg_catalog.pg_try_advisory_lock(TG_RELID::integer, 0) THEN
    PERFORM pg_catalog.pg_advisory_unlock(TG_RELID::integer, 0);
    RETURN NULL;
  END IF;
  -- Off for two-phase commits, which Postgres refuses after a notification. And a full queue of
  -- notifications would fail the commit.
  IF (pg_catalog.current_setting('holdfast.notify', true) OPERATOR(pg_catalog.=) 'off') IS TRUE
    OR pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.>) 0.5 THEN
    RETURN NULL;
  END IF;
  PERFORM pg_catalog.pg_notify(pg_catalog.concat('holdfast_', TG_RELID), '');
  RETURN NULL;
END
$fn$;
REVOKE EXECUTE ON FUNCTION holdfast.events_wake() FROM PUBLIC;
`,
};
