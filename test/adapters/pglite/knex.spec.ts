import knex, { type Knex } from 'knex';
import { describe } from 'vitest';
import { sameOnBoth, thenUndo } from './both.js';

const one = {
  author_id: 1,
  title: 'New',
  price: '1.50',
  published: new Date('2024-05-01T12:00:00.5Z'),
};

describe('Knex', () => {
  sameOnBoth<Knex>(
    async ({ options }) => {
      const db = knex({
        client: 'pg',
        connection: { ...options } as Knex.PgConnectionConfig,
        pool: { min: 0, max: 3 },
      });
      return { db, close: () => db.destroy() };
    },
    {
      select: (db) => db('authors').orderBy('id'),
      'first, pluck, count': async (db) => [
        await db('authors').where({ name: 'Ada' }).first(),
        await db('authors').orderBy('id').pluck('name'),
        await db('books').count({ n: '*' }).sum('price'),
      ],
      'insert, returning': (db) => db('books').insert([one, { ...one, title: 'b' }], '*'),
      'insert without returning': async (db) => {
        const { command, rowCount } = (await db('books').insert(one)) as unknown as Record<
          string,
          unknown
        >;
        return [command, rowCount];
      },
      'insert of every type': (db) =>
        db('authors')
          .insert({
            ...{
              name: 'Di',
              born: '1999-01-31',
              data: { a: [1, null] },
              tags: ['a', 'b,"c"'],
              mood: 'sad',
            },
            ...{ active: false, balance: 3.1, big: 2n ** 60n, created: new Date(0) },
          })
          .returning('*'),
      upsert: (db) =>
        db('authors').insert({ name: 'Ada', balance: 5 }).onConflict('name').merge().returning('*'),
      'update and increment': async (db) => [
        await db('authors')
          .whereNull('born')
          .update({ tags: ['x'] }, ['id', 'tags']),
        await db('books').where('id', 1).increment('price', 2),
      ],
      delete: (db) => db('books').where('author_id', 1).del(),
      join: (db) =>
        db('authors as a')
          .leftJoin('books as b', 'b.author_id', 'a.id')
          .select('a.name', 'b.*')
          .orderBy(['a.id', 'b.id']),
      aggregates: (db) =>
        db('books')
          .select('author_id')
          .count('* as n')
          .max('published as last')
          .groupBy('author_id')
          .having(db.raw('count(*) > ?', [1])),
      'a page': (db) => db('books').orderBy('id', 'desc').limit(1).offset(1),
      JSON: (db) =>
        db('authors')
          .jsonExtract('data', '$.first.n', 'n')
          .whereJsonSupersetOf('data', { first: { n: 1 } }),
      arrays: (db) => db('authors').whereRaw('? = ANY (tags)', ['maths']).select('id'),
      'raw SQL': async (db) =>
        (await db.raw('SELECT :n::int AS n, title AS :name: FROM books', { n: 1, name: 'x' })).rows,
      'several statements': async (db) =>
        ((await db.raw('SELECT 1 AS a; SELECT 2 AS b')) as unknown as { rows: unknown }[]).map(
          ({ rows }) => rows,
        ),
      'a schema': async (db) => {
        await db.schema.createTable('made', (t) => {
          t.increments();
          t.jsonb('data').defaultTo('{}');
          t.timestamps(true, true);
        });
        const columns = await db('made').columnInfo();
        await db.schema.dropTable('made');
        return [columns, await db.schema.hasTable('made')];
      },
      'a transaction that commits': (db) =>
        db.transaction((tx) => tx('books').insert(one).returning('title')),
      'a transaction that is undone': (db) =>
        db.transaction(async (tx) => thenUndo(tx('books').insert(one))),
      'a savepoint that is undone': (db) =>
        db.transaction(async (tx) => {
          await tx('books').insert(one);
          await tx
            .transaction(async (inner) => thenUndo(inner('books').insert(one)))
            .catch(() => undefined);
          return tx('books').pluck('title');
        }),
      'rows that are locked': (db) =>
        db.transaction((tx) => tx('books').forUpdate().skipLocked().pluck('id')),
      'queries at once': (db) =>
        Promise.all([1, 2, 3].map((id) => db('books').where('author_id', id).pluck('title'))),
      'a unique key that is there': (db) => db('authors').insert({ name: 'Ada' }),
      'a column that is not there': (db) => db('books').select('nothing'),
    },
  );
});
