/** A schema as version 0.1 made it, word for word: 0.1/. */
import { readFileSync } from 'node:fs';
import type pg from 'pg';
import { loadText } from '../../../packages/holdfast/src/postgres/names.js';
import { recordsTable } from '../../../packages/holdfast/src/schema/texts.js';

const text = (name: string) =>
  readFileSync(new URL(`0.1/${name}.sql`, import.meta.url), { encoding: 'utf8' });

/** What that release ran for a new queue. */
export const oldQueueText = (queue: string): string =>
  loadText(`${text('queue')}${text('register')}`, { schema: 'holdfast', queue });

export async function makeOldSchema(
  client: pg.ClientBase | pg.Pool,
  queues: readonly string[] = [],
): Promise<void> {
  await client.query(
    [
      'CREATE SCHEMA holdfast;',
      recordsTable('holdfast'),
      text('schema'),
      ...['inbox', ...queues].map(oldQueueText),
      `INSERT INTO holdfast.migrations (id, name, breaks_before) VALUES (1, 'engine', 1);`,
    ].join('\n'),
  );
}
