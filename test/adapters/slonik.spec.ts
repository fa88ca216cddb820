import { createPool, type DatabasePool, type DatabaseTransactionConnection, sql } from 'slonik';
import { describe, expect, expectTypeOf, onTestFinished, test } from 'vitest';
import { fromSlonik } from '../../packages/holdfast/src/enqueue/adapters.js';
import { job, type Queryable } from '../../packages/holdfast/src/index.js';
import { adapterContract, type TransactionLibrary } from '../support/adapter-contract.js';
import { testDatabase } from '../support/database.js';

const db = testDatabase();

function withSlonik(url: string): TransactionLibrary {
  const pool = createPool(url);
  return {
    transaction: async (work) =>
      (await pool).transaction((connection) =>
        work(fromSlonik(connection), (id) =>
          connection.query(sql.unsafe`INSERT INTO orders VALUES (${id})`),
        ),
      ),
    close: async () => (await pool).end(),
  };
}

describe('Slonik', () => adapterContract(db, withSlonik));

test('a pool is refused, with the adapter and without', async () => {
  const pool = await createPool(db.url);
  onTestFinished(() => pool.end());
  await db.rows('TRUNCATE holdfast.inbox');
  expect(() => fromSlonik(pool as never)).toThrow(/is a pool/);
  const attempt = db.hf.enqueue(job<object>('work'), {}, { tx: pool as unknown as Queryable });
  await expect(attempt).rejects.toMatchObject({
    code: 'OPTION_INVALID',
    message: expect.stringContaining('fromSlonik(transaction)'),
  });
  expect(await db.rows('SELECT FROM holdfast.inbox')).toEqual([]);
});

test('the types', () => {
  type Accepted = Parameters<typeof fromSlonik>[0];
  expectTypeOf<DatabaseTransactionConnection>().toExtend<Accepted>();
  expectTypeOf<DatabasePool>().not.toExtend<Accepted>();
});
