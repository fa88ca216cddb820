import { createRequire } from 'node:module';
import { type ColumnType, type Generated, Kysely, PostgresDialect, sql } from 'kysely';
import { jsonArrayFrom, jsonObjectFrom } from 'kysely/helpers/postgres';
import type pg from 'pg';
import { describe } from 'vitest';
import { all, sameOnBoth, thenUndo } from './both.js';

/** It has no types. */
const cursor = createRequire(import.meta.url)('pg-cursor');

interface Tables {
  authors: {
    id: Generated<number>;
    name: string;
    born: Date | null;
    data: ColumnType<unknown, string | null>;
    tags: string[] | null;
    mood: 'glad' | 'sad' | null;
    active: Generated<boolean>;
    balance: string | null;
    big: ColumnType<string | null, bigint | null>;
    created: Generated<Date>;
  };
  books: {
    id: Generated<number>;
    author_id: number;
    title: string;
    price: string | null;
    published: Date | null;
  };
}
type Db = Kysely<Tables>;

const one = {
  author_id: 1,
  title: 'New',
  price: '1.50',
  published: new Date('2024-05-01T12:00:00.5Z'),
};
const insert = (db: Db, title: string) => db.insertInto('books').values({ ...one, title });

describe('Kysely', () => {
  sameOnBoth<Db>(
    async (pool) => {
      // It ends the pool that it is given.
      const own = new (pool.constructor as typeof pg.Pool)(pool.options);
      const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool: own, cursor }) });
      return { db, close: () => db.destroy() };
    },
    {
      select: (db) => db.selectFrom('authors').selectAll().orderBy('id').execute(),
      'insert, returning': (db) => insert(db, 'a').returningAll().executeTakeFirstOrThrow(),
      'insert without returning': (db) => insert(db, 'a').execute(),
      'insert of every type': (db) =>
        db
          .insertInto('authors')
          .values({
            ...{
              name: 'Di',
              born: new Date('1999-01-31'),
              data: JSON.stringify({ a: [1] }),
              tags: ['a', 'b,"c"'],
            },
            ...{
              mood: 'sad',
              active: false,
              balance: '3.10',
              big: 2n ** 60n,
              created: new Date(0),
            },
          })
          .returningAll()
          .execute(),
      upsert: (db) =>
        db
          .insertInto('authors')
          .values({ name: 'Ada', balance: '5' } as never)
          .onConflict((on) =>
            on.column('name').doUpdateSet((eb) => ({ balance: eb.ref('excluded.balance') })),
          )
          .returningAll()
          .execute(),
      update: (db) =>
        db
          .updateTable('authors')
          .set({ tags: ['x'] })
          .where('born', 'is', null)
          .executeTakeFirst(),
      delete: (db) => db.deleteFrom('books').where('author_id', '=', 1).returning('id').execute(),
      'join and aggregates': (db) =>
        db
          .selectFrom('authors as a')
          .leftJoin('books as b', 'b.author_id', 'a.id')
          .select(({ fn }) => [
            'a.name',
            fn.count('b.id').as('n'),
            fn.sum('b.price').as('total'),
            fn.max('published').as('last'),
          ])
          .groupBy('a.name')
          .orderBy('a.name')
          .execute(),
      relations: (db) =>
        db
          .selectFrom('authors as a')
          .select((eb) => [
            'a.name',
            jsonArrayFrom(
              eb
                .selectFrom('books')
                .select(['title', 'price', 'published'])
                .whereRef('author_id', '=', 'a.id')
                .orderBy('id'),
            ).as('books'),
            jsonObjectFrom(
              eb.selectFrom('books').select('title').whereRef('author_id', '=', 'a.id').limit(1),
            ).as('first'),
          ])
          .orderBy('a.id')
          .execute(),
      'a page': (db) =>
        db.selectFrom('books').selectAll().orderBy('id', 'desc').limit(1).offset(1).execute(),
      'raw SQL': (db) =>
        sql`SELECT ${1}::int AS n, ${['a']}::text[] AS list, ${{ a: 1 }}::jsonb AS json`.execute(
          db,
        ),
      'a CTE': (db) =>
        db
          .with('made', (q) => q.insertInto('books').values(one).returning('id'))
          .selectFrom('made')
          .selectAll()
          .execute(),
      'a stream': (db) => all(db.selectFrom('books').selectAll().orderBy('id').stream(2)),
      'a stream that is left early': async (db) => {
        for await (const { title } of db
          .selectFrom('books')
          .select('title')
          .orderBy('id')
          .stream(1))
          return [title];
        return [];
      },
      introspection: async (db) =>
        (await db.introspection.getTables())
          .filter(({ schema }) => schema === 'public')
          .map(({ name, columns }) => [name, columns]),
      'a transaction that commits': (db) =>
        db.transaction().execute(async (tx) => insert(tx, 'In').execute()),
      'a transaction that is undone': (db) =>
        db.transaction().execute(async (tx) => thenUndo(insert(tx, 'Out').execute())),
      'a savepoint that is undone': async (db) => {
        const tx = await db.startTransaction().execute();
        await insert(tx, 'Kept').execute();
        const after = await tx.savepoint('sp').execute();
        await insert(after, 'Out').execute();
        await after.rollbackToSavepoint('sp').execute();
        await tx.commit().execute();
        return db.selectFrom('books').select('title').execute();
      },
      'an isolation level': (db) =>
        db
          .transaction()
          .setIsolationLevel('repeatable read')
          .execute((tx) => sql`SHOW transaction_isolation`.execute(tx)),
      'queries at once': (db) =>
        Promise.all(
          [1, 2, 3].map((id) =>
            db.selectFrom('books').select('title').where('author_id', '=', id).execute(),
          ),
        ),
      'a unique key that is there': (db) =>
        db
          .insertInto('authors')
          .values({ name: 'Ada' } as never)
          .execute(),
      'a check that fails': (db) => insert(db, '').execute(),
      'no result': (db) =>
        db.selectFrom('books').selectAll().where('id', '=', 99).executeTakeFirstOrThrow(),
    },
  );
});
