import { Sequelize, type Transaction } from 'sequelize';
import { describe, expect, expectTypeOf, onTestFinished, test } from 'vitest';
import { fromSequelize } from '../../packages/holdfast/src/enqueue/adapters.js';
import { job, type Queryable } from '../../packages/holdfast/src/index.js';
import { adapterContract, type TransactionLibrary } from '../support/adapter-contract.js';
import { testDatabase } from '../support/database.js';

const db = testDatabase();
const open = (url: string) => new Sequelize(url, { logging: false });

function withSequelize(url: string): TransactionLibrary {
  const sequelize = open(url);
  return {
    transaction: (work) =>
      sequelize.transaction((transaction) =>
        work(fromSequelize(transaction), (id) =>
          sequelize.query('INSERT INTO orders VALUES ($1)', { bind: [id], transaction }),
        ),
      ),
    close: () => sequelize.close(),
  };
}

describe('Sequelize', () => adapterContract(db, withSequelize));

test('what is no open transaction is refused, with the adapter and without', async () => {
  const sequelize = open(db.url);
  onTestFinished(() => sequelize.close());
  await db.rows('TRUNCATE holdfast.inbox');
  const ended = await sequelize.transaction();
  await ended.rollback();
  const work = job<object>('work');
  for (const none of [sequelize, ended]) {
    expect(() => fromSequelize(none as never)).toThrow(/no open transaction/);
    const attempt = db.hf.enqueue(work, {}, { tx: none as unknown as Queryable });
    await expect(attempt).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringContaining('fromSequelize(transaction)'),
    });
  }
  expect(await db.rows('SELECT FROM holdfast.inbox')).toEqual([]);
});

test('the types', () => {
  type Accepted = Parameters<typeof fromSequelize>[0];
  expectTypeOf<Transaction>().toExtend<Accepted>();
  expectTypeOf<Sequelize>().not.toExtend<Accepted>();
});
