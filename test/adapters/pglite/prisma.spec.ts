import { PrismaPg } from '@prisma/adapter-pg';
import { describe } from 'vitest';
import { PrismaClient } from '../../support/prisma/client/client.js';
import { sameOnBoth, thenUndo } from './both.js';

const ids = (db: Pick<PrismaClient, 'order'>) => db.order.findMany({ orderBy: { id: 'asc' } });
const create = (db: Pick<PrismaClient, 'order'>, ...rows: number[]) =>
  db.order.createMany({ data: rows.map((id) => ({ id })) });

describe('Prisma', () => {
  sameOnBoth<PrismaClient>(
    async (pool) => {
      const db = new PrismaClient({ adapter: new PrismaPg(pool) });
      return { db, close: () => db.$disconnect() };
    },
    {
      create: (db) => db.order.create({ data: { id: 1 } }),
      'create many': async (db) => [await create(db, 1, 2, 3), await ids(db)],
      'create many, and skip those that are there': async (db) => [
        await create(db, 1),
        await db.order.createMany({ data: [{ id: 1 }, { id: 2 }], skipDuplicates: true }),
        await db.order.createManyAndReturn({ data: [{ id: 4 }] }),
      ],
      upsert: async (db) => [
        await db.order.upsert({ where: { id: 1 }, create: { id: 1 }, update: { id: 2 } }),
        await db.order.upsert({ where: { id: 1 }, create: { id: 1 }, update: { id: 2 } }),
        await ids(db),
      ],
      'update and delete': async (db) => [
        await create(db, 1, 2, 3),
        await db.order.update({ where: { id: 1 }, data: { id: { increment: 10 } } }),
        await db.order
          .updateMany({ where: { id: { in: [2, 3] } }, data: { id: { multiply: 5 } } })
          .catch(({ code }) => code),
        await db.order.delete({ where: { id: 11 } }),
        await db.order.deleteMany(),
      ],
      'pages and filters': async (db) => [
        await create(db, 1, 2, 3, 4, 5),
        await db.order.findMany({ orderBy: { id: 'desc' }, skip: 1, take: 2 }),
        await db.order.findMany({ orderBy: { id: 'asc' }, cursor: { id: 3 }, take: 2 }),
        await db.order.findFirst({ where: { OR: [{ id: { gt: 4 } }, { id: 0 }] } }),
        await db.order.findUnique({ where: { id: 9 } }),
      ],
      aggregates: async (db) => [
        await create(db, 1, 2, 3),
        await db.order.aggregate({
          _sum: { id: true },
          _avg: { id: true },
          _max: { id: true },
          _count: true,
        }),
        await db.order.groupBy({ by: ['id'], _count: true, orderBy: { id: 'asc' } }),
        await db.order.count({ where: { id: { not: 2 } } }),
      ],
      'raw SQL, and all types': (db) => db.$queryRaw`SELECT * FROM authors ORDER BY id`,
      'raw SQL with values': (db) =>
        db.$queryRaw`SELECT ${1} + 1 AS n, ${'a'} AS t, ${new Date(0)}::timestamptz AS at, ${[1, 2]}::int[] AS list, ${{ a: [1] }}::jsonb AS json, ${10n ** 15n} AS big, ${Buffer.from('x')} AS bytes`,
      'joins in raw SQL': (db) =>
        db.$queryRawUnsafe(
          'SELECT a.name, count(b.id), sum(b.price), array_agg(b.title) FROM authors a LEFT JOIN books b ON author_id = a.id WHERE a.id < $1 GROUP BY 1 ORDER BY 1',
          9,
        ),
      'execute in raw SQL': (db) =>
        db.$executeRaw`UPDATE books SET price = price + ${1} WHERE author_id = ${1}`,
      'a list of queries as a transaction': (db) =>
        db.$transaction([create(db, 1), ids(db), create(db, 2)]),
      'a list of queries, and one fails': async (db) => {
        const error = await db
          .$transaction([create(db, 1), create(db, 1)])
          .catch(({ code }) => code);
        return [error, await ids(db)];
      },
      'a transaction that commits': (db) =>
        db.$transaction(async (tx) => [await create(tx, 1), await ids(tx)]),
      'a transaction that is undone': (db) =>
        db.$transaction(async (tx) => thenUndo(create(tx, 1))),
      'an isolation level': (db) =>
        db.$transaction((tx) => tx.$queryRaw`SHOW transaction_isolation`, {
          isolationLevel: 'Serializable',
        }),
      'queries at once': (db) =>
        Promise.all([1, 2, 3, 4, 5].map((id) => db.order.create({ data: { id } }))).then(() =>
          ids(db),
        ),
      'a unique key that is there': async (db) => [
        await create(db, 1),
        await db.order.create({ data: { id: 1 } }).catch(({ code, meta }) => [code, meta]),
      ],
      'a row that is not there': (db) =>
        db.order.delete({ where: { id: 9 } }).catch(({ code }) => [code]),
      'an error in raw SQL': (db) =>
        db.$queryRaw`SELECT 1 / 0`.then(
          () => null,
          ({ code, meta }) => [code, meta],
        ),
    },
  );
});
