import pg from 'pg';
import { DataSource, EntitySchema, In, IsNull, MoreThan, type QueryRunner } from 'typeorm';
import { describe } from 'vitest';
import { all, sameOnBoth, thenUndo } from './both.js';

interface Author {
  id: number;
  name: string;
  born: string | null;
  data: unknown;
  tags: string[] | null;
  mood: 'glad' | 'sad' | null;
  active: boolean;
  balance: string | null;
  big: string | null;
  created: Date;
  books: Book[];
}
interface Book {
  id: number;
  author: Author;
  title: string;
  price: string | null;
  published: Date | null;
}

const authors = new EntitySchema<Author>({
  name: 'Author',
  tableName: 'authors',
  columns: {
    id: { type: Number, primary: true, generated: true },
    name: { type: 'text' },
    born: { type: 'date', nullable: true },
    data: { type: 'jsonb', nullable: true },
    tags: { type: 'text', array: true, nullable: true },
    mood: { type: 'enum', enum: ['glad', 'sad'], enumName: 'mood', nullable: true },
    active: { type: Boolean, default: true },
    balance: { type: 'numeric', nullable: true },
    big: { type: 'bigint', nullable: true },
    created: { type: 'timestamptz', default: () => 'now()' },
  },
  relations: { books: { type: 'one-to-many', target: 'Book', inverseSide: 'author' } },
});
const books = new EntitySchema<Book>({
  name: 'Book',
  tableName: 'books',
  columns: {
    id: { type: Number, primary: true, generated: true },
    title: { type: 'text' },
    price: { type: 'numeric', nullable: true },
    published: { type: 'timestamp', nullable: true },
  },
  relations: {
    author: {
      type: 'many-to-one',
      target: 'Author',
      joinColumn: { name: 'author_id' },
      inverseSide: 'books',
    },
  },
});

const one = {
  author: { id: 1 },
  title: 'New',
  price: '1.50',
  published: new Date('2024-05-01T12:00:00.5Z'),
};

async function inRunner<Value>(db: DataSource, work: (runner: QueryRunner) => Promise<Value>) {
  const runner = db.createQueryRunner();
  try {
    return await work(runner);
  } finally {
    await runner.release();
  }
}

describe('TypeORM', () => {
  sameOnBoth<DataSource>(
    async ({ options }) => {
      const extra = { ...options };
      const db = await new DataSource({
        type: 'postgres',
        driver: pg,
        extra,
        entities: [authors, books],
      }).initialize();
      return { db, close: () => db.destroy() };
    },
    {
      find: (db) => db.getRepository(authors).find({ order: { id: 'ASC' } }),
      'find with relations': (db) =>
        db
          .getRepository(authors)
          .find({ relations: { books: true }, order: { id: 'ASC', books: { id: 'ASC' } } }),
      'find by conditions': (db) =>
        db.getRepository(authors).find({
          where: [{ born: IsNull() }, { id: In([1]), balance: MoreThan('1') }],
          order: { id: 'ASC' },
        }),
      'a page and its count': (db) =>
        db.getRepository(books).findAndCount({ order: { id: 'DESC' }, skip: 1, take: 1 }),
      'save and change': async (db) => {
        const repository = db.getRepository(authors);
        const made = await repository.save({
          name: 'Di',
          born: '1999-01-31',
          data: { a: [1, null] },
          tags: ['a', 'b,"c"'],
          mood: 'sad',
          active: false,
          balance: '3.10',
          big: '1152921504606846976',
          created: new Date(0),
        });
        return [
          made,
          await repository.save({ ...made, tags: null }),
          await repository.findOneBy({ id: made.id }),
        ];
      },
      'insert, returning': async (db) => {
        const { identifiers, generatedMaps, raw } = await db
          .createQueryBuilder()
          .insert()
          .into(books)
          .values([one, one])
          .returning('*')
          .execute();
        return [identifiers, generatedMaps, raw];
      },
      upsert: async (db) => {
        const { identifiers, raw } = await db
          .getRepository(authors)
          .upsert({ name: 'Ada', balance: '5' }, ['name']);
        return [identifiers, raw];
      },
      'update, delete, increment': async (db) => [
        await db.getRepository(authors).update({ born: IsNull() }, { tags: ['x'] }),
        await db.getRepository(books).increment({ id: 1 }, 'price', 2),
        await db.getRepository(books).delete({ author: { id: 3 } }),
      ],
      'join and aggregates': (db) =>
        db
          .createQueryBuilder(authors, 'a')
          .leftJoin('a.books', 'b')
          .select([
            'a.name AS name',
            'count(b.id) AS n',
            'sum(b.price) AS total',
            'max(b.published) AS last',
          ])
          .groupBy('a.name')
          .orderBy('a.name')
          .getRawMany(),
      'relations in a query': (db) =>
        db
          .createQueryBuilder(books, 'b')
          .innerJoinAndSelect('b.author', 'a')
          .where('a.name = :name', { name: 'Ada' })
          .orderBy('b.id')
          .getMany(),
      'JSON and arrays': (db) =>
        db
          .createQueryBuilder(authors, 'a')
          .where('a.data @> :data', { data: { first: { n: 1 } } })
          .andWhere(':tag = ANY (a.tags)', { tag: 'maths' })
          .getMany(),
      'raw SQL': (db) => db.query('SELECT $1::int AS n, $2::timestamptz AS at', [1, new Date(0)]),
      'a structured result': (db) =>
        inRunner(db, (runner) => runner.query('UPDATE books SET price = 1', [], true)),
      'a stream': async (db) =>
        all((await db.createQueryBuilder(books, 'b').orderBy('b.id').stream()) as never),
      'tables as it sees them': (db) =>
        inRunner(db, async (runner) =>
          (await runner.getTable('books'))?.columns.map(({ name, type, isNullable }) => [
            name,
            type,
            isNullable,
          ]),
        ),
      'a transaction that commits': (db) =>
        db.transaction((manager) => manager.getRepository(books).save({ ...one })),
      'a transaction that is undone': (db) =>
        db.transaction(async (manager) => thenUndo(manager.getRepository(books).save({ ...one }))),
      'a savepoint that is undone': (db) =>
        db.transaction(async (manager) => {
          await manager.getRepository(books).save({ ...one });
          await manager
            .transaction(async (inner) => thenUndo(inner.getRepository(books).save({ ...one })))
            .catch(() => undefined);
          return manager.getRepository(books).count();
        }),
      'an isolation level': (db) =>
        db.transaction('SERIALIZABLE', (manager) => manager.query('SHOW transaction_isolation')),
      'a lock': (db) =>
        db.transaction((manager) =>
          manager.getRepository(books).findOne({
            where: { id: 1 },
            lock: { mode: 'pessimistic_write', onLocked: 'skip_locked' },
          }),
        ),
      'queries at once': (db) =>
        Promise.all([1, 2, 3].map((id) => db.getRepository(books).countBy({ author: { id } }))),
      'a unique key that is there': (db) => db.getRepository(authors).insert({ name: 'Ada' }),
      'a parent that is missing': (db) =>
        db.getRepository(books).insert({ ...one, author: { id: 99 } }),
      'no result': (db) => db.getRepository(books).findOneByOrFail({ id: 99 }),
    },
  );
});
