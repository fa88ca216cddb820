import type pg from 'pg';
import QueryStream from 'pg-query-stream';
import { describe } from 'vitest';
import { all, sameOnBoth } from './both.js';

const NUMBERS = 'SELECT n, n::text AS t FROM generate_series(1, $1::int) n';
const numbers = (count: number, options?: object) =>
  new QueryStream(NUMBERS, [count], options as never);

async function withClient<Value>(pool: pg.Pool, work: (client: pg.PoolClient) => Promise<Value>) {
  const client = await pool.connect();
  try {
    return await work(client);
  } finally {
    client.release();
  }
}

describe('pg-query-stream', () => {
  sameOnBoth<pg.Pool>(async (pool) => ({ db: pool, close: async () => undefined }), {
    'all rows, in parts': (pool) =>
      withClient(pool, (client) => all(client.query(numbers(25, { batchSize: 4 })))),
    'no rows': (pool) => withClient(pool, (client) => all(client.query(numbers(0)))),
    'rows as arrays': (pool) =>
      withClient(pool, (client) => all(client.query(numbers(3, { rowMode: 'array' })))),
    'some rows, and then another query': (pool) =>
      withClient(pool, async (client) => {
        const read: unknown[] = [];
        for await (const row of client.query(numbers(100, { batchSize: 2 }))) {
          read.push(row);
          if (read.length === 3) break;
        }
        return [read, (await client.query('SELECT 1 AS n')).rows];
      }),
    'in a transaction, beside other queries of it': (pool) =>
      withClient(pool, async (client) => {
        await client.query('BEGIN');
        const read = await all(client.query(numbers(5, { batchSize: 2 })));
        await client.query('COMMIT');
        return read;
      }),
    'an error at the start': (pool) =>
      withClient(pool, (client) => all(client.query(new QueryStream('SELECT nothing')))),
    'an error between rows': (pool) =>
      withClient(pool, async (client) => {
        const failing = new QueryStream(
          'SELECT 1 / (3 - n) AS x FROM generate_series(1, 5) n',
          [],
          { batchSize: 1 },
        );
        const error = await all(client.query(failing)).catch(({ code }) => code);
        return [error, (await client.query('SELECT 1 AS n')).rows];
      }),
  });
});
