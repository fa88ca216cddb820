import { type EntityManager, EntitySchema, MikroORM } from '@mikro-orm/postgresql';
import { describe, expect, expectTypeOf, onTestFinished, test } from 'vitest';
import { fromMikroOrm } from '../../packages/holdfast/src/enqueue/adapters.js';
import { job, type Queryable } from '../../packages/holdfast/src/index.js';
import { adapterContract, type TransactionLibrary } from '../support/adapter-contract.js';
import { testDatabase } from '../support/database.js';

const db = testDatabase();
const Order = new EntitySchema<{ id: number }>({
  name: 'Order',
  tableName: 'orders',
  properties: { id: { type: 'integer', primary: true } },
});
const open = (url: string) => MikroORM.init({ clientUrl: url, entities: [Order] });

function withMikroOrm(url: string): TransactionLibrary {
  const orm = open(url);
  return {
    transaction: async (work) =>
      (await orm).em
        .fork()
        .transactional((em) =>
          work(fromMikroOrm(em as EntityManager), (id) => em.insert(Order, { id })),
        ),
    close: async () => (await orm).close(),
  };
}

describe('MikroORM', () => adapterContract(db, withMikroOrm));

test('what is no open transaction is refused, with the adapter and without', async () => {
  const orm = await open(db.url);
  onTestFinished(() => orm.close());
  await db.rows('TRUNCATE holdfast.inbox');
  const em = orm.em.fork();
  expect(() => fromMikroOrm(em)).toThrow(/no open transaction/);
  const attempt = db.hf.enqueue(job<object>('work'), {}, { tx: em as unknown as Queryable });
  await expect(attempt).rejects.toMatchObject({
    code: 'OPTION_INVALID',
    message: expect.stringContaining('fromMikroOrm(em)'),
  });
  expect(await db.rows('SELECT FROM holdfast.inbox')).toEqual([]);
});

test('the types', () => {
  expectTypeOf<EntityManager>().toExtend<Parameters<typeof fromMikroOrm>[0]>();
});
