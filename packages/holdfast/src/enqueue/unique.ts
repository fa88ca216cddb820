/**
 * Enqueue under unique keys: what stands is found, replaced or left by a function of the schema, one call for each job.
 *
 * A bulk call first takes all its locks in the order that all statements keep (docs/schema.md, "Lock order"): keys by
 * type and key, then jobs by id. Then jobs of one key are taken in the order in which they were given, so that the second
 * finds the first. Their positions are those of the items: jobs
 * of one partition key run in the order in which they were given. As in insert.ts, every parameter is one text.
 */
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { statement, text, textArray } from '../postgres/statement.js';
import { columnsOf, input, type NewJob } from './insert.js';

/** The calls need its answer, so none of them begins before all locks are there. */
const LOCKED_FIRST = `
CROSS JOIN (
  SELECT holdfast.inbox_lock_unique($18::text::text[], $14::text::text[], $15::text::text[], $16::text::text[]) AS locked
  OFFSET 0
) AS l`;

const insertText = ({ bulk }: { bulk: boolean }) => `
SELECT u.job_id::text AS id, u.outcome
FROM (
  -- The unique key takes the place of the idempotency key, which such a job has not.
  SELECT i.*, x.unique_while, x.on_conflict, x.window_ms
  FROM (
    SELECT n.*, nextval('holdfast.inbox_position_seq') AS position
    FROM (${input({ keyed: true })}) AS n
    ORDER BY n.ordinal
    OFFSET 0
  ) AS i
  JOIN unnest($15::text::text[], $16::text::text[], $17::text::bigint[]) WITH ORDINALITY
    AS x(unique_while, on_conflict, window_ms, ordinal) ON x.ordinal = i.ordinal
  ORDER BY i.type, i.idempotency_key, i.ordinal
  OFFSET 0
) AS j
${bulk ? LOCKED_FIRST : ''}
CROSS JOIN LATERAL holdfast.inbox_enqueue_unique(j.id, j.type, j.version, j.key, j.bucket, j.payload, j.headers,
  j.priority, j.max_attempts, j.available_at, j.idempotency_key, j.unique_while, j.on_conflict,
  j.window_ms * interval '1 millisecond', j.group_key, j.limit_key,
  ${bulk ? 'CASE WHEN l.locked THEN j.position END' : 'j.position'}) AS u
ORDER BY j.ordinal`;

export const insertUnique = statement({
  name: 'insert_unique',
  text: insertText({ bulk: false }),
  columns: { id: text, outcome: text },
});

export const insertUniques = statement({
  name: 'insert_uniques',
  text: insertText({ bulk: true }),
  columns: { id: text, outcome: text },
});

/** All of them have a unique key. */
export async function insertFolded(db: Executor, names: Names, jobs: readonly NewJob[]) {
  const params = [
    ...columnsOf(jobs),
    textArray(jobs.map(({ unique }) => unique?.key ?? null)),
    textArray(jobs.map(({ unique }) => unique?.while ?? null)),
    textArray(jobs.map(({ unique }) => unique?.onConflict ?? null)),
    textArray(jobs.map(({ unique }) => unique?.windowMs?.toString() ?? null)),
  ];
  const types = textArray(jobs.map(({ type }) => type));
  const rows =
    jobs.length === 1
      ? await db.run(insertUnique, names, params)
      : await db.run(insertUniques, names, [...params, types]);
  return rows.map(({ id, outcome }) => ({
    id,
    deduplicated: outcome !== 'written',
    ...(outcome === 'replaced' && { replaced: true as const }),
  }));
}
