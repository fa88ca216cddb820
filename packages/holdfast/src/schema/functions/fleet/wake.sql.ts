/** The trigger function that tells waiting workers of an insert. */
import type { FunctionFile } from '../../function-file.js';

export const wake: FunctionFile = {
  name: 'wake',
  of: 'queue',
  text: `
-- A notification serialises the commits of a whole database, so an insert sends one only if a worker waits for it. A worker
-- that listens holds (fleet, 0) shared. In a queue in which it was active lately it holds (queue, -2) shared too, and
-- (queue, 0) shared while it wants hints: so a busy queue pays for none, and a worker with a thousand quiet queues holds
-- one lock. The hint says, in tenths of a second, from when on jobs are due, and in which buckets they are (a queue that is
-- read by key) or of which types (by time). With the rights of the owner, so that whoever may insert needs no others; so
-- everything has its full name here, operators too (IN, BETWEEN and CASE x WHEN look theirs up by the path).
CREATE OR REPLACE FUNCTION holdfast.inbox_wake() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER AS $fn$
DECLARE
  due     timestamp with time zone;
  hint    pg_catalog.text;
  unheard pg_catalog.bool;
BEGIN
  -- Nobody wants hints: this is all that an insert into a busy queue pays for. (Two inserts at the same moment may take
  -- each other for a waiting worker; then they send a hint that nobody needs. The others are tried under the first lock
  -- only, so nobody is taken for an active worker.)
  IF pg_catalog.pg_try_advisory_lock(TG_RELID::integer, 0) THEN
    IF NOT pg_catalog.pg_try_advisory_lock(TG_RELID::integer, -2) THEN
      unheard := true;
    ELSE
      unheard := pg_catalog.pg_try_advisory_lock('holdfast.fleet'::pg_catalog.regclass::pg_catalog.oid::integer, 0)
        AND pg_catalog.pg_advisory_unlock('holdfast.fleet'::pg_catalog.regclass::pg_catalog.oid::integer, 0);
      PERFORM pg_catalog.pg_advisory_unlock(TG_RELID::integer, -2);
    END IF;
    PERFORM pg_catalog.pg_advisory_unlock(TG_RELID::integer, 0);
    IF unheard THEN
      RETURN NULL;
    END IF;
  END IF;
  -- Off for two-phase commits, which Postgres refuses after a notification. And a full queue of
  -- notifications would fail the commit.
  IF (pg_catalog.current_setting('holdfast.notify', true) OPERATOR(pg_catalog.=) 'off') IS TRUE
    OR pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.>) 0.5 THEN
    RETURN NULL;
  END IF;
  IF TG_ARGV[0] OPERATOR(pg_catalog.=) 'key' THEN
    SELECT pg_catalog.min(a.available_at), pg_catalog.concat(':',
      CASE WHEN pg_catalog.count(*) OPERATOR(pg_catalog.>) 100 THEN '*'
        ELSE pg_catalog.string_agg(DISTINCT a.partition_bucket::pg_catalog.text, ',') END)
    INTO due, hint FROM added AS a;
  ELSE
    SELECT pg_catalog.min(a.available_at), pg_catalog.concat(':',
      CASE WHEN pg_catalog.count(DISTINCT a.type) OPERATOR(pg_catalog.>) 20 THEN '*'
        ELSE pg_catalog.string_agg(DISTINCT a.type, ',') END)
    INTO due, hint FROM added AS a;
  END IF;
  -- What is due later is found by the polls.
  IF due OPERATOR(pg_catalog.<) (pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) interval '60 seconds') THEN
    PERFORM pg_catalog.pg_notify(pg_catalog.concat('holdfast_', TG_RELID),
      pg_catalog.concat(pg_catalog.floor(pg_catalog.date_part('epoch', due) OPERATOR(pg_catalog.*) 10::double precision)::bigint, hint));
  END IF;
  RETURN NULL;
END
$fn$;
-- Who may make triggers with it could have it run code of theirs with the rights of the owner.
REVOKE EXECUTE ON FUNCTION holdfast.inbox_wake() FROM PUBLIC;
`,
};
