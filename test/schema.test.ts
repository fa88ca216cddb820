import { expect, test } from 'vitest';
import { testDatabase } from './support/database.js';
import { netSchema } from './support/net-schema.js';

const db = testDatabase();

test('the migrations come to the schema that is checked in as schema.sql', async () => {
  await expect(await netSchema(db.pool)).toMatchFileSnapshot('../schema.sql');
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
