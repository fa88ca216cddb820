/**
 * How jobs ended, of many at once: for those who wait for them. A job that is still in the queue is found by its key;
 * the archive, where a search costs more, is asked only for those that are not.
 */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import {
  bool,
  int4,
  plainArray,
  type Row,
  statement,
  text,
  uuid,
} from '../../postgres/statement.js';
import { instant, parsed } from '../reading/columns.js';

export const findOutcomes = statement({
  name: 'find_outcomes',
  text: `
SELECT w.id,
  coalesce(i.status::text, CASE a.status WHEN 'dead_letter' THEN 'discarded' ELSE a.status::text END) AS status,
  coalesce(i.attempts, a.attempts) AS attempts, coalesce(i.last_error, a.last_error) AS last_error,
  a.completed_at, a.result,
  (SELECT q.archive_retention > '0' FROM holdfast.queues AS q WHERE q.name = 'inbox') AS keeps_archive
FROM unnest($1::uuid[]) AS w(id)
LEFT JOIN LATERAL (
  SELECT j.status, j.attempts, CASE j.status WHEN 'dead_letter' THEN j.last_error END AS last_error
  FROM holdfast.inbox AS j WHERE j.id = w.id LIMIT 1
) AS i ON true
LEFT JOIN LATERAL (
  SELECT j.status, j.attempts, CASE WHEN j.status <> 'completed' THEN j.last_error END AS last_error,
    j.completed_at, j.result
  FROM holdfast.inbox_archive AS j WHERE j.id = w.id AND i.status IS NULL LIMIT 1
) AS a ON true`,
  columns: {
    id: uuid,
    /** Null: the job is neither in the queue nor in its archive. */
    status: text.orNull,
    attempts: int4.orNull,
    /** Of a dead letter, a discarded or a cancelled job. */
    last_error: text.orNull,
    completed_at: instant,
    result: parsed,
    /** Where it does not, a completed job is gone without a trace, and any other soon is. */
    keeps_archive: bool,
  },
});

export type OutcomeRow = Row<typeof findOutcomes.columns>;

/** One row for each id. */
export function outcomesOf(
  db: Executor,
  names: Names,
  ids: readonly string[],
): Promise<OutcomeRow[]> {
  return db.run(findOutcomes, names, [plainArray(ids)]);
}
