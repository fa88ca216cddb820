/**
 * How many dead letters a queue has, from their own index, in steps. Where vacuum has been, a step reads the index
 * alone, and hundreds of thousands are counted in an instant. Where it has not, each letter costs a page of the
 * table; so after `budgetMs` the rest is left to what the last vacuum or analyze counted, and that is said.
 */
import type { Names } from '../../postgres/names.js';
import type { Executor } from '../../postgres/queryable.js';
import { int8, statement, uuid } from '../../postgres/statement.js';

const STEP = 10_000;
const BUDGET_MS = 150;

export const countDead = statement({
  name: 'count_dead_letters',
  text: `
SELECT (SELECT count(*) FROM (
    SELECT FROM holdfast.inbox AS i
    WHERE i.available_at = 'infinity' AND i.id > $2::uuid
    ORDER BY i.id LIMIT $1::integer) AS step) AS jobs,
  -- The last of a whole step.
  (SELECT i.id FROM holdfast.inbox AS i
   WHERE i.available_at = 'infinity' AND i.id > $2::uuid
   ORDER BY i.id OFFSET $1::integer - 1 LIMIT 1) AS last`,
  columns: { jobs: int8, last: uuid.orNull },
});

export const expectDead = statement({
  name: 'expect_dead_letters',
  text: `
SELECT greatest(c.reltuples::bigint, 0) AS jobs
FROM pg_class AS c
WHERE c.oid = to_regclass('holdfast.inbox_dead_idx')`,
  columns: { jobs: int8 },
});

export interface DeadCount {
  readonly jobs: number;
  /** It lags until the next vacuum or analyze. */
  readonly approximate: boolean;
}

export async function deadLetterCount(
  db: Executor,
  names: Names,
  budgetMs = BUDGET_MS,
): Promise<DeadCount> {
  const from = performance.now();
  let [jobs, after] = [0, '00000000-0000-0000-0000-000000000000'];
  for (;;) {
    const [step] = await db.run(countDead, names, [STEP, after]);
    jobs += step?.jobs ?? 0;
    if (!step?.last) return { jobs, approximate: false };
    if (performance.now() - from > budgetMs) break;
    after = step.last;
  }
  const [expected] = await db.run(expectDead, names, []);
  return { jobs: Math.max(jobs, expected?.jobs ?? 0), approximate: true };
}
