/** `holdfast.inbox_enqueue`: the same enqueue for producers in any language, and for triggers. */
import { beforeEach, describe, expect, test } from 'vitest';
import { testDatabase } from '../../../../test/support/database.js';
import { gate, testWorkers } from '../../../../test/support/workers.js';
import { bucketOf, job } from '../index.js';

const db = testDatabase();
const start = testWorkers();
const receipt = job<{ order: number }>('send_receipt');

beforeEach(async () => {
  for (const table of ['inbox', 'inbox_idempotency'])
    await db.rows(`DELETE FROM holdfast.${table}`);
});

const call = async (args: string, queue = 'inbox') =>
  (
    await db.rows<{ id: string; deduplicated: boolean }>(
      `SELECT id, deduplicated FROM holdfast.${queue}_enqueue(${args})`,
    )
  )[0]!;
const count = async () => Number((await db.rows('SELECT count(*) AS n FROM holdfast.inbox'))[0]!.n);

/** Everything that a producer decides, and when the job is due to the second. */
const decided = async (id: string) =>
  (
    await db.rows(
      `SELECT type, version, status, priority, max_attempts, attempts, partition_key,
         partition_bucket, payload, headers, idempotency_key, lease_generation,
         greatest(0, round(extract(epoch FROM available_at - created_at)))::int AS due_in
       FROM holdfast.inbox WHERE id = $1`,
      [id],
    )
  )[0]!;

test('it writes the same row as enqueue() in TypeScript', async () => {
  const wide = job<object>('wide', { version: 3 });
  const bySql = await call(
    `type => 'wide', payload => '{"a": [1, "é"]}', partition_key => 'order:é', idempotency_key => 'sql',
     delay => '90 seconds', priority => 1, max_attempts => 9, headers => '{"trace": "x"}', version => 3`,
  );
  const byCall = await db.hf.enqueue(
    wide,
    { a: [1, 'é'] },
    {
      partitionKey: 'order:é',
      idempotencyKey: 'ts',
      delay: '90s',
      priority: 1,
      maxAttempts: 9,
      headers: { trace: 'x' },
    },
  );
  expect(bySql.deduplicated).toBe(false);
  expect(await decided(bySql.id)).toEqual({
    ...(await decided(byCall.id)),
    idempotency_key: 'sql',
  });
});

test('its defaults are those of enqueue()', async () => {
  const { id } = await call(`'send_receipt', '{"order": 1}'`);
  const other = await db.hf.enqueue(receipt, { order: 1 });
  const own = { partition_key: id, partition_bucket: bucketOf(id) };
  expect(await decided(id)).toEqual({ ...(await decided(other.id)), ...own });
});

test('a worker runs what it enqueued', async () => {
  const seen = gate<unknown>();
  start(db.hf, (w) =>
    w.handle(receipt, (ctx) => seen.open([ctx.payload, ctx.partitionKey, ctx.headers])),
  );
  await call(`'send_receipt', '{"order": 7}', partition_key => 'order:7', headers => '{"a": "b"}'`);
  expect(await seen.opened).toEqual([{ order: 7 }, 'order:7', { a: 'b' }]);
});

describe('idempotency keys', () => {
  test('are shared with enqueue() in TypeScript, both ways', async () => {
    const first = await call(`'send_receipt', '{"order": 1}', idempotency_key => 'k'`);
    const again = await db.hf.enqueue(receipt, { order: 1 }, { idempotencyKey: 'k' });
    expect(again).toEqual({ id: first.id, deduplicated: true });
    const other = await db.hf.enqueue(receipt, { order: 2 }, { idempotencyKey: 'l' });
    expect(await call(`'send_receipt', '{"order": 2}', idempotency_key => 'l'`)).toEqual({
      id: other.id,
      deduplicated: true,
    });
    expect(await count()).toBe(2);
  });

  test('for other work are refused with HF003', async () => {
    await call(`'send_receipt', '{"order": 1}', idempotency_key => 'k'`);
    for (const args of [`'send_receipt', '{"order": 2}'`, `'refund', '{"order": 1}'`]) {
      await expect(call(`${args}, idempotency_key => 'k'`)).rejects.toMatchObject({
        code: 'HF003',
        message: expect.stringContaining('nothing was enqueued'),
      });
    }
    expect(await count()).toBe(1);
  });

  test('give one job to twenty racing producers', async () => {
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => call(`'send_receipt', '{}', idempotency_key => 'race'`)),
    );
    expect(new Set(answers.map(({ id }) => id)).size).toBe(1);
    expect(answers.filter(({ deduplicated }) => !deduplicated)).toHaveLength(1);
    expect(await count()).toBe(1);
  });

  test('lapse after the retention window, but not while their job is in the queue', async () => {
    const args = `'send_receipt', '{}', idempotency_key => 'k'`;
    const first = await call(args);
    await db.rows('UPDATE holdfast.inbox_idempotency SET expires_at = now()');
    expect(await call(args)).toEqual({ id: first.id, deduplicated: true });
    await db.rows('DELETE FROM holdfast.inbox');
    const next = await call(args);
    expect(next.deduplicated).toBe(false);
    expect(next.id).not.toBe(first.id);
  });
});

