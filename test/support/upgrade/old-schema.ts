/** A schema as the release that knew migration 1 only made it, from the frozen text of that migration. */
import type pg from 'pg';
import { loadText } from '../../../packages/holdfast/src/postgres/names.js';
import {
  engine,
  registerInbox,
} from '../../../packages/holdfast/src/schema/migrations/0001-engine.sql.js';
import { recordsTable } from '../../../packages/holdfast/src/schema/texts.js';

/** What that release ran for a new queue. */
export const oldQueueText = (queue: string): string =>
  loadText(`${engine.perQueue}${registerInbox}`, { schema: 'holdfast', queue });

export async function makeOldSchema(
  client: pg.ClientBase | pg.Pool,
  queues: readonly string[] = [],
): Promise<void> {
  await client.query(
    [
      'CREATE SCHEMA holdfast;',
      recordsTable('holdfast'),
      engine.common,
      ...['inbox', ...queues].map(oldQueueText),
      `INSERT INTO holdfast.migrations (id, name, breaks_before) VALUES (1, 'engine', 1);`,
    ].join('\n'),
  );
}
