import pg from 'pg';
import { expect, test } from 'vitest';
import { holdfast, job } from '../../packages/holdfast/src/index.js';
import { checkSchema } from '../../packages/holdfast/src/schema/migrate.js';
import { testDatabase } from '../support/database.js';
import { emptyDatabases } from '../support/empty-database.js';
import { quietLogger } from '../support/logger.js';
import { netSchema } from '../support/net-schema.js';

const db = testDatabase();
const makeDatabase = emptyDatabases();

test('the migrations come to the schema that is checked in as schema.sql', async () => {
  await expect(await netSchema(db.pool)).toMatchFileSnapshot('../../packages/holdfast/schema.sql');
});

test('schema.sql loads into an empty database, and what it makes is a migrated schema', async () => {
  const url = await makeDatabase();
  const pool = new pg.Pool({ connectionString: url });
  await using hf = holdfast({ connectionString: url, logger: quietLogger });
  try {
    const text = await netSchema(db.pool);
    await pool.query(text);
    // Postgres prints the brackets of a row comparison in another way once it was loaded from its own text.
    const bare = (sql: string) => sql.replace(/[()]/g, '');
    expect(bare(await netSchema(pool))).toBe(bare(text));
    await checkSchema(pool, 'holdfast', ['inbox']);
    expect(await hf.pendingSql()).toBe('');
    const rowsOf = async (on: pg.Pool, table: string) =>
      (
        await on.query(
          `SELECT to_jsonb(r) - 'created_at' - 'applied_at' AS row FROM holdfast.${table} r ORDER BY 1`,
        )
      ).rows;
    for (const table of ['migrations', 'functions', 'queues', 'fleet', 'limits'])
      expect(await rowsOf(pool, table)).toEqual(await rowsOf(db.pool, table));
    // It can be worked with: jobs, and another queue beside it.
    await hf.createQueue('outbox');
    const { id } = await hf.enqueue(job('work', { queue: 'outbox' }), {});
    expect(await hf.job(id, { queue: 'outbox' })).toMatchObject({ status: 'pending' });
  } finally {
    await pool.end();
  }
});

test('another queue has the same columns, constraints and settings as inbox', async () => {
  await db.hf.createQueue('outbox');
  const shape = (table: string) =>
    db.rows(
      `SELECT a.attname, format_type(a.atttypid, a.atttypmod) AS type, a.attnotnull
       FROM pg_attribute a WHERE a.attrelid = $1::regclass AND a.attnum > 0 ORDER BY a.attnum`,
      [table],
    );
  const checks = (table: string) =>
    db.rows(
      `SELECT pg_get_constraintdef(oid) AS definition FROM pg_constraint
       WHERE conrelid = $1::regclass AND contype IN ('p', 'c') ORDER BY 1`,
      [table],
    );
  const settings = (table: string) =>
    db.rows('SELECT reloptions FROM pg_class WHERE oid = $1::regclass', [table]);
  for (const side of ['', '_archive', '_idempotency', '_unique', '_effects', '_claims']) {
    expect(await shape(`holdfast.outbox${side}`)).toEqual(await shape(`holdfast.inbox${side}`));
    expect(await checks(`holdfast.outbox${side}`)).toEqual(await checks(`holdfast.inbox${side}`));
    expect(await settings(`holdfast.outbox${side}`)).toEqual(
      await settings(`holdfast.inbox${side}`),
    );
  }
});
