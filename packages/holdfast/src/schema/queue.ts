/**
 * Queues: another table of the same shape as `inbox`, with its own archive, keys and effect markers.
 *
 * A queue is made by the same text as `inbox` under its own name (texts.ts), in one transaction, under the lock that
 * migrations take, so a queue always has the shape that `inbox` has. What it says of
 * order is set in the same transaction, so nothing is ever enqueued without it; and whoever may do something with
 * `inbox` may do the same with the new queue from its first moment.
 */
import { HoldfastError } from '../job/errors/errors.js';
import { checkKnown, type Known } from '../job/options/known-options.js';
import { checkPolicy, type ReadPolicyOptions } from '../job/turns.js';
import { checkQueueName, loadText, quoteName } from '../postgres/names.js';
import type { Queryable } from '../postgres/queryable.js';
import { grantsLikeInbox } from './grants.js';
import { checkSchema, migrationLock } from './migrate.js';
import { queueText } from './texts.js';

const SETTINGS = `
UPDATE holdfast.queues AS q
SET ordering = $1::text::holdfast.ordering, per_key = $2::integer, per_group = $3::integer, fair = $4::boolean,
  weights = $5::text::jsonb
WHERE q.name = 'inbox'`;

const OPTIONS = {
  ...{ ordering: true, deadLetters: true, perKey: true, perGroup: true, fair: true, weights: true },
} as const satisfies Known<ReadPolicyOptions>;

/**
 * Returns false when the queue existed already, and changes nothing then. Needs one client, not a pool. `made` is
 * called in the transaction that makes the queue.
 */
export async function createQueue(
  client: Queryable,
  schema: string,
  queue: string,
  options: ReadPolicyOptions = {},
  made: () => Promise<void> = async () => undefined,
): Promise<boolean> {
  checkQueueName(queue);
  checkKnown(options, OPTIONS, 'createQueue()', 'No queue was made.');
  const policy = checkPolicy(`Queue "${queue}"`, options);
  await client.query('BEGIN ISOLATION LEVEL READ COMMITTED');
  try {
    await client.query(migrationLock(schema));
    const found = await client.query(
      `SELECT name FROM ${quoteName(schema)}.queues WHERE name = $1`,
      [queue],
    );
    const exists = (Array.isArray(found) ? found : found.rows).length > 0;
    if (!exists) {
      await checkSchema(client, schema);
      await client.query(queueText(schema, queue));
      for (const grant of await grantsLikeInbox(client, schema, queue)) await client.query(grant);
      if (policy) {
        const { ordering, perKey, perGroup, fair, weights } = policy;
        const values = [ordering, perKey, perGroup, fair, JSON.stringify(weights)];
        await client.query(loadText(SETTINGS, { schema, queue }), values);
      }
      await made();
    }
    await client.query('COMMIT');
    return !exists;
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined);
    if ((error as { code?: string }).code === '42P07') {
      throw new HoldfastError(
        'QUEUE_EXISTS',
        `A table in the way of queue "${queue}" exists already in schema "${schema}"; nothing was made. ` +
          'Choose another name or drop the table.',
        { cause: error },
      );
    }
    throw error;
  }
}
