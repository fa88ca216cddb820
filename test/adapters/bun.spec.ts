/** Bun.sql has the interface of postgres.js, and so its adapter. Only Bun has it, so a process of Bun uses it. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { testDatabase } from '../support/database.js';

const db = testDatabase();
const here = (name: string) => fileURLToPath(new URL(name, import.meta.url));

test('jobs commit and roll back with a transaction of Bun.sql, and Bun.sql itself is refused', async () => {
  await db.rows('CREATE TABLE orders (id integer PRIMARY KEY)');
  // The tests' cheap logins are too cheap for Bun.
  await db.rows(`ALTER ROLE CURRENT_USER PASSWORD '${new URL(db.url).password}'`);
  const { stdout } = await promisify(execFile)(here('node_modules/.bin/bun'), [here('bun.mjs')], {
    env: { ...process.env, DATABASE_URL: db.url },
  });
  const said = JSON.parse(stdout);
  expect(said).toEqual({
    committed: [
      { id: expect.any(String), deduplicated: false },
      { id: expect.any(String), deduplicated: false },
    ],
    rolledBack: 'the business says no',
    mismatch: 'IDEMPOTENCY_MISMATCH',
    refused: ['OPTION_INVALID', 'OPTION_INVALID'],
  });
  expect(await db.rows('SELECT id FROM orders ORDER BY id')).toEqual(
    [1, 3, 4].map((id) => ({ id })),
  );
  const awkward = `it's "so" \\ \\n ? $1 {a,b} NULL 🦀 é`;
  const [first, second] = said.committed;
  expect(
    await db.rows(
      'SELECT id, payload, partition_key, idempotency_key, headers FROM holdfast.inbox ORDER BY position',
    ),
  ).toEqual([
    {
      ...{ id: first.id, payload: [awkward, null, 1], partition_key: first.id },
      ...{ idempotency_key: null, headers: null },
    },
    {
      ...{ id: second.id, payload: { text: awkward }, partition_key: awkward },
      ...{ idempotency_key: awkward, headers: { trace: awkward } },
    },
  ]);
  expect(await db.rows('SELECT key FROM holdfast.inbox_idempotency')).toEqual([{ key: awkward }]);
});
