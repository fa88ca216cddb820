/** How a schema goes on: migrations, functions that are replaced, small steps, indexes without locks. */
import { createHash, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import pg from 'pg';
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { asAdmin, emptyDatabases } from '../../../../test/support/empty-database.js';
import { netSchema } from '../../../../test/support/net-schema.js';
import { until } from '../../../../test/support/until.js';
import { makeOldSchema, oldQueueText } from '../../../../test/support/upgrade/old-schema.js';
import { dropQueue } from './drop-queue.js';
import type { FunctionFile } from './function-file.js';
import { checkSchema, migrate, migrationLock, pendingSql } from './migrate.js';
import type { Migration } from './migration.js';
import { LATEST, MIGRATIONS, PROGRAM, type Program } from './migrations.js';
import { createQueue } from './queue.js';

const makeDatabase = emptyDatabases();
const open: pg.Client[] = [];
afterAll(async () => {
  for (const client of open) await client.end();
});

async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  open.push(client);
  return client;
}

async function shapeOf(url: string): Promise<string> {
  const pool = new pg.Pool({ connectionString: url });
  try {
    return await netSchema(pool);
  } finally {
    await pool.end();
  }
}

let url: string;
let client: pg.Client;
beforeEach(async () => {
  url = await makeDatabase();
  client = await connect(url);
});

const bodyOf = async (name: string) =>
  (
    await client.query(`SELECT prosrc FROM pg_proc WHERE oid = to_regproc($1)`, [
      `holdfast.${name}`,
    ])
  ).rows[0]?.prosrc as string | undefined;

test('the schema to upgrade from is the one of version 0.1, word for word', () => {
  const text = createHash('sha256');
  for (const name of ['schema', 'queue', 'register']) {
    const path = `../../../../test/support/upgrade/0.1/${name}.sql`;
    text.update(readFileSync(new URL(path, import.meta.url)));
  }
  expect(text.digest('hex')).toBe(
    '933af58d81c824e28bdf5e848241c2ffc75507673b0dc1a1b7e9ddc17c399dd6',
  );
});

test('an old schema is brought to the same shape as a new one, every queue of it', async () => {
  const fresh = await makeDatabase();
  const other = await connect(fresh);
  await migrate(other, 'holdfast');
  await createQueue(other, 'holdfast', 'outbox');
  await makeOldSchema(client, ['outbox']);
  await expect(checkSchema(client, 'holdfast')).rejects.toMatchObject({ code: 'SCHEMA_TOO_OLD' });
  await migrate(client, 'holdfast');
  await checkSchema(client, 'holdfast', ['inbox', 'outbox']);
  expect(await shapeOf(url)).toBe(await shapeOf(fresh));
});

test('the printed SQL does the same', async () => {
  const fresh = await makeDatabase();
  await migrate(await connect(fresh), 'holdfast');
  await makeOldSchema(client);
  const printed = await pendingSql(client, 'holdfast');
  // As psql does: what cannot run in a transaction is sent by itself.
  for (const part of printed.split(/\n\n(?=BEGIN|-- .* Outside of a transaction\.\n)/))
    await client.query(part);
  expect(await pendingSql(client, 'holdfast')).toBe('');
  expect(await shapeOf(url)).toBe(await shapeOf(fresh));
});

test('a queue that an older program made since is brought forward by the next migrate', async () => {
  await migrate(client, 'holdfast');
  await client.query(oldQueueText('late'));
  await expect(checkSchema(client, 'holdfast', ['late'])).rejects.toMatchObject({
    code: 'SCHEMA_TOO_OLD',
    message: expect.stringContaining('The queue "late" stands at migration 1'),
  });
  await checkSchema(client, 'holdfast', ['inbox']);
  await migrate(client, 'holdfast');
  await checkSchema(client, 'holdfast', ['late']);
});

test('a queue is not made in a schema that is older than the program', async () => {
  await makeOldSchema(client);
  await expect(createQueue(client, 'holdfast', 'outbox')).rejects.toMatchObject({
    code: 'SCHEMA_TOO_OLD',
  });
});

test('a dropped queue leaves no function behind', async () => {
  await migrate(client, 'holdfast');
  const count = async () =>
    (
      await client.query(
        `SELECT count(*) FROM pg_proc WHERE pronamespace = 'holdfast'::regnamespace`,
      )
    ).rows[0].count;
  const before = await count();
  await createQueue(client, 'holdfast', 'outbox');
  await dropQueue(client, 'holdfast', 'outbox');
  expect(await count()).toBe(before);
});

