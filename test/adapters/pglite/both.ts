/** The same calls of a library on a Postgres server and on the kit's PGlite: what comes out has to be equal. */
import type pg from 'pg';
import { afterAll, beforeAll, beforeEach, expect, inject, test } from 'vitest';
import { plainPool } from '../../../packages/holdfast/src/postgres/connect/pool.js';
import { cloneDatabase, startPglite } from '../../../packages/testing/src/index.js';
import { quietLogger } from '../../support/logger.js';

const SCHEMA = `
CREATE TYPE mood AS ENUM ('glad', 'sad');
CREATE TABLE authors (
  id serial PRIMARY KEY, name text NOT NULL UNIQUE, born date, data jsonb, tags text[], mood mood,
  active boolean NOT NULL DEFAULT true, balance numeric(10, 2), big bigint,
  created timestamptz NOT NULL DEFAULT '2024-01-01 10:00:00+02'
);
CREATE TABLE books (
  id serial PRIMARY KEY, author_id int NOT NULL REFERENCES authors (id) ON DELETE CASCADE,
  title text NOT NULL CHECK (title <> ''), price numeric(8, 2), published timestamp
);
CREATE TABLE orders (id int PRIMARY KEY)`;

const SEED = `
TRUNCATE authors, books, orders RESTART IDENTITY;
INSERT INTO authors (name, born, data, tags, mood, balance, big) VALUES
  ('Ada', '1815-12-10', '{"first": {"n": 1}, "list": [1, null]}', '{maths,"a, b"}', 'glad', 12.30, 9007199254740993),
  ('Bob', NULL, NULL, NULL, NULL, NULL, NULL), ('Cy', '2000-02-29', '[]', '{}', 'sad', 0, 1);
INSERT INTO books (author_id, title, price, published) VALUES
  (1, 'Notes', 9.99, '2024-02-29 10:00:00.123'), (1, 'More', NULL, NULL), (3, 'It''s "C"', 5, '1999-12-31 23:59:59');`;

export interface Opened<Db> {
  readonly db: Db;
  close(): Promise<unknown>;
}

const sides: { pool: pg.Pool; opened: Opened<unknown> | null; close(): Promise<unknown> }[] = [];

async function openSides(): Promise<void> {
  const database = await cloneDatabase(inject('serverUrl'), inject('template'));
  // Prisma takes pools of its own copy of `pg` only, which is ours too.
  const server = plainPool({ connectionString: database.url }, 4, quietLogger);
  const close = async () => {
    await server.end();
    await database.drop();
  };
  sides.push({ pool: server, opened: null, close });
  const kit = await startPglite({ logger: quietLogger });
  sides.push({ pool: kit.pool, opened: null, close: kit.close });
  for (const { pool } of sides) {
    const zone = `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET TimeZone = ''UTC''', current_database()); END $$`;
    await pool.query(`${zone}; SET TimeZone = 'UTC'`);
    await pool.query(SCHEMA);
  }
}

/** What a program can tell from an error. */
function told(error: unknown): unknown {
  if (!(error instanceof Error)) return { thrown: error };
  const { name, message, code, cause, constraint, detail, meta } = error as Error &
    Record<string, unknown>;
  const from = cause instanceof Error ? told(cause) : cause;
  return { error: error.constructor.name, name, message, code, constraint, detail, meta, from };
}

/** The calls that have to throw, by their names. */
const THROWS =
  /^(a transaction that is (undone|rolled back)|an error|no result$)|(there|missing|fails)$/;

/** Each call has the rows of `SEED` before it. */
export function sameOnBoth<Db>(
  open: (pool: pg.Pool) => Promise<Opened<Db>>,
  calls: Readonly<Record<string, (db: Db) => Promise<unknown>>>,
): void {
  beforeAll(async () => {
    await openSides();
    for (const side of sides) side.opened = await open(side.pool);
  });
  afterAll(async () => {
    for (const { opened, close } of sides) {
      await opened?.close();
      await close();
    }
  });
  beforeEach(async () => {
    for (const { pool } of sides) await pool.query(SEED);
  });
  test.each(Object.entries(calls))('%s', async (name, call) => {
    const made: unknown[] = [];
    for (const { opened, pool } of sides) {
      const result = await call(opened?.db as Db).catch(told);
      const left = await pool.query(
        'SELECT * FROM authors a LEFT JOIN books b ON author_id = a.id ORDER BY a.id, b.id',
      );
      made.push({ result, left: left.rows });
    }
    const { result } = made[0] as { result: unknown };
    expect(result).toBeDefined();
    if (!THROWS.test(name)) expect(result).not.toHaveProperty('error');
    else if (!Array.isArray(result)) expect(result).toHaveProperty('error');
    expect(made[1]).toEqual(made[0]);
  });
}

/** Ends a transaction after this. */
export async function thenUndo(work: PromiseLike<unknown>): Promise<never> {
  await work;
  throw new Error('undo');
}

/** For streams that a library hands out. */
export async function all(rows: AsyncIterable<unknown>): Promise<unknown[]> {
  const read: unknown[] = [];
  for await (const row of rows) read.push(row);
  return read;
}