test('a trigger enqueues in the transaction of the write that fired it', async () => {
  await db.rows('CREATE TABLE orders (id int PRIMARY KEY)');
  await db.rows(`CREATE FUNCTION order_placed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      PERFORM holdfast.inbox_enqueue('send_receipt', jsonb_build_object('order', NEW.id),
        partition_key => 'order:' || NEW.id);
      RETURN NEW;
    END $$`);
  await db.rows(`CREATE TRIGGER order_placed AFTER INSERT ON orders
    FOR EACH ROW EXECUTE FUNCTION order_placed()`);
  const client = await db.pool.connect();
  await client.query('BEGIN');
  await client.query('INSERT INTO orders VALUES (1)');
  await client.query('ROLLBACK');
  expect(await count()).toBe(0);
  await client.query('INSERT INTO orders SELECT generate_series(1, 50)');
  client.release();
  const rows = await db.rows<{ partition_key: string; partition_bucket: number }>(
    'SELECT partition_key, partition_bucket FROM holdfast.inbox ORDER BY position',
  );
  expect(rows).toEqual(
    Array.from({ length: 50 }, (_, i) => ({
      partition_key: `order:${i + 1}`,
      partition_bucket: bucketOf(`order:${i + 1}`),
    })),
  );
});

test('a search_path of the caller changes nothing', async () => {
  const client = await db.pool.connect();
  await client.query(`CREATE SCHEMA IF NOT EXISTS lookalike`);
  await client.query('CREATE TABLE lookalike.inbox (id int)');
  await client.query('BEGIN');
  await client.query('SET LOCAL search_path TO lookalike');
  await client.query(`SELECT holdfast.inbox_enqueue('send_receipt', '{}', idempotency_key => 'p')`);
  await client.query('COMMIT');
  client.release();
  expect(await count()).toBe(1);
});

test.each([
  ['no type', `NULL, '{}'`],
  ['a bad type', `'send receipt', '{}'`],
  ['a type with a line end', `E'send\\n', '{}'`],
  ['no payload', `'x', NULL`],
  ['an empty key', `'x', '{}', partition_key => ''`],
  ['a long key', `'x', '{}', partition_key => repeat('é', 257)`],
  ['an empty idempotency key', `'x', '{}', idempotency_key => ''`],
  ['a long idempotency key', `'x', '{}', idempotency_key => repeat('x', 513)`],
  ['both times', `'x', '{}', delay => '1 s', available_at => now()`],
  ['a negative delay', `'x', '{}', delay => '-1 s'`],
  ['a delay of eleven years', `'x', '{}', delay => '11 years'`],
  ['a time that never comes', `'x', '{}', available_at => 'infinity'`],
  ['priority 0', `'x', '{}', priority => 0`],
  ['priority 5', `'x', '{}', priority => 5`],
  ['no priority', `'x', '{}', priority => NULL`],
  ['no attempts', `'x', '{}', max_attempts => 0`],
  ['too many attempts', `'x', '{}', max_attempts => 10001`],
  ['version 0', `'x', '{}', version => 0`],
  ['no version', `'x', '{}', version => NULL`],
  ['headers that are no object', `'x', '{}', headers => '["a"]'`],
  ['headers that are no texts', `'x', '{}', headers => '{"a": 1}'`],
  ['a huge payload', `'x', to_jsonb(repeat('x', 1048576))`],
])('it refuses %s with HF002 and writes nothing', async (_, args) => {
  await expect(call(`${args.replace(/^'x'/, `'x'::text`)}`)).rejects.toMatchObject({
    code: 'HF002',
    message: expect.stringContaining('nothing was enqueued'),
  });
  expect(await count()).toBe(0);
});

test('a time in the past means now, also -infinity', async () => {
  const { id } = await call(`'x', '{}', available_at => '-infinity'`);
  expect(await decided(id)).toMatchObject({ due_in: 0 });
});

test('the payload limit is a setting of the queue', async () => {
  await db.hf.configureQueue('inbox', { maxPayloadBytes: 20 });
  await call(`'x', to_jsonb(repeat('x', 18))`);
  await expect(call(`'x', to_jsonb(repeat('x', 19))`)).rejects.toMatchObject({
    code: 'HF002',
    message: expect.stringContaining('21 bytes, the limit is 20'),
  });
  await db.hf.configureQueue('inbox', { maxPayloadBytes: 1_048_576 });
});

test('every queue has a function of its own', async () => {
  await db.hf.createQueue('outbox');
  const { id } = await call(`'x', '{}', idempotency_key => 'k'`, 'outbox');
  expect(await db.hf.job(id, { queue: 'outbox' })).toMatchObject({ status: 'pending' });
  expect(await count()).toBe(0);
  expect((await call(`'x', '{}', idempotency_key => 'k'`)).deduplicated).toBe(false);
});
