/** The children of a step: how each ended, in the order of the inputs. */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { int4, json, plainArray, statement, text } from '../../postgres/statement.js';
import type { ChildResult } from '../flow.js';
import type { ChildOutcome } from '../turn/ports.js';
import type { Owner } from './record.js';

export const loadChildren = statement({
  name: 'load_children',
  text: `
SELECT c.n, c.outcome::text AS outcome, c.value FROM holdfast.inbox_children AS c
WHERE c.run_id = $1::uuid AND c.step = $2::text`,
  columns: { n: int4, outcome: text, value: json.orNull },
});

/** Those that left anything; the others completed without a result. */
export function outcomesOf(
  db: Executor,
  names: Names,
  run: string,
  step: string,
): Promise<ChildOutcome[]> {
  return db.run(loadChildren, names, [run, step]);
}

export function childrenResults(
  count: number,
  outcomes: readonly ChildOutcome[],
): ChildResult<unknown>[] {
  const none = { status: 'completed', value: null } as const;
  const results: ChildResult<unknown>[] = Array.from({ length: count }, () => none);
  for (const { n, outcome, value } of outcomes) {
    const read = value === null ? null : JSON.parse(value);
    if (outcome === 'c') results[n] = { status: 'completed', value: read };
    else if (outcome === 'd') results[n] = { status: 'dead_letter', error: String(read) };
    else results[n] = { status: 'cancelled' };
  }
  return results;
}

/** The open marker that counts the children, in the transaction that writes them. Fenced, at its end. */
export const openChildren = statement({
  name: 'open_children',
  text: `
WITH owned AS MATERIALIZED (
  SELECT i.id FROM holdfast.inbox AS i
  WHERE i.id = $2::text::uuid AND i.lease_generation = $3::text::bigint AND i.claimed_by = $1::text
    AND i.status = 'processing' AND i.lease_expires_at > statement_timestamp()
  FOR SHARE
)
INSERT INTO holdfast.inbox_steps AS s (run_id, check_at, nth, remaining, kind, name, value)
SELECT o.id, CASE WHEN $6::text = 'true' THEN now() END, $5::text::integer, $7::text::integer, 'c', $4::text, $8::text::jsonb
FROM owned AS o
RETURNING s.name`,
  columns: { name: text },
});

/** False: the run is lost, and the transaction is to be rolled back. `first`: the id of the first child. */
export async function openGroup(
  db: Executor,
  names: Names,
  { workerId, id, generation }: Owner,
  group: {
    name: string;
    nth: number;
    first: boolean;
    count: number;
    queue: string;
    firstId: string;
  },
): Promise<boolean> {
  const { name, nth, first, count, queue, firstId } = group;
  const about = JSON.stringify({ queue, first: firstId, count });
  const params = [workerId, id, generation, name, nth, first, count].map(String);
  return (await db.run(openChildren, names, [...params, about])).length > 0;
}

export const findGroups = statement({
  name: 'find_groups',
  text: `
SELECT s.value ->> 'queue' AS queue, s.value ->> 'first' AS first, (s.value ->> 'count')::integer AS count
FROM holdfast.inbox_steps AS s
WHERE s.run_id = ANY ((SELECT $1::text::uuid[])::uuid[]) AND s.kind = 'c' AND s.remaining > 0
ORDER BY s.run_id, s.nth`,
  columns: { queue: text, first: text, count: int4 },
});

/** The children of these runs that may not have ended. */
export function openGroups(db: Executor, names: Names, runs: readonly string[]) {
  return db.run(findGroups, names, [plainArray(runs)]);
}

export const findStep = statement({
  name: 'find_step',
  text: `
SELECT s.name FROM holdfast.inbox_steps AS s WHERE s.run_id = $1::uuid AND s.name = $2::text`,
  columns: { name: text },
});

/** After a COMMIT whose answer was lost. */
export async function stands(db: Executor, names: Names, run: string, name: string) {
  return (await db.run(findStep, names, [run, name])).length > 0;
}
