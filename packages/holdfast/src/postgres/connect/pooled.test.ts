/** The engine's statements without a session, on a plain connection; test/pooler has the pooler itself. */
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { testDatabase } from '../../../../../test/support/database.js';
import { quietLogger } from '../../../../../test/support/logger.js';
import { engineExecutor } from '../queryable.js';
import { bool, int8, statement, text, timestamp } from '../statement.js';
import { engineConfig, enginePool, plainPool } from './pool.js';
import { BEGIN_POOLED, behindPooler, queryPooled } from './pooled.js';
import { isTransient } from './transient.js';

const db = testDatabase();
let client: pg.Client;

beforeAll(async () => {
  await db.rows('CREATE TABLE notes (note text)');
  client = new pg.Client(engineConfig({ connectionString: db.url, pooled: true }));
  await client.connect();
});
afterAll(() => client?.end());

const notes = async () =>
  (await db.rows('SELECT note FROM notes ORDER BY note')).map((r) => r.note);
const refused = (promise: Promise<unknown>) =>
  promise.then(
    () => 'it was not refused',
    (error: { code?: string; message: string }) => error.code ?? error.message,
  );

/** What decides over plans, waits and the form of times, as the session sees it now. */
const SETTINGS = `SELECT current_setting('enable_seqscan'), current_setting('plan_cache_mode'),
  current_setting('lock_timeout'), current_setting('transaction_isolation'),
  current_setting('statement_timeout'), current_setting('timezone'), current_setting('datestyle')`;
const ENGINE = ['off', 'force_generic_plan', '500ms', 'read committed', '0', 'UTC', 'ISO, MDY'];
const asSession = { text: SETTINGS, rowMode: 'array' } as const;

describe('a statement that brings its settings', () => {
  test('runs under all of them, whatever the database prefers, and leaves none behind', async () => {
    for (const preference of [
      `default_transaction_isolation = 'serializable'`,
      `statement_timeout = '30s'`,
      `timezone = 'Asia/Tokyo'`,
      `datestyle = 'SQL, DMY'`,
    ]) {
      await client.query(`SET ${preference}`);
    }
    const before = (await client.query(asSession)).rows;
    expect(await queryPooled(client, SETTINGS, [])).toEqual([[...ENGINE.slice(0, 6), 'ISO, DMY']]);
    expect((await client.query(asSession)).rows).toEqual(before);
    expect(before).toEqual([['on', 'auto', '0', 'serializable', '30s', 'Asia/Tokyo', 'SQL, DMY']]);
    await client.query('RESET ALL');
  });

  test('takes and returns what the engine does, times as ISO text in UTC', async () => {
    const everything = statement({
      name: 'test_pooled',
      text: `SELECT $1::text AS words, $2::bigint AS number, $3::boolean AS fact, $4::text AS nothing,
        timestamptz '2026-01-02 03:04:05.678901+09' AS at FROM generate_series(1, 2)`,
      columns: { words: text, number: int8, fact: bool, nothing: text.orNull, at: timestamp },
    });
    const engine = engineExecutor(client, { prepare: true, pooled: true });
    const names = { schema: 'holdfast', queue: 'inbox' };
    const row = {
      words: `it's "so" \\ $1 🦀`,
      number: 9182,
      fact: true,
      nothing: null,
      at: '2026-01-01 18:04:05.678901+00',
    };
    const { words, number, fact } = row;
    expect(await engine.run(everything, names, [words, number, fact, null])).toEqual([row, row]);
  });

  test('is committed when it answers, and returns no rows if it has none', async () => {
    expect(await queryPooled(client, 'INSERT INTO notes VALUES ($1)', ['kept'])).toEqual([]);
    expect(await notes()).toEqual(['kept']);
  });

  test('that fails has done nothing, and the next one on the connection runs', async () => {
    const failing = 'WITH n AS (INSERT INTO notes VALUES ($1)) SELECT 1 / $2::int';
    expect(await refused(queryPooled(client, failing, ['lost', 0]))).toBe('22012');
    expect(await refused(queryPooled(client, 'no SQL at all', []))).toBe('42601');
    expect(await queryPooled(client, 'SELECT $1::int + 1', [1])).toEqual([['2']]);
    expect(await notes()).toEqual(['kept']);
  });

  test('does not share the failure of the one before it in line', async () => {
    const failing = refused(queryPooled(client, 'SELECT 1 / 0', []));
    expect(await queryPooled(client, 'SELECT 2', [])).toEqual([['2']]);
    expect(await failing).toBe('22012');
  });

  test('does not run at all if its settings cannot be made', async () => {
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
    // The level of this transaction cannot be changed any more.
    expect(await refused(queryPooled(client, `INSERT INTO notes VALUES ('no')`, []))).toBe('25001');
    await client.query('ROLLBACK');
    expect(await notes()).toEqual(['kept']);
  });
});

test('a statement that takes too long is given up, and the pool goes on', async () => {
  const options = { connectionString: db.url, pooled: true, queryTimeoutMs: 100 };
  const pool = enginePool(options, 1, quietLogger);
  const query = pool as unknown as Parameters<typeof queryPooled>[0];
  expect(await refused(queryPooled(query, 'SELECT pg_sleep(10)', []))).toMatch(/read timeout/);
  expect(await queryPooled(query, 'SELECT 1', [])).toEqual([['1']]);
  await pool.end();
});

test('several statements in one transaction: the settings last as long as it does', async () => {
  await client.query(`SET default_transaction_isolation = 'serializable'; SET datestyle = 'SQL'`);
  await client.query(BEGIN_POOLED);
  expect((await client.query(asSession)).rows).toEqual([ENGINE]);
  await client.query('COMMIT');
  const [after] = (await client.query(asSession)).rows;
  expect(after?.slice(0, 4)).toEqual(['on', 'auto', '0', 'serializable']);
  await client.query('RESET ALL');
});

describe('is a pooler in between?', () => {
  test('not on a connection that leads to the server itself', async () => {
    expect(await behindPooler(db.pool)).toBe(false);
  });

  test('a database that is away for now is asked again', async () => {
    const pool = plainPool({ connectionString: 'postgres://127.0.0.1:1/none' }, 1, quietLogger);
    const error = await behindPooler(pool).catch((thrown: unknown) => thrown);
    expect(isTransient(error)).toBe(true);
    Object.assign(pool.options, { connectionString: db.url });
    expect(await behindPooler(pool)).toBe(false);
    await pool.end();
  });
});
