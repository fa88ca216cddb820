import { sql } from 'drizzle-orm';
import { drizzle as drizzlePg, type NodePgDatabase } from 'drizzle-orm/node-postgres';
import { integer, type PgQueryResultHKT, type PgTransaction, pgTable } from 'drizzle-orm/pg-core';
import { drizzle as drizzlePostgresJs, type PostgresJsDatabase } from 'drizzle-orm/postgres-js';
import knex, { type Knex } from 'knex';
import { CamelCasePlugin, type ControlledTransaction, Kysely, PostgresDialect } from 'kysely';
import pg from 'pg';
import postgres from 'postgres';
import { describe, expectTypeOf, test } from 'vitest';
import {
  adapterContract,
  type TransactionLibrary,
} from '../../../../test/support/adapter-contract.js';
import { testDatabase } from '../../../../test/support/database.js';
import type { Queryable } from '../index.js';
import { fromDrizzle, fromKnex, fromKysely, fromPg, fromPostgresJs } from './adapters.js';

const db = testDatabase();

function withPg(url: string, adapt: (client: pg.PoolClient) => Queryable): TransactionLibrary {
  const pool = new pg.Pool({ connectionString: url });
  return {
    async transaction(work) {
      const client = await pool.connect();
      try {
        await client.query('BEGIN');
        await work(adapt(client), (id) => client.query('INSERT INTO orders VALUES ($1)', [id]));
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
}

function withPostgresJs(
  url: string,
  options: { prepare?: boolean; transform?: typeof postgres.camel } = {},
): TransactionLibrary {
  const client = postgres(url, { max: 2, ...options });
  return {
    transaction: (work) =>
      client.begin((tx) => work(fromPostgresJs(tx), (id) => tx`INSERT INTO orders VALUES (${id})`)),
    close: () => client.end(),
  };
}

interface Tables {
  orders: { id: number };
}

function withKysely(url: string, plugins: CamelCasePlugin[] = []): TransactionLibrary {
  const pool = new pg.Pool({ connectionString: url });
  const kysely = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }), plugins });
  return {
    transaction: (work) =>
      kysely
        .transaction()
        .execute((trx) =>
          work(fromKysely(trx), (id) => trx.insertInto('orders').values({ id }).execute()),
        ),
    close: () => kysely.destroy(),
  };
}

function withKnex(url: string): TransactionLibrary {
  const client = knex({ client: 'pg', connection: url, pool: { min: 0, max: 2 } });
  return {
    transaction: (work) =>
      client.transaction((trx) =>
        work(fromKnex(trx), (id) => trx<Tables['orders']>('orders').insert({ id })),
      ),
    close: () => client.destroy(),
  };
}

const orders = pgTable('orders', { id: integer().primaryKey() });

function withDrizzlePg(url: string): TransactionLibrary {
  const pool = new pg.Pool({ connectionString: url });
  const client = drizzlePg(pool, { schema: { orders } });
  return {
    transaction: (work) =>
      client.transaction((tx) =>
        work(fromDrizzle(tx, sql), (id) => tx.insert(orders).values({ id })),
      ),
    close: () => pool.end(),
  };
}

function withDrizzlePostgresJs(url: string): TransactionLibrary {
  const connection = postgres(url, { max: 2 });
  const client = drizzlePostgresJs(connection);
  return {
    transaction: (work) =>
      client.transaction((tx) =>
        work(fromDrizzle(tx, sql), (id) => tx.insert(orders).values({ id })),
      ),
    close: () => connection.end(),
  };
}

const LIBRARIES: { name: string; open: (url: string) => TransactionLibrary }[] = [
  { name: 'pg', open: (url) => withPg(url, fromPg) },
  { name: 'pg without an adapter', open: (url) => withPg(url, (client) => client) },
  { name: 'postgres.js', open: withPostgresJs },
  {
    name: 'postgres.js with camelCase names, not prepared',
    open: (url) => withPostgresJs(url, { transform: postgres.camel, prepare: false }),
  },
  { name: 'Kysely', open: withKysely },
  { name: 'Kysely with camelCase names', open: (url) => withKysely(url, [new CamelCasePlugin()]) },
  { name: 'Knex', open: withKnex },
  { name: 'Drizzle on pg', open: withDrizzlePg },
  { name: 'Drizzle on postgres.js', open: withDrizzlePostgresJs },
];

describe.each(LIBRARIES)('$name', ({ open }) => adapterContract(db, open));

type To<Adapter extends (tx: never, ...rest: never[]) => unknown> = Parameters<Adapter>[0];

test('every form of a transaction that the libraries have is accepted as it is', () => {
  expectTypeOf<pg.Client>().toExtend<To<typeof fromPg>>();
  expectTypeOf<pg.Client>().toExtend<Queryable>();
  expectTypeOf<postgres.TransactionSql<{ bigint: bigint }>>().toExtend<To<typeof fromPostgresJs>>();
  expectTypeOf<postgres.ReservedSql>().toExtend<To<typeof fromPostgresJs>>();
  expectTypeOf<ControlledTransaction<Tables, ['saved']>>().toExtend<To<typeof fromKysely>>();
  expectTypeOf<Knex.Transaction<{ id: number }, object>>().toExtend<To<typeof fromKnex>>();
  expectTypeOf<PgTransaction<PgQueryResultHKT>>().toExtend<To<typeof fromDrizzle>>();
});

test('a pool in place of a transaction, which would not commit with it, does not compile', () => {
  expectTypeOf<pg.Pool>().not.toExtend<To<typeof fromPg>>();
  expectTypeOf<postgres.Sql>().not.toExtend<To<typeof fromPostgresJs>>();
  expectTypeOf<Kysely<Tables>>().not.toExtend<To<typeof fromKysely>>();
  expectTypeOf<Knex>().not.toExtend<To<typeof fromKnex>>();
  expectTypeOf<NodePgDatabase>().not.toExtend<To<typeof fromDrizzle>>();
  expectTypeOf<PostgresJsDatabase>().not.toExtend<To<typeof fromDrizzle>>();
});
