/** The trigger function that wakes the worker that writes the ticks. */
import type { FunctionFile } from '../../function-file.js';

export const schedulesChanged: FunctionFile = {
  name: 'schedules-changed',
  of: 'schema',
  text: `
-- The worker that writes ticks sleeps until the next one. It is woken when there is an earlier one; a tick only
-- moves later, so it sends nothing. The hint says when, in milliseconds.
CREATE OR REPLACE FUNCTION holdfast.schedules_changed() RETURNS trigger
  LANGUAGE plpgsql AS $fn$
DECLARE
  due timestamptz;
BEGIN
  IF current_setting('holdfast.notify', true) = 'off' OR pg_notification_queue_usage() > 0.5 THEN
    RETURN NULL;
  END IF;
  IF TG_LEVEL = 'ROW' THEN
    due := NEW.next_at;
  ELSE
    SELECT min(a.next_at) INTO due FROM added AS a WHERE NOT a.paused;
  END IF;
  IF due IS NOT NULL THEN
    PERFORM pg_notify('holdfast_fleet',
      concat(TG_TABLE_SCHEMA, ' schedules ', floor(extract(epoch FROM due) * 1000)::bigint));
  END IF;
  RETURN NULL;
END
$fn$;
`,
};