describe('a function whose text has changed', () => {
  const note = (version: string, of: 'schema' | 'queue', name: string): FunctionFile => ({
    name: `note-of-${of}`,
    of,
    text: `\nCREATE OR REPLACE FUNCTION holdfast.${name}() RETURNS text LANGUAGE sql AS $fn$ SELECT '${version} inbox' $fn$;\n`,
  });
  const program = (version: string, migrations = MIGRATIONS): Program => ({
    migrations,
    functions: [
      ...PROGRAM.functions,
      note(version, 'schema', 'note'),
      note(version, 'queue', 'inbox_note'),
    ],
  });

  test('is replaced for the schema and every queue, and nothing else is', async () => {
    await migrate(client, 'holdfast', program('one'));
    await createQueue(client, 'holdfast', 'outbox');
    const applied = () =>
      client.query('SELECT name, applied_at FROM holdfast.functions ORDER BY name');
    const before = (await applied()).rows;
    expect(await pendingSql(client, 'holdfast', program('one'))).toBe('');
    const text = await pendingSql(client, 'holdfast', program('two'));
    expect(text).toMatch(/Functions: note-of-schema, note-of-queue/);
    expect(text).not.toContain('inbox_enqueue');
    await migrate(client, 'holdfast', program('two'));
    for (const name of ['note', 'inbox_note', 'outbox_note'])
      expect(await bodyOf(name)).toContain('two');
    const again = (await applied()).rows.filter(
      ({ applied_at }, n) => applied_at.getTime() !== before[n].applied_at.getTime(),
    );
    expect(again.map(({ name }) => name)).toEqual(['note-of-queue', 'note-of-schema']);
  });

  test('is left alone by a program that knows fewer migrations', async () => {
    const next: Migration = {
      ...{ id: LATEST + 1, name: 'next', breaksBefore: 1, common: '', perQueue: '' },
    };
    await migrate(client, 'holdfast', program('new', [...MIGRATIONS, next]));
    expect(await pendingSql(client, 'holdfast', program('old'))).toBe('');
    await migrate(client, 'holdfast', program('old'));
    expect(await bodyOf('note')).toContain('new');
    expect(await bodyOf('inbox_note')).toContain('new');
  });

  test('and its parameters too, keeps the rights that were granted on it', async () => {
    const caller = `holdfast_caller_${randomBytes(4).toString('hex')}`;
    await asAdmin((admin) => admin.query(`CREATE ROLE ${caller}`));
    const old: FunctionFile = {
      name: 'sum',
      of: 'queue',
      text: `\nCREATE OR REPLACE FUNCTION holdfast.inbox_sum(a integer) RETURNS integer LANGUAGE sql AS 'SELECT a';
REVOKE ALL ON FUNCTION holdfast.inbox_sum FROM PUBLIC;\n`,
    };
    const now: FunctionFile = {
      name: 'sum',
      of: 'queue',
      drop: 'DROP FUNCTION IF EXISTS holdfast.inbox_sum(integer);',
      text: `\nCREATE OR REPLACE FUNCTION holdfast.inbox_sum(a integer, b integer) RETURNS bigint LANGUAGE sql AS 'SELECT (a + b)::bigint';
REVOKE ALL ON FUNCTION holdfast.inbox_sum FROM PUBLIC;\n`,
    };
    const withFile = (file: FunctionFile): Program => ({
      ...PROGRAM,
      functions: [...PROGRAM.functions, file],
    });
    try {
      await migrate(client, 'holdfast', withFile(old));
      await client.query(
        `GRANT EXECUTE ON FUNCTION holdfast.inbox_sum TO ${caller} WITH GRANT OPTION`,
      );
      await migrate(client, 'holdfast', withFile(now));
      const { rows } = await client.query(
        `SELECT has_function_privilege($1, 'holdfast.inbox_sum(integer, integer)', 'EXECUTE WITH GRANT OPTION') AS kept,
           has_function_privilege('public', 'holdfast.inbox_sum(integer, integer)', 'EXECUTE') AS everybody,
           to_regprocedure('holdfast.inbox_sum(integer)') AS old`,
        [caller],
      );
      expect(rows).toEqual([{ kept: true, everybody: false, old: null }]);
      expect(await pendingSql(client, 'holdfast', withFile(now))).toBe('');
    } finally {
      await client.query(`DROP OWNED BY ${caller}`);
      await asAdmin((admin) => admin.query(`DROP ROLE ${caller}`));
    }
  });
});

