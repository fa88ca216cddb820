/** Putting runs to sleep, many at once (schema/functions/workflow/suspend.sql.ts). */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { int4, int8, plainArray, statement, text, uuid } from '../../postgres/statement.js';
import type { NewWait } from '../marker.js';
import type { Owner } from './record.js';

export interface Suspension {
  readonly owner: Owner;
  /** The last place that is taken. */
  readonly place: number;
  readonly first: boolean;
  readonly waits: readonly NewWait[];
}

/** What a run hears of while it is awake: a marker that has ended. */
export interface Arrived {
  readonly name: string;
  readonly place: number;
  readonly value: string | null;
}

export type Suspended =
  /** `dueInMs`: until a time comes for which it waits; null: it waits for none. */
  | { readonly state: 'asleep'; readonly dueInMs: number | null }
  /** It goes on: something is there, a step is due again, or it is to be undone. */
  | {
      readonly state: 'awake';
      readonly arrived: readonly Arrived[];
      readonly undoAsked: string | null;
    };

export const suspendRuns = statement({
  name: 'suspend',
  text: `
SELECT s.run_id, s.state, s.name, s.place, s.value, s.due_in_ms
FROM holdfast.inbox_suspend($1::text, $2::uuid[], $3::bigint[], $4::jsonb) AS s`,
  columns: {
    ...{ run_id: uuid, state: text, name: text.orNull, place: int4.orNull, value: text.orNull },
    due_in_ms: int8.orNull,
  },
});

/** By id; a run that is missing is not its owner's any more. `again`: an earlier try may have been done, its answer lost. */
export async function suspend(
  db: Executor,
  names: Names,
  all: readonly Suspension[],
  again = false,
) {
  const rows = await db.run(suspendRuns, names, [
    (all[0] as Suspension).owner.workerId,
    plainArray(all.map(({ owner }) => owner.id)),
    plainArray(all.map(({ owner }) => owner.generation)),
    JSON.stringify(
      all.map(({ place, first, waits }) => ({ p: place, f: first, b: again, w: waits.map(row) })),
    ),
  ]);
  const found = new Map<string, Suspended>();
  const arrived = new Map<string, Arrived[]>();
  for (const { runId, state, name, place, value, dueInMs } of rows) {
    if (state === 'done') {
      const of = arrived.get(runId) ?? [];
      of.push({ name: name as string, place: place as number, value });
      arrived.set(runId, of);
    } else if (state === 'asleep') found.set(runId, { state, dueInMs });
    else found.set(runId, { state: 'awake', arrived: arrived.get(runId) ?? [], undoAsked: value });
  }
  return found;
}

const row = ({ name, kind, nth, signals, ms, at, attempt, error }: NewWait) => ({
  ...{ n: name, k: kind, o: nth, s: signals, ms, at, a: attempt },
  ...(error !== undefined && { e: JSON.parse(error) }),
});
