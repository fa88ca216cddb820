/** Prisma stands apart from the other libraries because its client is generated code. */
import { PrismaPg } from '@prisma/adapter-pg';
import { describe, expectTypeOf, test } from 'vitest';
import {
  adapterContract,
  type TransactionLibrary,
} from '../../../../test/support/adapter-contract.js';
import { testDatabase } from '../../../../test/support/database.js';
import { type Prisma, PrismaClient } from '../../../../test/support/prisma/client/client.js';
import { fromPrisma } from './adapters.js';

const db = testDatabase();

const connect = (url: string) =>
  new PrismaClient({ adapter: new PrismaPg({ connectionString: url }) });

function withPrisma(url: string): TransactionLibrary {
  const prisma = connect(url);
  return {
    transaction: (work) =>
      prisma.$transaction((tx) => work(fromPrisma(tx), (id) => tx.order.create({ data: { id } }))),
    close: () => prisma.$disconnect(),
  };
}

/** An extended client is another type, and its transactions are too. */
function withExtendedPrisma(url: string): TransactionLibrary {
  const prisma = connect(url).$extends({
    model: { order: { place: (id: number) => id } },
    query: { $allOperations: ({ args, query }) => query(args) },
  });
  return {
    transaction: (work) =>
      prisma.$transaction((tx) => work(fromPrisma(tx), (id) => tx.order.create({ data: { id } }))),
    close: () => prisma.$disconnect(),
  };
}

describe('Prisma', () => adapterContract(db, withPrisma));
describe('Prisma with an extension', () => adapterContract(db, withExtendedPrisma));

test('a transaction is accepted by its named type, and a client that is not one is refused', () => {
  type Accepted = Parameters<typeof fromPrisma>[0];
  expectTypeOf<Prisma.TransactionClient>().toExtend<Accepted>();
  expectTypeOf<PrismaClient>().not.toExtend<Accepted>();
});
