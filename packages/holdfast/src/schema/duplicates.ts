/**
 * Ids that a queue has twice, from a time when its primary key was the id and the bucket of the partition key. They are in
 * the way of the index that makes an id one job. Only a human knows which of two jobs is meant, so none is touched.
 */
import { HoldfastError } from '../job/errors/errors.js';
import { quoteName } from '../postgres/names.js';
import type { Queryable } from '../postgres/queryable.js';
import { rows } from './state.js';

const MOST = 20;

/** Drops what is left of the index, and returns the error that says which ids are there twice. */
export async function duplicateIds(
  client: Queryable,
  schema: string,
  queue: string,
  cause: unknown,
): Promise<HoldfastError> {
  const [own, table] = [quoteName(schema), `${quoteName(schema)}.${quoteName(queue)}`];
  // An index that could not be finished refuses rows all the same.
  await client.query(`DROP INDEX CONCURRENTLY IF EXISTS ${own}.${quoteName(`${queue}_job_pkey`)}`);
  const found = await rows(
    client,
    `SELECT id::text AS id, string_agg(partition_key, ', ' ORDER BY partition_key) AS keys
     FROM ${table} GROUP BY id HAVING count(*) > 1 ORDER BY id LIMIT ${MOST + 1}`,
  );
  const lines = found
    .slice(0, MOST)
    .map(({ id, keys }) => `  ${id} with the partition keys ${keys}`);
  if (found.length > MOST) lines.push('  and more');
  return new HoldfastError(
    'SCHEMA_TOO_OLD',
    `Some ids of the queue "${queue}" are two jobs, which this version rules out; the queue was not changed:\n` +
      `${lines.join('\n')}\n` +
      `Give one of each pair an id of its own (UPDATE ${table} SET id = ${own}.new_id() WHERE id = … AND partition_key = …), ` +
      'or delete it, while no worker runs it. Then run `holdfast migrate` again.',
    { cause },
  );
}
