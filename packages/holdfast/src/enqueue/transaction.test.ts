/** What is visibly no transaction is refused as `tx`, and nothing is enqueued. */
import { PrismaPg } from '@prisma/adapter-pg';
import { sql } from 'drizzle-orm';
import { drizzle as drizzlePg } from 'drizzle-orm/node-postgres';
import { drizzle as drizzlePostgresJs } from 'drizzle-orm/postgres-js';
import knex from 'knex';
import { Kysely, PostgresDialect } from 'kysely';
import pg from 'pg';
import postgres from 'postgres';
import { afterEach, expect, onTestFinished, test } from 'vitest';
import { testDatabase } from '../../../../test/support/database.js';
import { PrismaClient } from '../../../../test/support/prisma/client/client.js';
import { HoldfastError, job, type Queryable } from '../index.js';
import * as adapters from './adapters.js';
import {
  fromDrizzle,
  fromKnex,
  fromKysely,
  fromPg,
  fromPostgresJs,
  fromPrisma,
} from './adapters.js';

const db = testDatabase();
const work = job<object>('work');

afterEach(() => db.rows('TRUNCATE holdfast.inbox'));

const jobs = async () => (await db.rows('SELECT id FROM holdfast.inbox')).length;

async function refused(attempt: () => unknown, message: RegExp): Promise<void> {
  let error: unknown;
  try {
    await attempt();
  } catch (thrown) {
    error = thrown;
  }
  expect(error).toBeInstanceOf(HoldfastError);
  expect(error).toMatchObject({ code: 'OPTION_INVALID', message: expect.stringMatching(message) });
  expect((error as Error).message).toContain('nothing was written');
  expect(await jobs()).toBe(0);
}

/** Through enqueue and enqueueMany alike. */
async function refusedAsTx(tx: unknown, message: RegExp): Promise<void> {
  await refused(() => db.hf.enqueue(work, {}, { tx: tx as Queryable }), message);
  await refused(() => db.hf.enqueueMany([work.item({})], { tx: tx as Queryable }), message);
}

test.each([[undefined], [null], [false], ['tx'], [0]])('tx: %o', (tx) =>
  refusedAsTx(tx, /tx was given and is .*Leave tx out/),
);

test('a call without tx is none of these', async () => {
  await db.hf.enqueue(work, {});
  await db.hf.enqueueMany([work.item({})], {});
  expect(await jobs()).toBe(2);
});

test('a pool, also through fromPg', async () => {
  await refusedAsTx(db.pool, /tx is a pool/);
  await refused(() => fromPg(db.pool as never), /tx is a pool/);
});

test('a client on which no transaction is open: none was begun, or it has ended', async () => {
  const client = await db.pool.connect();
  onTestFinished(() => client.release());
  await client.query('SELECT 1');
  await refusedAsTx(client, /no transaction is open/);
  await client.query('BEGIN');
  await client.query('COMMIT');
  await refusedAsTx(client, /no transaction is open/);
  await client.query('BEGIN');
  await db.hf.enqueue(work, {}, { tx: client });
  await client.query('ROLLBACK');
  expect(await jobs()).toBe(0);
});

test('a client whose BEGIN is under way is taken at its word', async () => {
  const client = await db.pool.connect();
  onTestFinished(() => client.release());
  const begun = client.query('BEGIN');
  await db.hf.enqueue(work, {}, { tx: client });
  await begun;
  await client.query('ROLLBACK');
  expect(await jobs()).toBe(0);
});

test('the sql of postgres.js', async () => {
  const client = postgres(db.url, { max: 1 });
  onTestFinished(() => client.end());
  await refused(() => fromPostgresJs(client as never), /fromPostgresJs\(\) got is no transaction/);
  await refusedAsTx(client, /tx: fromPostgresJs\(sql\)/);
});

test('the db of Kysely', async () => {
  const pool = new pg.Pool({ connectionString: db.url });
  const kysely = new Kysely<object>({ dialect: new PostgresDialect({ pool }) });
  onTestFinished(() => kysely.destroy());
  await refused(() => fromKysely(kysely as never), /fromKysely\(\) got is no transaction/);
  await refusedAsTx(kysely, /tx: fromKysely\(trx\)/);
});

test('knex itself', async () => {
  const client = knex({ client: 'pg', connection: db.url, pool: { min: 0, max: 2 } });
  onTestFinished(() => client.destroy());
  await refused(() => fromKnex(client as never), /fromKnex\(\) got is no transaction/);
  await refusedAsTx(client, /tx: fromKnex\(trx\)/);
});

test('the db of Drizzle, on pg and on postgres.js', async () => {
  const pool = new pg.Pool({ connectionString: db.url });
  const connection = postgres(db.url, { max: 1 });
  onTestFinished(async () => {
    await Promise.all([pool.end(), connection.end()]);
  });
  for (const drizzle of [drizzlePg(pool), drizzlePostgresJs(connection)]) {
    await refused(
      () => fromDrizzle(drizzle as never, sql),
      /fromDrizzle\(\) got is no transaction/,
    );
    await refusedAsTx(drizzle, /tx: fromDrizzle\(tx, sql\)/);
  }
});

test('the client of Prisma', async () => {
  const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: db.url }) });
  onTestFinished(() => prisma.$disconnect());
  await refused(() => fromPrisma(prisma as never), /fromPrisma\(\) got is no transaction/);
  const extended = prisma.$extends({ query: { $allOperations: ({ args, query }) => query(args) } });
  await refused(() => fromPrisma(extended as never), /fromPrisma\(\) got is no transaction/);
  await refusedAsTx(prisma, /tx: fromPrisma\(tx\)/);
});

test('nothing at all, through every adapter', async () => {
  for (const adapt of Object.values(adapters) as ((tx: never, sql: never) => unknown)[]) {
    for (const nothing of [undefined, null, 'tx'])
      await refused(() => adapt(nothing as never, sql as never), /transaction|tx was given/);
  }
  await refused(() => fromDrizzle({ rollback: 1 } as never, undefined as never), /second argument/);
});

test('objects without query(text, params)', async () => {
  for (const tx of [{}, { query: {} }, [], () => undefined]) {
    await refusedAsTx(tx, /tx has no query\(text, params\)/);
  }
});