describe('an index that is made online', () => {
  const program: Program = {
    ...PROGRAM,
    migrations: [
      ...MIGRATIONS,
      {
        ...{ id: LATEST + 1, name: 'index', breaksBefore: 1, common: '', perQueue: '' },
        online: [
          {
            text: 'CREATE INDEX CONCURRENTLY IF NOT EXISTS inbox_try_idx ON holdfast.inbox (created_at)',
          },
          { text: 'DROP INDEX CONCURRENTLY IF EXISTS holdfast.inbox_dead_idx' },
          {
            text: 'CREATE INDEX CONCURRENTLY IF NOT EXISTS inbox_keyed_idx ON holdfast.inbox (partition_key)',
            orderings: ['key', 'key_strict'],
          },
        ],
      },
    ],
  };
  const indexes = async () =>
    (
      await client.query(
        `SELECT c.relname AS name FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
         WHERE c.relname ~ '_(try|dead|keyed)_idx$' AND i.indisvalid ORDER BY 1`,
      )
    ).rows.map(({ name }) => name);

  test('is made for every queue, beside one who writes into it, and only once', async () => {
    await migrate(client, 'holdfast');
    await createQueue(client, 'holdfast', 'outbox');
    await createQueue(client, 'holdfast', 'orders', { ordering: 'key' });
    const text = await pendingSql(client, 'holdfast', program);
    expect(text.match(/^(CREATE|DROP) INDEX CONCURRENTLY/gm)).toHaveLength(7);
    await Promise.all([
      migrate(client, 'holdfast', program),
      migrate(await connect(url), 'holdfast', program),
    ]);
    expect(await indexes()).toEqual([
      'inbox_try_idx',
      'orders_keyed_idx',
      'orders_try_idx',
      'outbox_try_idx',
    ]);
    expect(await pendingSql(client, 'holdfast', program)).toBe('');
  });

  test('is a plain one in a fresh schema', async () => {
    expect(await pendingSql(client, 'holdfast', program)).not.toContain('CONCURRENTLY');
    await migrate(client, 'holdfast', program);
    expect(await indexes()).toEqual(['inbox_try_idx']);
    expect(await pendingSql(client, 'holdfast', program)).toBe('');
  });

  test('is made again when a build was interrupted', async () => {
    await migrate(client, 'holdfast');
    await client.query('CREATE INDEX inbox_try_idx ON holdfast.inbox (created_at)');
    await client.query(
      `UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'holdfast.inbox_try_idx'::regclass`,
    );
    expect(await pendingSql(client, 'holdfast', program)).toMatch(
      /DROP INDEX CONCURRENTLY IF EXISTS "holdfast"."inbox_try_idx";[\s\S]*CREATE INDEX CONCURRENTLY/,
    );
    await migrate(client, 'holdfast', program);
    expect(await indexes()).toEqual(['inbox_try_idx']);
  });
});

test('a migration that waits for a table lets the others through, and goes on when it can', async () => {
  await makeOldSchema(client);
  const long = await connect(url);
  const reader = await connect(url);
  await long.query('BEGIN; SELECT FROM holdfast.queues');
  const done = migrate(client, 'holdfast');
  const waits = `SELECT FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'`;
  await until('the migration waits', async () => (await reader.query(waits)).rowCount === 1);
  // Behind the one that waits; it is free again when that gives up.
  await reader.query('SELECT FROM holdfast.queues');
  await long.query('COMMIT');
  await done;
  await checkSchema(client, 'holdfast');
});

test('a transaction that migrates does not hold the locks of two queues', async () => {
  await makeOldSchema(client, ['outbox']);
  const text = await pendingSql(client, 'holdfast');
  const parts = text.split('COMMIT;').filter((part) => part.includes('BEGIN'));
  for (const part of parts.filter((one) => !one.includes('Functions:')))
    expect(part.includes('holdfast.inbox_enqueue(') && part.includes('"outbox_enqueue"(')).toBe(
      false,
    );
  for (const part of parts) {
    expect(part).toContain(migrationLock('holdfast'));
    expect(part).toContain('lock_timeout');
  }
});
