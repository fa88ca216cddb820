/** Enqueueing through PgBouncer: in transactions of every library, and in none. */
import { sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import { integer, pgTable } from 'drizzle-orm/pg-core';
import knex from 'knex';
import { Kysely, PostgresDialect } from 'kysely';
import pg from 'pg';
import postgres from 'postgres';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import {
  fromDrizzle,
  fromKnex,
  fromKysely,
  fromPostgresJs,
} from '../../packages/holdfast/src/enqueue/adapters.js';
import { type Holdfast, holdfast, job } from '../../packages/holdfast/src/index.js';
import { cloneDatabase, type TestDatabase } from '../../packages/testing/src/index.js';
import { adapterContract, type TransactionLibrary } from '../support/adapter-contract.js';
import type { TestGround } from '../support/database.js';
import { onDatabase } from '../support/empty-database.js';
import { quietLogger } from '../support/logger.js';
import { testPooler } from './ground.js';

const pooler = testPooler();
let database: TestDatabase;
let hf: Holdfast;
beforeAll(async () => {
  database = await cloneDatabase(inject('serverUrl'), inject('template'));
  hf = holdfast({ connectionString: pooler().through(database.url), logger: quietLogger });
});
afterAll(async () => {
  await hf?.close();
  await database?.drop();
});
const rows = (text: string, params?: unknown[]) =>
  onDatabase(database.url, async (client) => (await client.query(text, params)).rows);

/** Holdfast and the library go through the pooler; what was written is read from the server itself. */
const db = {
  get url() {
    return pooler().through(database.url);
  },
  get hf() {
    return hf;
  },
  rows,
} as TestGround;

const orders = pgTable('orders', { id: integer().primaryKey() });

const LIBRARIES: Record<string, (url: string) => TransactionLibrary> = {
  pg(url) {
    const pool = new pg.Pool({ connectionString: url });
    return {
      async transaction(work) {
        const client = await pool.connect();
        try {
          await client.query('BEGIN');
          await work(client, (id) => client.query('INSERT INTO orders VALUES ($1)', [id]));
          await client.query('COMMIT');
        } catch (error) {
          await client.query('ROLLBACK');
          throw error;
        } finally {
          client.release();
        }
      },
      close: () => pool.end(),
    };
  },
  'postgres.js, told not to prepare'(url) {
    const client = postgres(url, { max: 2, prepare: false });
    return {
      transaction: (work) =>
        client.begin((tx) =>
          work(fromPostgresJs(tx), (id) => tx`INSERT INTO orders VALUES (${id})`),
        ),
      close: () => client.end(),
    };
  },
  Kysely(url) {
    const pool = new pg.Pool({ connectionString: url });
    const kysely = new Kysely<{ orders: { id: number } }>({
      dialect: new PostgresDialect({ pool }),
    });
    return {
      transaction: (work) =>
        kysely
          .transaction()
          .execute((trx) =>
            work(fromKysely(trx), (id) => trx.insertInto('orders').values({ id }).execute()),
          ),
      close: () => kysely.destroy(),
    };
  },
  Knex(url) {
    const client = knex({ client: 'pg', connection: url, pool: { min: 0, max: 2 } });
    return {
      transaction: (work) =>
        client.transaction((trx) => work(fromKnex(trx), (id) => trx('orders').insert({ id }))),
      close: () => client.destroy(),
    };
  },
  Drizzle(url) {
    const pool = new pg.Pool({ connectionString: url });
    const client = drizzle(pool, { schema: { orders } });
    return {
      transaction: (work) =>
        client.transaction((tx) =>
          work(fromDrizzle(tx, sql), (id) => tx.insert(orders).values({ id })),
        ),
      close: () => pool.end(),
    };
  },
};

describe.each(Object.entries(LIBRARIES))('%s', (_, open) => adapterContract(db, open));

describe('without a transaction of the caller', () => {
  const work = job<{ n: number }>('work');
  const count = async () => (await rows('SELECT count(*)::int FROM holdfast.inbox'))[0].count;

  test('singles, bulks and keyed jobs, many at once, arrive once each', async () => {
    await rows('TRUNCATE holdfast.inbox, holdfast.inbox_idempotency');
    const numbers = Array.from({ length: 60 }, (_, n) => n);
    await Promise.all(
      numbers.flatMap((n) => [
        hf.enqueue(work, { n }),
        hf.enqueueMany([work.item({ n }), work.item({ n }, { delay: '1h' })]),
        hf.enqueue(work, { n }, { idempotencyKey: `only-${n}` }),
        hf.enqueueMany([work.item({ n }), work.item({ n }, { idempotencyKey: `bulk-${n}` })]),
      ]),
    );
    expect(await count()).toBe(60 * 6);
    const again = await Promise.all(
      numbers.map((n) => hf.enqueue(work, { n }, { idempotencyKey: `only-${n}` })),
    );
    expect(again.every(({ deduplicated }) => deduplicated)).toBe(true);
    expect(await count()).toBe(60 * 6);
  });

  test('the SQL function does the same for producers in other languages', async () => {
    const text = `SELECT * FROM holdfast.inbox_enqueue('work', '{"n":1}', idempotency_key => 'sql')`;
    const ids = await onDatabase(db.url, async (client) => [
      (await client.query(text)).rows[0].id,
      (await client.query(text)).rows[0].id,
    ]);
    expect(ids[0]).toBe(ids[1]);
  });
});
