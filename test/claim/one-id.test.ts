/** An id is one job, whichever way it comes in. */
import { expect, onTestFinished, test } from 'vitest';
import { migrate } from '../../packages/holdfast/src/schema/migrate.js';
import { complete, completedBefore } from '../../packages/holdfast/src/settle/complete.js';
import { claimAs, heldOf } from '../support/claiming.js';
import { INBOX, testDatabase } from '../support/database.js';

const db = testDatabase();
const ID = '0199a1c2-7d3e-7000-8000-000000000001';
const insert = (key: string, more = '') =>
  db.pool.query(
    `INSERT INTO holdfast.inbox (id, type, partition_key, payload) VALUES ($1, 'note', $2, '{}') ${more}`,
    [ID, key],
  );

const primaryKey = async (queue = 'inbox') =>
  (
    await db.rows<{ text: string }>(
      `SELECT pg_get_constraintdef(oid) AS text FROM pg_constraint WHERE contype = 'p' AND conrelid = $1::regclass`,
      [`holdfast.${queue}`],
    )
  ).map(({ text }) => text);

test('two plain INSERTs with one id and two keys: the second is refused', async () => {
  await insert('a');
  await expect(insert('b')).rejects.toMatchObject({ code: '23505' });
  expect((await insert('c', 'ON CONFLICT DO NOTHING')).rowCount).toBe(0);
  expect((await insert('c', 'ON CONFLICT (id) DO NOTHING')).rowCount).toBe(0);
  const rows = await db.rows('SELECT partition_key AS key FROM holdfast.inbox');
  expect(rows).toEqual([{ key: 'a' }]);
});

test('an id that comes again after its job has ended is not taken for that job', async () => {
  await db.rows('DELETE FROM holdfast.inbox');
  const claim = async () => (await claimAs(db.engine, 'w', { types: ['note'] })).map(heldOf);
  await insert('a');
  const first = await claim();
  expect(await complete(db.engine, INBOX, 'w', first)).toEqual([ID]);
  expect(await completedBefore(db.engine, INBOX, 'w', first)).toEqual([ID]);
  await insert('b');
  const second = await claim();
  // The same id, generation and worker. It threw, and the answer to its failure was lost.
  expect(second).toEqual(first);
  expect(await completedBefore(db.engine, INBOX, 'w', second)).toEqual([]);
  await db.rows('DELETE FROM holdfast.inbox');
});

test('a queue that is made later has the same key', async () => {
  await db.hf.createQueue('later');
  expect([await primaryKey(), await primaryKey('later')]).toEqual([
    ['PRIMARY KEY (id)'],
    ['PRIMARY KEY (id)'],
  ]);
});

test('a queue that has an id twice is left as it is, and the migration says which', async () => {
  const client = await db.pool.connect();
  onTestFinished(() => client.release());
  // As migration 1 made it.
  await db.rows(`ALTER TABLE holdfast.inbox DROP CONSTRAINT inbox_job_pkey,
    ADD CONSTRAINT inbox_id_pkey PRIMARY KEY (id, partition_bucket)`);
  await db.rows('DELETE FROM holdfast.inbox');
  await insert('a');
  await insert('b');
  await expect(migrate(client, 'holdfast')).rejects.toMatchObject({
    code: 'SCHEMA_TOO_OLD',
    message: expect.stringMatching(
      new RegExp(`queue was not changed:\\n  ${ID} with the partition keys a, b\\n`),
    ),
  });
  expect(await primaryKey()).toEqual(['PRIMARY KEY (id, partition_bucket)']);
  // Nothing is left that would refuse what was accepted before.
  await insert('c');
  await db.rows(`UPDATE holdfast.inbox SET id = holdfast.new_id() WHERE partition_key <> 'a'`);
  await migrate(client, 'holdfast');
  expect(await primaryKey()).toEqual(['PRIMARY KEY (id)']);
  expect(await db.rows('SELECT FROM holdfast.inbox')).toHaveLength(3);
});
