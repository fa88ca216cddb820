/**
 * What a page about one run asks beside its steps: whether a job is a run, whose child it is, how its children ended, and the
 * value of one step or one signal. Values may be large, so they are read one by one.
 */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { bool, int8, type Row, statement, text } from '../../postgres/statement.js';
import { parsed } from '../reading/columns.js';
import { workflowTypes } from './types.js';

export const runLinks = statement({
  name: 'run_links',
  text: `
SELECT EXISTS (SELECT FROM holdfast.inbox_steps AS s WHERE s.run_id = j.id) AS stepped, i.undo_asked,
  i.parent ->> 'q' AS parent_queue, i.parent ->> 'r' AS parent_id, i.parent ->> 's' AS parent_step
FROM (SELECT $1::uuid AS id) AS j
LEFT JOIN holdfast.inbox AS i ON i.id = j.id`,
  columns: {
    ...{ stepped: bool, undo_asked: text.orNull },
    ...{ parent_queue: text.orNull, parent_id: text.orNull, parent_step: text.orNull },
  },
});

export interface RunLinks {
  /** It is a run of a workflow. */
  readonly isRun: boolean;
  /** Why it is to undo what it did. */
  readonly undoAsked: string | null;
  /** The run that waits for it; null: none, or it has ended. */
  readonly parent: { readonly queue: string; readonly id: string; readonly step: string } | null;
}

export async function linksOf(
  db: Executor,
  names: Names,
  { id, type }: { readonly id: string; readonly type: string },
): Promise<RunLinks> {
  const [row] = await db.run(runLinks, names, [id]);
  const isRun =
    row?.stepped === true || (await workflowTypes(db, names)).some((one) => one.type === type);
  const { parentId, parentQueue, parentStep, undoAsked = null } = row ?? {};
  const isChild = parentId != null && parentQueue != null && parentStep != null;
  return {
    ...{ isRun, undoAsked },
    parent: isChild ? { queue: parentQueue, id: parentId, step: parentStep } : null,
  };
}

export const failedChildren = statement({
  name: 'failed_children',
  text: `
SELECT c.step, count(*) FILTER (WHERE c.outcome = 'd') AS dead, count(*) FILTER (WHERE c.outcome = 'x') AS cancelled,
  to_jsonb((array_agg(c.n ORDER BY c.n))[1:5]) AS first
FROM holdfast.inbox_children AS c
WHERE c.run_id = $1::uuid AND c.outcome IN ('d', 'x')
GROUP BY c.step
ORDER BY c.step`,
  columns: { step: text, dead: int8, cancelled: int8, first: parsed },
});

/** By the step that asked for them; `first`: the numbers of the first that did not complete. */
export type FailedChildren = Row<typeof failedChildren.columns>;

export function failedChildrenOf(
  db: Executor,
  names: Names,
  id: string,
): Promise<FailedChildren[]> {
  return db.run(failedChildren, names, [id]);
}

export const stepValue = statement({
  name: 'step_value',
  text: `
SELECT s.value FROM holdfast.inbox_steps AS s
WHERE s.run_id = $1::uuid AND s.name = $2::text AND s.place IS NOT NULL AND s.kind IN ('s', 'S', 't', 'T', 'w')`,
  columns: { value: parsed },
});

export const signalValue = statement({
  name: 'signal_value',
  text: `
SELECT s.value FROM holdfast.inbox_signals AS s
WHERE s.run_id = $1::uuid AND s.name = $2::text AND s.sent_at = $3::text::timestamptz
ORDER BY s.id
LIMIT 1`,
  columns: { value: parsed },
});

/** Which value of a run: what a step returned, or what the signal carried that was sent at this moment. */
export type WhichValue =
  | { readonly step: string }
  | { readonly signal: string; readonly sentAt: string };

/** Null: there is no such step or signal, or the step has not ended. */
export async function runValue(
  db: Executor,
  names: Names,
  id: string,
  which: WhichValue,
): Promise<{ readonly value: unknown } | null> {
  const [row] =
    'step' in which
      ? await db.run(stepValue, names, [id, which.step])
      : await db.run(signalValue, names, [id, which.signal, which.sentAt]);
  return row ?? null;
}
