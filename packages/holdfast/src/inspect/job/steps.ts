/** The steps of a run: what it has done, what it waits for, and the signals that nobody has taken yet. */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { bool, int4, type Row, statement, text } from '../../postgres/statement.js';
import { instant, moment, parsed } from '../reading/columns.js';

export const stepRows = statement({
  name: 'steps_of',
  text: `
SELECT s.name, s.kind::text AS kind, s.place, s.nth, s.attempt::integer AS attempt, s.ms, s.due_at, s.remaining,
  -- Written once, at its end; or open first, and then it has the time of its end.
  CASE WHEN s.place IS NOT NULL AND s.due_at IS NULL AND s.kind IN ('s', 'S', 't', 'T', 'u')
    THEN s.at - coalesce(s.ms, 0) * interval '1 millisecond' ELSE s.at END AS started_at,
  CASE WHEN s.place IS NULL THEN NULL WHEN s.due_at IS NOT NULL THEN s.due_at
    WHEN s.kind IN ('s', 'S', 't', 'T', 'u') THEN s.at ELSE s.at + coalesce(s.ms, 0) * interval '1 millisecond' END AS ended_at,
  -- Which signals a wait waits for, and which children there are, is no value of anybody.
  CASE WHEN $2::boolean OR s.kind IN ('c', '!') OR s.kind = 'w' AND s.place IS NULL THEN s.value END AS value, s.error,
  EXISTS (SELECT FROM holdfast.inbox AS i WHERE i.id = s.run_id) AS lives
FROM holdfast.inbox_steps AS s
WHERE s.run_id = $1::uuid AND s.kind <> '#'
ORDER BY started_at, s.nth, s.place`,
  columns: {
    ...{
      name: text,
      kind: text,
      place: int4.orNull,
      nth: int4,
      attempt: int4.orNull,
      ms: int4.orNull,
    },
    ...{ due_at: instant, remaining: int4.orNull, started_at: moment, ended_at: instant },
    ...{ value: parsed, error: parsed, lives: bool },
  },
});

export const signalRows = statement({
  name: 'signals_of',
  text: `
SELECT s.name, s.sent_at, s.taken_by, s.key, CASE WHEN $2::boolean THEN s.value END AS value
FROM holdfast.inbox_signals AS s
WHERE s.run_id = $1::uuid
ORDER BY s.id
LIMIT 1000`,
  columns: { name: text, sent_at: moment, taken_by: text.orNull, key: text.orNull, value: parsed },
});

const KINDS: Readonly<Record<string, RunStep['kind']>> = {
  ...{
    s: 'step',
    t: 'transaction',
    z: 'sleep',
    w: 'wait',
    c: 'children',
    u: 'undo',
    '!': 'undoing',
  },
};

/** What the kind of a marker is called. */
export const kindOf = (kind: string): RunStep['kind'] => KINDS[kind.toLowerCase()] ?? 'step';

/** A step of a run. */
export interface RunStep<Time = string> {
  /** Its name; of an undo that of the step that it undoes. */
  readonly name: string;
  /** What the code asked for under this name. `undoing`: the run undoes what it did. */
  readonly kind: 'step' | 'transaction' | 'sleep' | 'wait' | 'children' | 'undo' | 'undoing';
  /**
   * `waiting`: for a time, a signal, its children or its next try. `started`: it has an undo, and its outcome is not known yet.
   * `dropped`: it waited, and the run ended without it.
   */
  readonly state: 'done' | 'failed' | 'waiting' | 'started' | 'dropped';
  /** The order in which the code asked for it. */
  readonly nth: number;
  /** It was declared with an undo. */
  readonly hasUndo: boolean;
  /** When it was first asked for. */
  readonly startedAt: Time;
  /** Null: it has not ended. */
  readonly endedAt: Time | null;
  /** How long its last try took, or how long it waited. */
  readonly ms: number | null;
  /** How often it was tried; null: once. */
  readonly attempts: number | null;
  /** Until when it waits. */
  readonly dueAt: Time | null;
  /** Of a wait: the signals that it waits for; it takes the first that comes. */
  readonly signals: readonly string[] | null;
  /** Of children: how many have not ended. */
  readonly remaining: number | null;
  /** What it returned, if values were asked for. */
  readonly value: unknown;
  /** What it threw last. */
  readonly error: {
    /** The name of its class. */
    readonly name: string;
    /** Its message, cut to 2,000 bytes. */
    readonly message: string;
    /** Its code, if it has one. */
    readonly code?: string;
  } | null;
}

/** A signal that was sent to a run. */
export interface RunSignal<Time = string> {
  /** Its name, as the workflow declares it. */
  readonly name: string;
  /** When it was sent. */
  readonly sentAt: Time;
  /** The key with which it was sent once; null: none. */
  readonly key: string | null;
  /** The wait that took it; null: none has. */
  readonly takenBy: string | null;
  /** What it carries, if values were asked for. */
  readonly value: unknown;
}

/**
 * What `hf.steps()` returns.
 * @example const { steps } = await hf.steps(run.id); const open = steps.filter(({ state }) => state === 'waiting');
 */
export interface RunSteps<Time = string> {
  /** What the run has done and what it waits for, in the order in which it began. */
  readonly steps: RunStep<Time>[];
  /** The first 1,000 signals that were sent to it, the oldest first. */
  readonly signals: RunSignal<Time>[];
}

type StepRow = Row<typeof stepRows.columns>;

function stepOf(row: StepRow): RunStep {
  const kind = kindOf(row.kind);
  const isDone = row.place !== null;
  const open =
    row.kind === 'S' && row.attempt === null ? 'started' : row.lives ? 'waiting' : 'dropped';
  const signals = kind === 'wait' && Array.isArray(row.value) ? (row.value as string[]) : null;
  return {
    ...{ name: kind === 'undo' ? row.name.slice(1) : row.name, kind },
    ...{ nth: row.nth, hasUndo: row.kind === 'S' || row.kind === 'T' },
    state: isDone ? (row.error === null ? 'done' : 'failed') : open,
    ...{ startedAt: row.startedAt, endedAt: row.endedAt, ms: row.ms, attempts: row.attempt },
    ...{ dueAt: isDone ? null : row.dueAt, signals, remaining: isDone ? null : row.remaining },
    value: signals ? null : row.value,
    error: row.error as RunStep['error'],
  };
}

export async function stepsOf(
  db: Executor,
  names: Names,
  id: string,
  values: boolean,
): Promise<RunSteps> {
  const steps = await db.run(stepRows, names, [id, values]);
  const signals = await db.run(signalRows, names, [id, values]);
  return { steps: steps.map(stepOf), signals };
}
