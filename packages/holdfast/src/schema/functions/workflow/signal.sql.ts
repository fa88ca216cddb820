/** Signals: sending one, and waking the runs for which some were sent. */
import type { FunctionFile } from '../../function-file.js';

export const signal: FunctionFile = {
  name: 'signal',
  of: 'queue',
  text: `
-- Sends a signal to a run: it is kept until a wait of the run takes it. In a transaction that does more, leave \`a_now\` false:
-- then only a row is written, and a worker wakes the run after the commit. Returns false if a signal with this key was sent
-- to the run before. Rejects a run that is not in the queue, or not of this type. With the rights of the owner, so that whoever may call it
-- needs no others.
CREATE OR REPLACE FUNCTION holdfast.inbox_signal(a_run uuid, a_signal text, a_value jsonb DEFAULT NULL, a_key text DEFAULT NULL,
  a_now boolean DEFAULT false, a_type text DEFAULT NULL) RETURNS boolean
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
  its_type text;
  sent bigint;
BEGIN
  IF a_signal IS NULL OR a_signal = '' OR octet_length(a_signal) > 200 OR octet_length(a_key) > 512 OR a_key = '' THEN
    RAISE EXCEPTION 'a signal needs a name of 1 to 200 bytes, and its key has 1 to 512; nothing was sent' USING ERRCODE = 'HF002';
  END IF;
  SELECT i.type INTO its_type FROM holdfast.inbox AS i WHERE i.id = a_run;
  IF its_type IS NULL THEN
    RAISE EXCEPTION 'there is no run % in queue %: it has ended, or it never was; nothing was sent', a_run, 'inbox'
      USING ERRCODE = 'HF007';
  END IF;
  IF its_type <> a_type THEN
    RAISE EXCEPTION 'run % is of type "%", not "%"; nothing was sent', a_run, its_type, a_type USING ERRCODE = 'HF002';
  END IF;
  INSERT INTO holdfast.inbox_signals AS s (run_id, seen, name, key, value)
  VALUES (a_run, a_now, a_signal, a_key, a_value)
  ON CONFLICT (run_id, key) WHERE key IS NOT NULL DO NOTHING
  RETURNING s.id INTO sent;
  IF sent IS NULL THEN
    RETURN false;
  END IF;
  IF a_now THEN
    PERFORM holdfast.wake_run('inbox', a_run, ARRAY[a_signal]);
  ELSIF current_setting('holdfast.notify', true) IS DISTINCT FROM 'off' AND pg_notification_queue_usage() < 0.5 THEN
    PERFORM pg_notify('holdfast_fleet', concat((SELECT n.nspname FROM pg_class AS c JOIN pg_namespace AS n
      ON n.oid = c.relnamespace WHERE c.oid = 'holdfast.inbox'::regclass), ' signals ', 'inbox'));
  END IF;
  RETURN true;
END
$fn$;
REVOKE EXECUTE ON FUNCTION holdfast.inbox_signal FROM PUBLIC;

-- Wakes the runs to which signals were sent since, for at most so many signals at once. Returns how many it saw. A signal is
-- written under the lock of its run only, as by a worker that takes it.
CREATE OR REPLACE FUNCTION holdfast.inbox_wake_signalled(most integer) RETURNS integer
  LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
  run record;
  found_now integer := 0;
BEGIN
  FOR run IN
    SELECT s.run_id AS id, array_agg(s.id) AS signals, array_agg(s.name) AS names
    FROM (SELECT f.run_id, f.id, f.name FROM holdfast.inbox_signals AS f WHERE NOT f.seen ORDER BY f.id LIMIT most) AS s
    GROUP BY s.run_id
    ORDER BY s.run_id
  LOOP
    PERFORM holdfast.wake_run('inbox', run.id, run.names);
    UPDATE holdfast.inbox_signals AS s SET seen = true WHERE s.run_id = run.id AND s.id = ANY (run.signals);
    found_now := found_now + cardinality(run.signals);
  END LOOP;
  RETURN found_now;
END
$fn$;
`,
};
