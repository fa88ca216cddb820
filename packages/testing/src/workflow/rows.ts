/** The rows of a run in a test: itself and its children, as long as they have not ended. */
import type { Queryable } from 'holdfast';
import { bool, type Column, executor, int4, int8, type Names, text } from 'holdfast/internal';

interface Parent {
  /** The run. */
  readonly r: string;
  /** The step. */
  readonly s: string;
  readonly n: number;
}

const OPEN = {
  name: 'test_kit_runs',
  text: `SELECT i.id::text AS id, i.type, i.version::integer AS version, i.parent::text AS parent,
  (i.status = 'processing')::text AS running,
  CASE WHEN i.available_at < '9999-01-01'
    THEN ceil(extract(epoch FROM i.available_at - clock_timestamp()) * 1000)::text END AS due_ms
FROM holdfast.inbox AS i
WHERE i.status IN ('pending', 'processing')
  AND (i.id::text IN (SELECT jsonb_array_elements_text($1::text::jsonb))
    OR i.parent ->> 'r' IN (SELECT jsonb_array_elements_text($1::text::jsonb)))
ORDER BY i.position`,
  columns: {
    ...{ id: text, type: text, version: int4, running: bool, due_ms: int8.orNull },
    parent: { pgType: 'text', parse: JSON.parse, nullable: true } as Column<Parent | null>,
  },
};

/** `dueMs` null: it waits for no time. */
export function openRuns(db: Queryable, names: Names, runs: readonly string[]) {
  return executor(db).run(OPEN, names, [JSON.stringify(runs)]);
}

export type OpenRun = Awaited<ReturnType<typeof openRuns>>[number];
