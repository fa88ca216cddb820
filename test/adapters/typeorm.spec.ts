import { DataSource, type EntityManager, type QueryRunner } from 'typeorm';
import { describe, expect, expectTypeOf, onTestFinished, test } from 'vitest';
import { fromTypeOrm } from '../../packages/holdfast/src/enqueue/adapters.js';
import { job, type Queryable } from '../../packages/holdfast/src/index.js';
import { adapterContract, type TransactionLibrary } from '../support/adapter-contract.js';
import { testDatabase } from '../support/database.js';

const db = testDatabase();
const INSERT = 'INSERT INTO orders VALUES ($1)';

function opened(url: string) {
  return new DataSource({ type: 'postgres', url, entities: [] }).initialize();
}

function withManager(url: string): TransactionLibrary {
  const source = opened(url);
  return {
    transaction: async (work) =>
      (await source).transaction((manager) =>
        work(fromTypeOrm(manager), (id) => manager.query(INSERT, [id])),
      ),
    close: async () => (await source).destroy(),
  };
}

function withQueryRunner(url: string): TransactionLibrary {
  const source = opened(url);
  return {
    async transaction(work) {
      const runner = (await source).createQueryRunner();
      try {
        await runner.startTransaction();
        await work(fromTypeOrm(runner), (id) => runner.query(INSERT, [id]));
        await runner.commitTransaction();
      } catch (error) {
        await runner.rollbackTransaction();
        throw error;
      } finally {
        await runner.release();
      }
    },
    close: async () => (await source).destroy(),
  };
}

describe('TypeORM, the manager of a transaction', () => adapterContract(db, withManager));
describe('TypeORM, a query runner', () => adapterContract(db, withQueryRunner));

test('what is no open transaction is refused, with the adapter and without', async () => {
  const source = await opened(db.url);
  const runner = source.createQueryRunner();
  onTestFinished(async () => {
    await runner.release();
    await source.destroy();
  });
  await db.rows('TRUNCATE holdfast.inbox');
  const work = job<object>('work');
  for (const none of [source, source.manager, runner, runner.manager]) {
    expect(() => fromTypeOrm(none as never)).toThrow(/no open transaction/);
    const attempt = db.hf.enqueue(work, {}, { tx: none as unknown as Queryable });
    await expect(attempt).rejects.toMatchObject({ code: 'OPTION_INVALID' });
  }
  expect(await db.rows('SELECT FROM holdfast.inbox')).toEqual([]);
});

test('the types', () => {
  type Accepted = Parameters<typeof fromTypeOrm>[0];
  expectTypeOf<EntityManager>().toExtend<Accepted>();
  expectTypeOf<QueryRunner>().toExtend<Accepted>();
  expectTypeOf<DataSource>().not.toExtend<Accepted>();
});
