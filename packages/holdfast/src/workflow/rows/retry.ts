/**
 * Retrying a run that is a dead letter. What it has done stays recorded, but for what killed it. If an undo failed, the undo
 * goes on from there. If all was undone, the first step that was undone and all that came after it are done again, under new
 * keys for third parties.
 */
import { HoldfastError } from '../../job/errors/errors.js';
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { int4, plainArray, statement, text } from '../../postgres/statement.js';

export const forgetFailed = statement({
  name: 'forget_failed_steps',
  text: `
WITH dead AS MATERIALIZED (
  SELECT s.run_id, s.value ->> 'step' AS step,
    (SELECT min(u.nth) FROM holdfast.inbox_steps AS u WHERE u.run_id = s.run_id AND u.kind = 'u') AS undone_from,
    EXISTS (SELECT FROM holdfast.inbox_steps AS u
      WHERE u.run_id = s.run_id AND u.kind = 'u' AND (u.place IS NULL OR u.error IS NOT NULL)) AS undoing
  FROM holdfast.inbox_steps AS s
  WHERE s.run_id = ANY ((SELECT $1::text::uuid[])::uuid[]) AND s.name = '!'
), undone AS (
  -- What was undone is done again, so systems that refuse to do a thing twice must see another one.
  -- The retry may drop the row by which maintenance finds the run. So this row has a check_at, too.
  INSERT INTO holdfast.inbox_steps AS r (run_id, check_at, place, nth, kind, name)
  SELECT d.run_id, now(), 0, (NOT d.undoing AND d.undone_from IS NOT NULL)::integer, '#', '#'
  FROM dead AS d
  ON CONFLICT (run_id, name) DO UPDATE SET check_at = now(), nth = r.nth + excluded.nth
), gone AS (
  DELETE FROM holdfast.inbox_steps AS s USING dead AS d
  WHERE s.run_id = d.run_id AND CASE WHEN d.undoing THEN s.kind = 'u' AND (s.place IS NULL OR s.error IS NOT NULL)
    ELSE s.name = '!' OR s.kind = 'u'
      -- The code asks for these only when it has come through what was undone.
      OR s.nth >= d.undone_from AND s.kind <> '#'
      OR s.error IS NOT NULL AND s.place >= (SELECT f.place FROM holdfast.inbox_steps AS f
        WHERE f.run_id = s.run_id AND f.name = d.step) END
  RETURNING s.run_id, s.name
), children AS (
  DELETE FROM holdfast.inbox_children AS c USING gone AS g WHERE c.run_id = g.run_id AND c.step = g.name
), signals AS (
  UPDATE holdfast.inbox_signals AS s SET taken_by = NULL FROM gone AS g WHERE s.run_id = g.run_id AND s.taken_by = g.name
)
SELECT count(*)::integer AS forgotten FROM gone`,
  columns: { forgotten: int4 },
});

/** Of these runs, after they were retried; of other jobs nothing. */
export async function forgetFailures(db: Executor, names: Names, ids: readonly string[]) {
  if (ids.length > 0) await db.run(forgetFailed, names, [plainArray(ids)]);
}

export const forgetFrom = statement({
  name: 'forget_steps_from',
  text: `
WITH start AS MATERIALIZED (
  SELECT s.run_id, s.nth, (SELECT min(u.nth) FROM holdfast.inbox_steps AS u
    WHERE u.run_id = s.run_id AND u.kind = 'u' AND u.place IS NOT NULL AND u.error IS NULL) AS undone_from
  FROM holdfast.inbox_steps AS s WHERE s.run_id = $1::text::uuid AND s.name = $2::text
), round AS (
  INSERT INTO holdfast.inbox_steps AS r (run_id, check_at, place, nth, kind, name)
  SELECT start.run_id, now(), 0, (start.undone_from IS NOT NULL)::integer, '#', '#' FROM start
  ON CONFLICT (run_id, name) DO UPDATE SET check_at = now(), nth = r.nth + excluded.nth
), goes_on AS (
  UPDATE holdfast.inbox AS i SET undo_asked = NULL FROM start WHERE i.id = start.run_id AND i.undo_asked IS NOT NULL
), gone AS (
  -- What was undone is done again too, and all behind it: the code asks for that only when it has come through.
  DELETE FROM holdfast.inbox_steps AS s USING start
  WHERE s.run_id = start.run_id AND s.name <> '#'
    AND (s.nth >= least(start.nth, start.undone_from) OR s.name = '!' OR s.kind = 'u')
  RETURNING s.run_id, s.name
), children AS (
  DELETE FROM holdfast.inbox_children AS c USING gone AS g WHERE c.run_id = g.run_id AND c.step = g.name
), signals AS (
  UPDATE holdfast.inbox_signals AS s SET taken_by = NULL FROM gone AS g WHERE s.run_id = g.run_id AND s.taken_by = g.name
)
SELECT (SELECT count(*) FROM gone)::integer::text AS forgotten,
  (SELECT string_agg(s.name, ', ' ORDER BY s.nth) FROM holdfast.inbox_steps AS s
   WHERE s.run_id = $1::text::uuid AND s.kind NOT IN ('u', '!', '#')) AS known`,
  columns: { forgotten: text, known: text.orNull },
});

/**
 * This step, or the first one that was undone, and all that were asked for after it are done again; signals that their waits took are
 * taken again. A run that was to be undone goes on.
 */
export async function forgetStepsFrom(db: Executor, names: Names, run: string, step: string) {
  const [row] = await db.run(forgetFrom, names, [run, step]);
  if (row && row.forgotten !== '0') return;
  throw new HoldfastError(
    'JOB_STATE',
    `The run ${run} has no step "${step}", so nothing was retried. It has ${row?.known ?? 'none'}.`,
  );
}
