/**
 * What a human does with dead letters: try them again, or discard them into the archive. Both return the ids that they
 * moved. A retried job starts with all its attempts; its history stays. One that had freed its key goes to the end of the
 * key's line, and several of them keep their order; one that holds its key keeps its place at the head.
 *
 * They run on connections of a user, and on tables that were never analysed. So the ids are read once, in a
 * sub-select: as a plain cast Postgres would read all of them again for each row. And the update does not ask for the
 * state of rows that it has locked in that state: Postgres would expect next to none, and compare all with all. Rows are
 * locked in the order of their ids, as all do that lock many: a small table is read as it lies.
 */
import { checkIds } from '../job/id.js';
import { archived, KEEPS_EFFECTS } from '../postgres/fragments.js';
import { inQueue } from '../postgres/in-queue.js';
import type { Names } from '../postgres/names.js';
import type { Executor } from '../postgres/queryable.js';
import { int4, plainArray, statement, text, uuid } from '../postgres/statement.js';

export const retryDeadLetters = statement({
  name: 'retry_dead_letters',
  text: `
WITH letters AS MATERIALIZED (
  SELECT i.id, i.position, i.parked
  FROM holdfast.inbox AS i
  WHERE i.id = ANY ((SELECT $1::text::uuid[])::uuid[]) AND i.status = 'dead_letter'
  ORDER BY i.id
  FOR UPDATE
), placed AS MATERIALIZED (
  SELECT l.id, CASE WHEN l.parked THEN nextval('holdfast.inbox_position_seq')
    ELSE l.position END AS position
  FROM (SELECT * FROM letters ORDER BY position) AS l
)
UPDATE holdfast.inbox AS i
SET status = 'pending', available_at = now(), attempts = 0, crashes = 0, position = p.position,
    parked = false
FROM placed AS p
WHERE i.id = p.id
RETURNING i.id, i.available_at::text AS due, i.partition_bucket AS bucket`,
  columns: { id: uuid, due: text, bucket: int4 },
});

/** They wait where workers have read already: hint them (fleet/wake.ts), or they start with the next poll. */
export async function retryLetters(db: Executor, names: Names, ids: readonly string[]) {
  const params = [plainArray(checkIds(ids))];
  const rows = await inQueue(names, db.run(retryDeadLetters, names, params));
  return rows.map(({ id, due, bucket }) => ({ id, runAt: due, partitionBucket: bucket }));
}

export async function retry(db: Executor, names: Names, ids: readonly string[]): Promise<string[]> {
  return (await retryLetters(db, names, ids)).map((row) => row.id);
}

export const discardDeadLetters = statement({
  name: 'discard_dead_letters',
  text: `
WITH letters AS MATERIALIZED (
  SELECT i.id
  FROM holdfast.inbox AS i
  WHERE i.id = ANY ((SELECT $1::text::uuid[])::uuid[]) AND i.status = 'dead_letter'
  ORDER BY i.id
  FOR UPDATE
), gone AS (
  DELETE FROM holdfast.inbox AS i USING letters WHERE i.id = letters.id
  RETURNING i.*
), ${KEEPS_EFFECTS}
${archived('dead_letter')}
RETURNING id`,
  columns: { id: uuid },
});

export async function discard(db: Executor, names: Names, ids: readonly string[]) {
  const params = [plainArray(checkIds(ids))];
  const rows = await inQueue(names, db.run(discardDeadLetters, names, params));
  return rows.map((row) => row.id);
}
