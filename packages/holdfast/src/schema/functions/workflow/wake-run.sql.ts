/** Waking runs: they are due at once. */
import type { FunctionFile } from '../../function-file.js';

/** Tells the workers of a queue that something in this bucket is due now, as a hint (wake.sql.ts). */
const HINT = (table: string, bucket: string) => `
    IF current_setting('holdfast.notify', true) IS DISTINCT FROM 'off' AND pg_notification_queue_usage() < 0.5 THEN
      PERFORM pg_notify(concat('holdfast_', ${table}::regclass::oid),
        concat(floor(date_part('epoch', clock_timestamp()) * 10)::bigint, ':', ${bucket}));
    END IF;`;

export const wakeRun: FunctionFile = {
  name: 'wake-run',
  of: 'schema',
  text: `
-- Makes a run due if it waits; if it was sent signals, only if it waits for one of these names. It locks the row in any
-- case, so it comes before a worker that is about to put the run to sleep, which then sees why it must not, or after it. In
-- the transaction of whoever has written that reason.
CREATE OR REPLACE FUNCTION holdfast.wake_run(of_queue text, run uuid, sent text[] DEFAULT NULL) RETURNS boolean
  LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
  wanted boolean := true;
  bucket integer;
BEGIN
  EXECUTE format('SELECT 1 FROM holdfast.%I AS i WHERE i.id = %L FOR UPDATE', of_queue, run);
  IF sent IS NOT NULL THEN
    EXECUTE format('SELECT EXISTS (SELECT FROM holdfast.%I AS s
      WHERE s.run_id = %L AND s.kind = ''w'' AND s.place IS NULL AND s.value ?| %L)', of_queue || '_steps', run, sent)
    INTO wanted;
    IF NOT wanted THEN
      RETURN false;
    END IF;
  END IF;
  -- With a fresh snapshot: what was waited for may have changed it.
  EXECUTE format('UPDATE holdfast.%I AS i SET available_at = clock_timestamp(), wait_until = NULL
    WHERE i.id = %L AND i.status = ''pending'' AND i.wait_until = i.available_at RETURNING i.partition_bucket', of_queue, run)
  INTO bucket;
  IF bucket IS NULL THEN
    RETURN false;
  END IF;${HINT("format('holdfast.%I', of_queue)", 'bucket')}
  RETURN true;
END
$fn$;
`,
};

export const childrenEnded: FunctionFile = {
  name: 'children-ended',
  of: 'schema',
  text: `
-- Called by the statement in which children end: keeps what came of each, counts it in the step of its parent, and wakes a
-- parent whose last child this was. Each child is counted once: its row is gone, or does not name its parent any more; and
-- only by the group that wrote it, whose ids begin alike: a run that was begun anew or retried may have another of its name.
-- \`results\` is one object by id. The counters are locked before the parents, both in order, so no two callers can deadlock.
-- Whoever ends a child needs the rights of a worker in the queue of its parent.
CREATE OR REPLACE FUNCTION holdfast.children_ended(ids uuid[], parents jsonb[], outcome "char", results jsonb) RETURNS integer
  LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
  step record;
  left_over integer;
  woken integer := 0;
  last_of text[] := '{}';
BEGIN
  FOR step IN
    SELECT e.parent ->> 'q' AS queue, (e.parent ->> 'r')::uuid AS run, e.parent ->> 's' AS name, left(e.id::text, 24) AS first, count(*)::integer AS jobs,
      array_agg((e.parent ->> 'n')::integer) AS ns,
      array_agg(results -> e.id::text) AS results
    FROM unnest(ids, parents) AS e(id, parent)
    WHERE e.parent IS NOT NULL
    GROUP BY 1, 2, 3, 4
    ORDER BY 1, 2, 3, 4
  LOOP
    IF to_regclass(format('holdfast.%I', step.queue || '_steps')) IS NULL THEN
      CONTINUE;
    END IF;
    EXECUTE format('UPDATE holdfast.%I AS s SET remaining = s.remaining - %s
      WHERE s.run_id = %L AND s.name = %L AND s.kind = ''c'' AND left(s.value ->> ''first'', 24) = %L RETURNING s.remaining',
      step.queue || '_steps', step.jobs, step.run, step.name, step.first)
    INTO left_over;
    IF left_over IS NULL THEN
      CONTINUE;
    END IF;
    EXECUTE format('INSERT INTO holdfast.%I (run_id, n, step, outcome, value)
      SELECT %L, e.n, %L, %L, nullif(e.value, ''null'') FROM unnest(%L::integer[], %L::jsonb[]) AS e(n, value)
      WHERE %L <> ''c'' OR nullif(e.value, ''null'') IS NOT NULL
      ON CONFLICT (run_id, step, n) DO NOTHING', step.queue || '_children', step.run, step.name, outcome, step.ns,
      step.results, outcome);
    IF left_over = 0 THEN
      last_of := last_of || ARRAY[step.queue, step.run::text];
    END IF;
  END LOOP;
  FOR nth IN 1 .. coalesce(array_length(last_of, 1), 0) / 2 LOOP
    PERFORM holdfast.wake_run(last_of[2 * nth - 1], last_of[2 * nth]::uuid);
    woken := woken + 1;
  END LOOP;
  RETURN woken;
END
$fn$;
`,
};
