/**
 * Fences for downstream tables: a write that carries an older fence token, which is the generation of its claim, is
 * refused. `guardTable` puts a trigger on a table with a column `fence_token bigint` that refuses an UPDATE whose token is
 * older than the stored one (HF001). For rows that belong to one job: tokens of different jobs cannot be compared.
 */
import { HoldfastError } from '../job/errors/errors.js';
import { checkSchemaName, quoteName } from '../postgres/names.js';
import type { Queryable } from '../postgres/queryable.js';

/**
 * Puts a trigger on a table with a column `fence_token`: it rejects writes of a handler that lost its job. Safe to repeat.
 * @example await guardTable(client, 'public.receipts');
 */
export async function guardTable(db: Queryable, table: string, schema = 'holdfast'): Promise<void> {
  const parts = table.split('.');
  if (parts.length > 2 || parts.some((part) => part === '' || part.includes('\0'))) {
    throw new HoldfastError(
      'NAME_INVALID',
      `${JSON.stringify(table)} is not a table name; no trigger was made. Write "table" or "schema.table".`,
    );
  }
  const target = parts.map(quoteName).join('.');
  await db.query(
    `CREATE OR REPLACE TRIGGER holdfast_fence BEFORE UPDATE ON ${target} ` +
      `FOR EACH ROW EXECUTE FUNCTION ${quoteName(checkSchemaName(schema))}.reject_stale_fence()`,
  );
}

/**
 * Whether a guarded table rejected the write because of a stale token.
 * @example const isOld = await client.query('UPDATE receipts SET sent = true').then(() => false, isStaleFence);
 */
export function isStaleFence(error: unknown): boolean {
  return (error as { code?: unknown } | null)?.code === 'HF001';
}
