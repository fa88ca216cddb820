/**
 * The texts that make a schema and a queue from nothing. The first queue and all later ones are made in the same way:
 * the per-queue part of every migration, the functions, and last its row in `queues`, whose trigger makes the index that
 * claims read. So the row finds the newest functions, and those find every column.
 */
import { loadText, quoteName } from '../postgres/names.js';
import type { FunctionFile } from './function-file.js';
import { PROGRAM, type Program } from './migrations.js';

export const recordsOf = (schema: string) => `${quoteName(schema)}.migrations`;

export const recordsTable = (schema: string) => `CREATE TABLE IF NOT EXISTS ${recordsOf(schema)} (
  id            integer PRIMARY KEY,
  name          text NOT NULL,
  breaks_before integer NOT NULL,
  applied_at    timestamptz NOT NULL DEFAULT now()
);`;

/** One function file for a schema or a queue that nobody uses yet. */
const newText = ({ drop = '', text }: FunctionFile) => `${drop}${text}`;

/** What a schema has once. */
export function commonText(schema: string, { migrations, functions }: Program = PROGRAM): string {
  const texts = [
    ...migrations.map(({ common }) => common),
    ...functions.filter((file) => file.of === 'schema').map(newText),
  ];
  return loadText(texts.join('\n'), { schema, queue: 'inbox' });
}

/** A new queue. */
export function queueText(
  schema: string,
  queue: string,
  { migrations, functions }: Program = PROGRAM,
): string {
  const online = migrations.flatMap((migration) => migration.online ?? []);
  const texts = [
    ...migrations.map(({ perQueue }) => perQueue),
    ...functions.filter((file) => file.of === 'queue').map(newText),
    ...online
      .filter(({ orderings }) => !orderings)
      .map(({ text, swap }) => `${text.replace(' CONCURRENTLY', '')};${swap?.text ?? ''}`),
    `INSERT INTO holdfast.queues (name, migration) VALUES ('inbox', ${migrations.length});\n`,
  ];
  return loadText(texts.join('\n'), { schema, queue });
}

/** The names of the functions of a queue, without the name of the queue. */
export function functionNames({ functions }: Program = PROGRAM): string[] {
  const texts = functions.filter((file) => file.of === 'queue').map(({ text }) => text);
  return [...texts.join('').matchAll(/FUNCTION holdfast\.inbox_(\w+) ?\(/g)]
    .map(([, name]) => name as string)
    .filter((name, at, all) => all.indexOf(name) === at);
}
