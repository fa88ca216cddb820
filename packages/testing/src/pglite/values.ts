/**
 * Values, rows and errors of PGlite as `pg` has them: parameters go in as text, errors come out as those of `pg`,
 * and rows are objects of this realm. Under Jest, PGlite lives outside of the realm of the tests, where
 * `instanceof` and strict comparisons do not know its objects.
 */
import { createRequire } from 'node:module';
import pg from 'pg';

const { prepareValue } = createRequire(import.meta.url)('pg/lib/utils.js') as {
  prepareValue(value: unknown): string | Buffer | null;
};

export function asText(value: unknown): string | null {
  const prepared = prepareValue(value);
  return Buffer.isBuffer(prepared) ? `\\x${prepared.toString('hex')}` : prepared;
}

export const literal = (text: string | null) =>
  text === null ? 'NULL' : `'${text.replaceAll("'", "''")}'`;

/** Parameters are text already, whatever type the statement gives them. */
export const SERIALIZERS = new Proxy({}, { get: () => (text: string) => text });

export const ownRows = (rows: readonly unknown[], asArrays: boolean): unknown[] =>
  Array.from(rows, (row) => (asArrays ? Array.from(row as unknown[]) : { ...(row as object) }));

const FIELDS = [
  ...(['severity', 'code', 'detail', 'hint', 'position', 'internalPosition'] as const),
  ...(['internalQuery', 'where', 'schema', 'table', 'column', 'dataType'] as const),
  ...(['constraint', 'file', 'line', 'routine'] as const),
];

/** The same error as `pg` throws it; one that is not the database's is the cause of another. */
export function ownError(error: unknown): Error {
  const given = error as Error & Partial<pg.DatabaseError>;
  if (given?.severity === undefined) {
    return new Error(String(given?.message ?? error), { cause: error });
  }
  const own = new pg.DatabaseError(given.message, given.length ?? 0, 'error');
  for (const field of FIELDS) own[field] = given[field];
  return own;
}
