/**
 * Effect markers: "already done", durable, by job and name, with the value that was returned. `recordEffect` writes the
 * marker only while the caller still owns the job. A crash between the effect and its marker repeats the effect; for
 * effects inside Postgres use `ctx.transaction`.
 */
import { fenced } from '../postgres/fragments.js';
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { statement, text } from '../postgres/statement.js';

export const findEffectMarker = statement({
  name: 'find_effect',
  text: `
SELECT e.value::text AS value
FROM holdfast.inbox_effects AS e
WHERE e.job_id = $1::uuid AND e.name = $2::text`,
  columns: { value: text },
});

/** The stored value as JSON text, or null when the effect has not been recorded. */
export async function findEffect(db: Executor, names: Names, jobId: string, name: string) {
  const [row] = await db.run(findEffectMarker, names, [jobId, name]);
  return row?.value ?? null;
}

export const recordEffectMarker = statement({
  name: 'record_effect',
  text: `
WITH owned AS MATERIALIZED (
  SELECT i.id
  FROM holdfast.inbox AS i
  WHERE ${fenced('$2::uuid', '$3::bigint')}
  FOR SHARE
)
INSERT INTO holdfast.inbox_effects AS e (job_id, name, value, generation)
SELECT owned.id, $4::text, $5::text::jsonb, $3::bigint FROM owned
ON CONFLICT (job_id, name) DO UPDATE SET value = e.value
RETURNING e.value::text AS value`,
  columns: { value: text },
});

/** Returns the value that stands (an earlier one wins), or null when the lease was lost. */
export async function recordEffect(
  db: Executor,
  names: Names,
  owner: { workerId: string; id: string; generation: number },
  name: string,
  value: string,
): Promise<string | null> {
  const { workerId, id, generation } = owner;
  const params = [workerId, id, generation, name, value];
  const [row] = await db.run(recordEffectMarker, names, params);
  return row?.value ?? null;
}
