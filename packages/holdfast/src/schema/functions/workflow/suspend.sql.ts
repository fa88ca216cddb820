/** Putting runs to sleep: the one place where it is decided whether a run goes on or waits. */
import type { FunctionFile } from '../../function-file.js';

export const arrive: FunctionFile = {
  name: 'arrive',
  of: 'queue',
  text: `
-- Of a run whose row the caller has locked: what it waits for and is there gets the next places after \`last\`. Signals, each
-- taken by the wait that asked first; times that have come; groups whose last child has ended. If it is asked \`again\`, what
-- has a place beyond \`last\` comes first: it ended, and the answer that said so was lost. Otherwise it reads what is open only,
-- so that a long run costs no more than a short one.
CREATE OR REPLACE FUNCTION holdfast.inbox_arrive(run uuid, last integer, again boolean)
  RETURNS TABLE (name text, place integer, value text)
  LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $fn$
#variable_conflict use_column
DECLARE
  step record;
  taken jsonb;
BEGIN
  FOR step IN
    SELECT o.* FROM (
      SELECT s.name, s.kind, s.value, s.remaining, s.due_at, s.place, s.nth FROM holdfast.inbox_steps AS s
      WHERE s.run_id = run AND s.place IS NULL AND s.kind IN ('w', 'z', 'c')
      UNION ALL
      SELECT s.name, s.kind, s.value, s.remaining, s.due_at, s.place, s.nth FROM holdfast.inbox_steps AS s
      WHERE again AND s.run_id = run AND s.place > last AND s.kind NOT IN ('u', '!', '#') AND s.error IS NULL
    ) AS o
    ORDER BY o.place, o.kind <> 'w', o.nth
  LOOP
    IF step.place IS NOT NULL THEN
      name := step.name; place := step.place; value := step.value::text; last := step.place;
      RETURN NEXT;
      CONTINUE;
    END IF;
    taken := NULL;
    IF step.kind = 'w' THEN
      UPDATE holdfast.inbox_signals AS g SET taken_by = step.name, seen = true
      WHERE g.run_id = run AND g.id = (
        SELECT f.id FROM jsonb_array_elements_text(step.value) AS n(name)
        CROSS JOIN LATERAL (
          SELECT f.id FROM holdfast.inbox_signals AS f
          WHERE f.run_id = run AND f.name = n.name AND f.taken_by IS NULL ORDER BY f.id LIMIT 1) AS f
        ORDER BY f.id LIMIT 1)
      RETURNING CASE WHEN g.value IS NULL THEN jsonb_build_object('name', g.name)
        ELSE jsonb_build_object('name', g.name, 'value', g.value) END INTO taken;
    ELSIF step.kind = 'c' AND step.remaining = 0 THEN
      taken := step.value;
    END IF;
    CONTINUE WHEN taken IS NULL AND (step.due_at <= clock_timestamp()) IS NOT TRUE;
    last := last + 1;
    UPDATE holdfast.inbox_steps AS s
    SET place = last, ms = extract(epoch FROM clock_timestamp() - s.at) * 1000, due_at = NULL, value = taken
    WHERE s.run_id = run AND s.name = step.name;
    name := step.name; place := last; value := taken::text;
    RETURN NEXT;
  END LOOP;
END
$fn$;
`,
};

export const suspend: FunctionFile = {
  name: 'suspend',
  of: 'queue',
  text: `
-- For each run that its worker holds: writes what the run waits for from now on, and then looks, with the row locked and a
-- snapshot that is taken after that, whether some of it is there. If so the run goes on, and what is there is returned. If
-- not, the run waits: it is pending, and due when the first of its times comes. Whoever brings what it waits for locks the
-- same row after writing it (wake_run), so one of the two always sees the other. A run of which nothing is returned is not
-- this worker's any more. A run that undoes what it did waits for its undos only.
--
-- \`waits\`: for each run {"p": its last place, "f": whether it has no row yet, "b": whether it was asked before, "w": [{"n": name, "k": kind, "o": the order
-- in which it was asked for, "s": [names of signals], "ms": until it is due, "at": or when, "a": attempt, "e": error}]}
CREATE OR REPLACE FUNCTION holdfast.inbox_suspend(worker text, ids uuid[], generations bigint[], waits jsonb)
  RETURNS TABLE (run_id uuid, state text, name text, place integer, value text, due_in_ms bigint)
  LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $fn$
#variable_conflict use_column
DECLARE
  run record;
  wait jsonb;
  until timestamptz;
  undoing boolean;
BEGIN
  FOR run IN
    SELECT i.id, g.nth, i.undo_asked
    FROM unnest(ids, generations) WITH ORDINALITY AS g(id, generation, nth)
    CROSS JOIN LATERAL (
      SELECT i.id, i.undo_asked FROM holdfast.inbox AS i
      WHERE i.id = g.id AND i.lease_generation = g.generation AND i.claimed_by = worker AND i.status = 'processing'
        AND i.lease_expires_at > statement_timestamp()
      FOR UPDATE
    ) AS i
  LOOP
    wait := waits -> (run.nth - 1)::integer;
    INSERT INTO holdfast.inbox_steps AS s (run_id, check_at, due_at, nth, attempt, kind, name, value, error)
    SELECT run.id, CASE WHEN (wait -> 'f')::boolean AND w.nr = 1 THEN clock_timestamp() END,
      coalesce((w.one ->> 'at')::timestamptz, clock_timestamp() + (w.one ->> 'ms')::bigint * interval '1 millisecond'),
      (w.one ->> 'o')::integer, (w.one ->> 'a')::smallint, (w.one ->> 'k')::"char", w.one ->> 'n', w.one -> 's', w.one -> 'e'
    FROM jsonb_array_elements(wait -> 'w') WITH ORDINALITY AS w(one, nr)
    ON CONFLICT (run_id, name) DO UPDATE SET due_at = excluded.due_at, attempt = excluded.attempt, error = excluded.error
      -- A step that is to be tried again; a wait keeps its time.
      WHERE s.place IS NULL AND excluded.attempt IS NOT NULL;

    run_id := run.id; state := 'done'; due_in_ms := NULL;
    undoing := EXISTS (SELECT FROM holdfast.inbox_steps AS s WHERE s.run_id = run.id AND s.name = '!');
    FOR name, place, value IN
      SELECT a.name, a.place, a.value FROM holdfast.inbox_arrive(run.id, (wait ->> 'p')::integer, (wait -> 'b')::boolean) AS a
      WHERE NOT undoing
    LOOP
      RETURN NEXT;
    END LOOP;
    state := 'awake';
    IF NOT FOUND THEN
      SELECT min(s.due_at) INTO until FROM holdfast.inbox_steps AS s
      WHERE s.run_id = run.id AND s.place IS NULL AND (s.kind = 'u' OR NOT undoing);
      -- A step is due again, or the run is to be undone and does not know it yet.
      state := CASE WHEN until <= clock_timestamp() OR run.undo_asked IS NOT NULL AND NOT undoing
        THEN 'awake' ELSE 'asleep' END;
    END IF;
    IF state = 'asleep' THEN
      due_in_ms := extract(epoch FROM until - clock_timestamp()) * 1000;
      until := coalesce(until, '9999-12-31');
      UPDATE holdfast.inbox AS i
      SET status = 'pending', claimed_by = NULL, claimed_at = NULL, lease_expires_at = NULL, isolated = false,
        attempts = 0, crashes = 0, available_at = until, wait_until = until
      WHERE i.id = run.id;
    END IF;
    name := NULL; place := NULL; value := run.undo_asked;
    RETURN NEXT;
  END LOOP;
END
$fn$;
`,
};
