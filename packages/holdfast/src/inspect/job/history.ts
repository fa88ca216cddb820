/** A run as a test takes it home: its input and everything that is recorded of it, so that other code can be tried on it. */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { type Column, statement } from '../../postgres/statement.js';
import { showJobRow } from './show.js';

/** What a run has done or waits for, as it is recorded. */
export interface RecordedStep {
  /** Its name; of an undo the name of its step, behind the character U+0001. */
  readonly name: string;
  /** `s` step, `t` transaction, `z` sleep, `w` wait, `c` children, `u` undo; a capital: it has an undo. */
  readonly kind: string;
  /** The order in which the code asked for it. */
  readonly nth: number;
  /** The order in which it ended; null: it has not ended. */
  readonly place: number | null;
  /** How often it was tried; null: once. */
  readonly attempt: number | null;
  /** Of children: how many have not ended. */
  readonly remaining: number | null;
  /** What it returned; null: nothing. */
  readonly value: unknown;
  /** What it threw; null: nothing. */
  readonly error: unknown;
}

/** How a child of a run ended. */
export interface RecordedChild {
  /** The name of the step that asked for it. */
  readonly step: string;
  /** Which input of that step it has. */
  readonly n: number;
  /** `c` completed, `d` dead letter, `x` cancelled. */
  readonly outcome: string;
  /** Its result, or the error that it ended with. */
  readonly value: unknown;
}

/** What `hf.history()` returns: plain JSON, so it can be kept in a file. It has the values of your steps. */
export interface RunHistory {
  /** The version of this format. */
  readonly format: 1;
  /** The name of the workflow. */
  readonly workflow: string;
  /** The id of the run. */
  readonly id: string;
  /** The version of the body that the run began with. */
  readonly version: number;
  /** Where the run stood: `pending`, `processing`, `completed`, `dead_letter` or `cancelled`. */
  readonly status: string;
  /** ISO 8601. */
  readonly createdAt: string;
  /** The headers it was enqueued with. */
  readonly headers: Readonly<Record<string, string>>;
  /** What it was enqueued or restarted with. */
  readonly input: unknown;
  /** Why it is to undo what it did; null: it is not. */
  readonly undoAsked: string | null;
  /** In the order in which they ended; those that have not come last. */
  readonly steps: readonly RecordedStep[];
  /** Those that failed or returned something. */
  readonly children: readonly RecordedChild[];
}

const list = <Value>(): Column<readonly Value[]> => ({
  ...{ pgType: 'jsonb', parse: JSON.parse, nullable: false },
});

export const recordedSteps = statement({
  name: 'recorded_steps',
  text: `
SELECT (SELECT to_jsonb(i.undo_asked) FROM holdfast.inbox AS i WHERE i.id = $1::uuid) AS undo_asked,
  coalesce((SELECT jsonb_agg(jsonb_build_object('name', s.name, 'kind', s.kind, 'nth', s.nth, 'place', s.place,
      'attempt', s.attempt, 'remaining', s.remaining, 'value', s.value, 'error', s.error) ORDER BY s.place, s.nth)
    FROM holdfast.inbox_steps AS s WHERE s.run_id = $1::uuid), '[]') AS steps,
  coalesce((SELECT jsonb_agg(jsonb_build_object('step', c.step, 'n', c.n, 'outcome', c.outcome, 'value', c.value)
      ORDER BY c.step, c.n)
    FROM holdfast.inbox_children AS c WHERE c.run_id = $1::uuid), '[]') AS children`,
  columns: {
    undo_asked: { pgType: 'jsonb', parse: JSON.parse, nullable: true } as Column<string | null>,
    steps: list<RecordedStep>(),
    children: list<RecordedChild>(),
  },
});

/** Null: the queue does not know the run. */
export async function historyOf(
  db: Executor,
  names: Names,
  id: string,
): Promise<RunHistory | null> {
  const [job] = await db.run(showJobRow, names, [id, true]);
  if (!job) return null;
  const [recorded] = await db.run(recordedSteps, names, [id]);
  if (!recorded) return null;
  const { type, version, status, createdAt, headers, payload } = job;
  return {
    ...{ format: 1, workflow: type, id: job.id, version, status, createdAt },
    headers: (headers ?? {}) as RunHistory['headers'],
    ...{ input: payload, ...recorded },
  };
}
