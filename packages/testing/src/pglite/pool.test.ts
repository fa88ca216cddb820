/**
 * The pool on PGlite beside one on a server: every form of `query` that `pg` takes has the same
 * result on both, and clients come, go and hear alike. What only PGlite has to hold, because its clients share a session,
 * follows.
 */
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { quietLogger } from '../../../../test/support/logger.js';
import { cursor, heard, JOURNEYS, Sends, submitted } from '../../../../test/support/pg-journeys.js';
import { CALLS, SCHEMA, SESSION } from '../../../../test/support/pg-queries.js';
import { cloneDatabase, type PgliteHoldfast, startPglite } from '../index.js';

/** Numbers that a database gives to what is made in it. */
const FIRST_OWN_OID = 16_384;

/** A result as it is compared: all that `pg` has set, in plain values. */
function plain(value: unknown): unknown {
  if (value instanceof pg.DatabaseError) return plainError(value);
  if (value instanceof Error) return { error: value.constructor.name, message: value.message };
  if (Array.isArray(value) && 'fields' in Object(value[0])) return value.map(plain);
  if (!(value instanceof pg.Result)) return value;
  const { command, rowCount, oid, rows, fields, rowAsArray } = value as pg.QueryResult & {
    rowAsArray: boolean;
  };
  return { command, rowCount, oid, rows, rowAsArray, fields: fields.map(plainField) };
}

function plainField(field: pg.FieldDef): object {
  const own = (oid: number) => (oid >= FIRST_OWN_OID ? 'own' : oid);
  return { ...field, tableID: own(field.tableID), dataTypeID: own(field.dataTypeID) };
}

/** Where in the source of Postgres it was raised moves with its version; so do the bytes of the message. */
function plainError(error: pg.DatabaseError): object {
  const { line, length, ...rest } = error;
  expect([typeof line, typeof length]).toEqual(['string', 'number']);
  return { ...rest, message: error.message, error: error.constructor.name };
}

let onServer: pg.Pool;
let kit: PgliteHoldfast;
const closing: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  const database = await cloneDatabase(inject('serverUrl'), inject('template'));
  onServer = new pg.Pool({ connectionString: database.url });
  kit = await startPglite({ logger: quietLogger });
  closing.push(kit.close, () => onServer.end(), database.drop);
  for (const pool of [onServer, kit.pool])
    await pool.query(`${SCHEMA}; CREATE TABLE notes (id int)`);
});
afterAll(async () => {
  for (const close of closing) await close();
});

/** On one client after the other, and on the settings that both databases must share. */
async function onBoth<Value>(work: (client: pg.PoolClient) => Promise<Value>): Promise<Value[]> {
  const values: Value[] = [];
  for (const pool of [onServer, kit.pool]) {
    const client = await pool.connect();
    try {
      await client.query(SESSION);
      values.push(await work(client));
    } finally {
      client.release();
    }
  }
  return values;
}

describe('a query has the result that pg has', () => {
  test.each(CALLS)('%s', async (_, call) => {
    const [server, pglite] = await onBoth(async (client) => {
      await client.query('BEGIN');
      const result = await call(client).catch((error: unknown) => error);
      await client.query('ROLLBACK');
      return plain(result);
    });
    expect(server).toBeDefined();
    expect(pglite).toStrictEqual(server);
  });
});

describe('clients come and go as those of pg', () => {
  test.each(Object.entries(JOURNEYS))('%s', async (_, journey) => {
    const made: unknown[] = [];
    for (const of of [onServer, kit.pool]) {
      const pool = new (of.constructor as typeof pg.Pool)({ ...of.options, max: 2 });
      made.push(await journey(pool));
      if (!pool.ended) await pool.end();
    }
    expect(made[0]).toBeDefined();
    expect(made[1]).toStrictEqual(made[0]);
  });
});

describe('the one session of PGlite', () => {
  const rowsOf = async (text: string) => (await kit.pool.query(text)).rows;

  test('a statement waits for the transaction of another client, and sees what it has committed', async () => {
    const client = await kit.pool.connect();
    await client.query('BEGIN; DELETE FROM notes; INSERT INTO notes VALUES (1)');
    const beside = rowsOf('SELECT id FROM notes');
    await client.query('INSERT INTO notes VALUES (2)');
    await client.query('COMMIT');
    client.release();
    expect(await beside).toEqual([{ id: 1 }, { id: 2 }]);
  });

  test.each(['release', 'end'] as const)(
    'a client leaves nothing of an open transaction behind: %s',
    async (way) => {
      await rowsOf('DELETE FROM notes');
      const client = await kit.pool.connect();
      await client.query('BEGIN; INSERT INTO notes VALUES (1)');
      client.release(way === 'end');
      expect(await rowsOf('SELECT id FROM notes')).toEqual([]);
    },
  );

  test('a client that is gone leaves no prepared statement behind', async () => {
    const known = `SELECT FROM pg_prepared_statements WHERE statement = 'SELECT 42'`;
    const client = await kit.pool.connect();
    await client.query({ name: 'kept', text: 'SELECT 42' });
    expect((await client.query(known)).rowCount).toBe(1);
    client.release(true);
    await rowsOf('SELECT 1');
    expect(await rowsOf(known)).toEqual([]);
  });

  test('a cursor that nobody reads holds it, and whoever waits is told so', async () => {
    const client = await kit.pool.connect();
    const open = new Sends(cursor().submit.bind(cursor()));
    void submitted(client, open);
    await expect(kit.pool.query('SELECT 1')).rejects.toMatchObject({
      code: '55P03',
      severity: 'ERROR',
      message: expect.stringMatching(
        /single session, and a transaction or an open cursor has held/,
      ),
    });
    client.release(true);
    expect(await rowsOf('SELECT 1 AS n')).toEqual([{ n: 1 }]);
  });

  test('the user’s own statements on the PGlite hear and are heard', async () => {
    const pglite = kit.pglite as unknown as {
      listen(channel: string, hear: (payload: string) => void): Promise<unknown>;
      exec(text: string): Promise<unknown>;
    };
    const own = new Promise<string>((resolve) => void pglite.listen('own', resolve));
    await pglite.exec('SELECT 1');
    await rowsOf(`SELECT pg_notify('own', 'from the pool')`);
    expect(await own).toBe('from the pool');
    const client = await kit.pool.connect();
    await client.query('LISTEN theirs');
    const told = heard(client, 'from PGlite');
    await pglite.exec(`NOTIFY theirs, 'from PGlite'`);
    expect(await told).toHaveLength(1);
    client.release(true);
  });
});
