import {
  and,
  asc,
  count,
  desc,
  eq,
  gt,
  isNull,
  placeholder,
  relations,
  sql,
  sum,
} from 'drizzle-orm';
import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres';
import {
  bigint,
  boolean,
  date,
  integer,
  jsonb,
  numeric,
  pgEnum,
  pgTable,
  serial,
  text,
  timestamp,
} from 'drizzle-orm/pg-core';
import { describe } from 'vitest';
import { sameOnBoth, thenUndo } from './both.js';

const mood = pgEnum('mood', ['glad', 'sad']);
const authors = pgTable('authors', {
  id: serial().primaryKey(),
  name: text().notNull(),
  born: date(),
  data: jsonb(),
  tags: text().array(),
  mood: mood(),
  active: boolean().notNull().default(true),
  balance: numeric({ precision: 10, scale: 2 }),
  big: bigint({ mode: 'bigint' }),
  created: timestamp({ withTimezone: true }),
});
const books = pgTable('books', {
  id: serial().primaryKey(),
  authorId: integer('author_id').notNull(),
  title: text().notNull(),
  price: numeric(),
  published: timestamp(),
});
const authorBooks = relations(authors, ({ many }) => ({ books: many(books) }));
const bookAuthor = relations(books, ({ one }) => ({
  author: one(authors, { fields: [books.authorId], references: [authors.id] }),
}));
const schema = { authors, books, authorBooks, bookAuthor };
type Db = NodePgDatabase<typeof schema>;

const one = {
  authorId: 1,
  title: 'New',
  price: '1.50',
  published: new Date('2024-05-01T12:00:00.5Z'),
};
const insert = (db: Pick<Db, 'insert'>, title: string) =>
  db.insert(books).values({ ...one, title });

describe('Drizzle', () => {
  sameOnBoth<Db>(
    async (pool) => ({ db: drizzle(pool, { schema }), close: async () => undefined }),
    {
      select: (db) => db.select().from(authors).orderBy(authors.id),
      'select of columns': (db) =>
        db.select({ name: authors.name, up: sql<string>`upper(${authors.name})` }).from(authors),
      'insert, returning': (db) =>
        db
          .insert(books)
          .values([one, { authorId: 3, title: 'Two' }])
          .returning(),
      'insert without returning': async (db) => {
        const { command, rowCount, rows } = await db.insert(books).values(one);
        return [command, rowCount, rows];
      },
      'insert of every type': (db) =>
        db
          .insert(authors)
          .values({
            ...{
              name: 'Di',
              born: '1999-01-31',
              data: { a: [1, 'it\'s "x"', null] },
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
          .returning(),
      upsert: (db) =>
        db
          .insert(authors)
          .values({ name: 'Ada', balance: '5' })
          .onConflictDoUpdate({ target: authors.name, set: { balance: sql`excluded.balance + 1` } })
          .returning(),
      'on conflict do nothing': (db) =>
        db.insert(authors).values({ name: 'Ada' }).onConflictDoNothing().returning(),
      update: (db) =>
        db
          .update(authors)
          .set({ tags: ['x'], data: null })
          .where(isNull(authors.born))
          .returning(),
      delete: (db) => db.delete(books).where(eq(books.authorId, 1)).returning({ id: books.id }),
      join: (db) =>
        db
          .select()
          .from(authors)
          .leftJoin(books, eq(books.authorId, authors.id))
          .orderBy(authors.id, books.id),
      aggregates: (db) =>
        db
          .select({ author: books.authorId, n: count(), total: sum(books.price) })
          .from(books)
          .groupBy(books.authorId)
          .having(gt(count(), 0))
          .orderBy(books.authorId),
      'a page': (db) => db.select().from(books).orderBy(desc(books.id)).limit(1).offset(1),
      'relations, nested': (db) =>
        db.query.authors.findMany({
          with: {
            books: {
              columns: { title: true, price: true, published: true },
              orderBy: asc(books.id),
            },
          },
          orderBy: asc(authors.id),
        }),
      'a relation, first': (db) =>
        db.query.books.findFirst({ with: { author: true }, where: eq(books.id, 3) }),
      JSON: (db) =>
        db
          .select({ n: sql`${authors.data} #> '{first,n}'` })
          .from(authors)
          .where(sql`${authors.data} @> ${{ first: { n: 1 } }}`),
      arrays: (db) =>
        db
          .select({ id: authors.id })
          .from(authors)
          .where(sql`${authors.tags} && ${sql.param(['maths'])}::text[]`),
      'raw SQL': async (db) =>
        (await db.execute(sql`SELECT ${1}::int AS n, now() > ${new Date(0).toISOString()} AS late`))
          .rows,
      'a subquery and a CTE': (db) => {
        const dear = db.$with('dear').as(db.select().from(books).where(gt(books.price, '6')));
        return db.with(dear).select().from(dear);
      },
      'a prepared statement, twice': async (db) => {
        const byName = db
          .select()
          .from(authors)
          .where(and(eq(authors.name, placeholder('name'))))
          .prepare('by_name');
        return [await byName.execute({ name: 'Ada' }), await byName.execute({ name: 'Bob' })];
      },
      'a transaction that commits': (db) =>
        db.transaction(async (tx) => (await insert(tx, 'In')).rowCount),
      'a transaction that is rolled back': (db) =>
        db.transaction((tx) => insert(tx, 'Out').then(() => tx.rollback())),
      'a transaction that is undone': (db) => db.transaction((tx) => thenUndo(insert(tx, 'Out'))),
      'a savepoint that is undone': (db) =>
        db.transaction(async (tx) => {
          await insert(tx, 'Kept');
          await tx
            .transaction(async (inner) => thenUndo(insert(inner, 'Out')))
            .catch(() => undefined);
          return (await tx.select().from(books)).length;
        }),
      'an isolation level': (db) =>
        db.transaction(async (tx) => (await tx.execute(sql`SHOW transaction_isolation`)).rows, {
          isolationLevel: 'serializable',
        }),
      'queries at once': (db) =>
        Promise.all([1, 2, 3, 4, 5].map((id) => db.$count(books, eq(books.authorId, id)))),
      'a unique key that is there': (db) => db.insert(authors).values({ name: 'Ada' }),
      'a parent that is missing': (db) =>
        insert(db, 'x').then(() => db.insert(books).values({ ...one, authorId: 99 })),
      'a check that fails': (db) => insert(db, ''),
    },
  );
});
