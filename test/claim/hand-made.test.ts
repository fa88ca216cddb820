/**
 * The classic statements of a hand-made inbox, as they are found in many code bases, on the queue table:
 * those that run do what they say, beside workers of ours, and those that cannot are refused.
 */
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { bucketOf, job } from '../../packages/holdfast/src/index.js';
import { complete } from '../../packages/holdfast/src/settle/complete.js';
import { claimAs, heldOf } from '../support/claiming.js';
import { INBOX, testDatabase } from '../support/database.js';
import { testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
let session: pg.Client;

beforeAll(async () => {
  session = new pg.Client({ connectionString: db.url, options: '-c search_path=holdfast,public' });
  await session.connect();
});
afterAll(() => session.end());
beforeEach(() =>
  db.rows('TRUNCATE holdfast.inbox, holdfast.inbox_idempotency, holdfast.inbox_claims'),
);

const ENQUEUE = `
INSERT INTO inbox (partition_key, partition_bucket, payload, idempotency_key)
VALUES (
  'order:9182',
  417,
  '{"type":"send_receipt","order_id":9182}'::jsonb,
  'receipt-9182-v1'
)`;

const CLAIM = `
WITH picked AS (
  SELECT id FROM inbox
  WHERE status = 'pending' AND available_at <= now()
  ORDER BY created_at, id
  LIMIT 25
  FOR UPDATE SKIP LOCKED
)
UPDATE inbox i
SET status = 'processing',
    claimed_by = $1,
    lease_expires_at = now() + interval '90 seconds',
    lease_generation = lease_generation + 1,
    attempts = attempts + 1
FROM picked WHERE i.id = picked.id
RETURNING i.*`;

const CLAIM_OWNED = `
WITH candidates AS (
  SELECT i.id
  FROM inbox i
  WHERE i.status = 'pending'
    AND i.available_at <= now()
    AND i.partition_bucket = ANY($1::int[])
  ORDER BY i.created_at, i.id
  LIMIT 25
  FOR UPDATE SKIP LOCKED
)
UPDATE inbox i
SET
  status           = 'processing',
  claimed_by       = $2,
  claimed_at       = now(),
  lease_expires_at = now() + interval '90 seconds',
  lease_generation = i.lease_generation + 1,
  attempts         = i.attempts + 1
FROM candidates c
WHERE i.id = c.id
RETURNING i.*`;

const RENEW = `
UPDATE inbox
SET lease_expires_at = now() + interval '90 seconds'
WHERE id = $1
AND claimed_by = $2
AND status = 'processing'
AND lease_expires_at > now()`;

const RETRY = `
UPDATE inbox
SET
  status = 'pending',
  claimed_by = NULL,
  lease_expires_at = NULL,
  available_at = now() + (LEAST(POWER(2, attempts)::int, 3600) * interval '1 second')
WHERE id = $1
  AND claimed_by = $2
  AND lease_generation = $3
  AND status = 'processing'`;

const CLEAN_UP = `
UPDATE inbox
SET
  status = 'pending',
  claimed_by = NULL,
  lease_expires_at = NULL,
  available_at = now()
WHERE status = 'processing'
  AND lease_expires_at < now()
  AND attempts < max_attempts`;

const CLEAN_UP_LATER = `
UPDATE inbox
SET
  status           = 'pending',
  claimed_by       = NULL,
  claimed_at       = NULL,
  lease_expires_at = NULL,
  available_at     = now() + (LEAST(POWER(2, attempts)::int, 3600) * interval '1 second')
WHERE status = 'processing'
  AND lease_expires_at < now()
  AND attempts < max_attempts`;

const COMPLETE = `
UPDATE inbox
SET status = 'completed'
WHERE id = $1
  AND claimed_by = $2
  AND lease_generation = $3
  AND lease_expires_at > now()
  AND status = 'processing'`;

const DEAD_LETTER = `
UPDATE inbox
SET status = 'dead_letter'
WHERE status = 'processing'
  AND lease_expires_at < now()
  AND attempts >= max_attempts`;

const EXPIRE = `UPDATE holdfast.inbox SET lease_expires_at = now() - interval '1 second'`;

const rows = (text = 'SELECT * FROM holdfast.inbox ORDER BY position') => db.rows(text);

async function refused(text: string, code: string): Promise<Error> {
  const error = await session.query(text).catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ code });
  return error as Error;
}

describe('a plain INSERT', () => {
  test('without a type takes it from the payload, and the bucket is that of the key', async () => {
    expect((await session.query(ENQUEUE)).rowCount).toBe(1);
    expect(await rows()).toMatchObject([
      {
        type: 'send_receipt',
        partition_key: 'order:9182',
        partition_bucket: bucketOf('order:9182'),
        idempotency_key: 'receipt-9182-v1',
        ...{ status: 'pending', parked: false, version: 1, priority: 2, max_attempts: 5 },
      },
    ]);
    expect(bucketOf('order:9182')).not.toBe(417);
  });

  test.each([
    ['as it is', ENQUEUE],
    ['with ON CONFLICT DO NOTHING', `${ENQUEUE} ON CONFLICT DO NOTHING`],
  ])('with a known idempotency key writes nothing, %s', async (_, text) => {
    await session.query(ENQUEUE);
    const again = await session.query(`${text} RETURNING id`);
    expect([again.rowCount, again.rows]).toEqual([0, []]);
    expect(await rows()).toHaveLength(1);
  });

  test('shares its keys with every other way to enqueue, also after the job has gone', async () => {
    const receipt = job<object>('send_receipt');
    const payload = { order_id: 9182, type: 'send_receipt' };
    await session.query(ENQUEUE);
    const [first] = await rows();
    const options = { idempotencyKey: 'receipt-9182-v1' };
    const known = { id: first?.id, deduplicated: true };
    expect(await db.hf.enqueue(receipt, payload, options)).toEqual(known);
    const [held] = await claimAs(db.engine, 'w1', { types: ['send_receipt'] });
    await complete(db.engine, INBOX, 'w1', [heldOf(held!)]);
    expect((await session.query(ENQUEUE)).rowCount).toBe(0);
    expect(await db.hf.enqueue(receipt, payload, options)).toEqual(known);
    expect(await rows()).toEqual([]);
  });

  test('with other content under a known key is refused', async () => {
    await session.query(ENQUEUE);
    const error = await refused(ENQUEUE.replace('"order_id":9182', '"order_id":1'), 'HF003');
    expect(error.message).toMatch(/already stands for a job with another type or payload/);
    expect(await rows()).toHaveLength(1);
  });

  test('of many rows writes each key once', async () => {
    const { rowCount } = await session.query(
      `INSERT INTO inbox (type, payload, idempotency_key)
       SELECT 'work', '{}', 'key ' || n % 3 FROM generate_series(1, 9) AS n`,
    );
    expect(rowCount).toBe(3);
    const keys = (await rows()).map((row) => [row.partition_key, row.partition_bucket]);
    expect(keys).toEqual((await rows()).map(({ id }) => [id, bucketOf(String(id))]));
  });

  test('that names its id writes one job, also if it is sent again when that has ended', async () => {
    const insert = (orderId: number) =>
      session.query(
        `INSERT INTO inbox (id, type, payload, idempotency_key)
         VALUES ('01890000-0000-7000-8000-000000009182', 'work', $1, 'receipt-9182')`,
        [{ orderId }],
      );
    expect((await insert(9182)).rowCount).toBe(1);
    expect((await insert(9182)).rowCount).toBe(0);
    const held = (await claimAs(db.engine, 'w', { types: ['work'] })).map(heldOf);
    expect(await complete(db.engine, INBOX, 'w', held)).toHaveLength(1);
    expect((await insert(9182)).rowCount).toBe(0);
    await expect(insert(17)).rejects.toMatchObject({ code: 'HF003' });
    expect(await rows()).toEqual([]);
  });

  test('of many producers at once writes one job', async () => {
    const insert = () => db.rows(ENQUEUE.replace('INTO inbox', 'INTO holdfast.inbox'));
    await Promise.all(Array.from({ length: 10 }, insert));
    expect(await rows()).toHaveLength(1);
  });

  test.each([
    ['no type anywhere', `(payload) VALUES ('{}')`, /job type NULL is not valid/],
    ['a bad type', `(type, payload) VALUES ('9 lives', '{}')`, /job type '9 lives' is not valid/],
    ['no payload', `(type) VALUES ('work')`, /payload is NULL/],
    ['an empty key', `(type, payload, partition_key) VALUES ('work', '{}', '')`, /partition key/],
    [
      'an empty idempotency key',
      `(type, payload, idempotency_key) VALUES ('work', '{}', '')`,
      /idempotency key/,
    ],
    [
      'too long a limit key',
      `(type, payload, limit_key) VALUES ('work', '{}', repeat('x', 513))`,
      /limit key/,
    ],
    [
      'headers that are no texts',
      `(type, payload, headers) VALUES ('work', '{}', '[]')`,
      /headers/,
    ],
    [
      'too large a payload',
      `(type, payload) VALUES ('work', to_jsonb(repeat('x', 1048576)))`,
      /limit is 1048576/,
    ],
  ])('with %s is refused as by inbox_enqueue', async (_, values, message) => {
    const error = await refused(`INSERT INTO inbox ${values}`, 'HF002');
    expect(error.message).toMatch(message);
  });

  test('is run by a worker', async () => {
    await session.query(ENQUEUE);
    const seen: unknown[] = [];
    const { events } = start(db.hf, (worker) =>
      worker.handle(
        job<object>('send_receipt'),
        (ctx) => void seen.push(ctx.payload, ctx.partitionKey),
      ),
    );
    await expect
      .poll(() => events.map(({ kind }) => kind), { timeout: 30_000 })
      .toContain('completed');
    expect(seen).toEqual([{ type: 'send_receipt', order_id: 9182 }, 'order:9182']);
  });
});

describe.each([
  ['by time', CLAIM, (worker: string) => [worker]],
  ['by bucket', CLAIM_OWNED, (worker: string) => [[bucketOf('order:9182')], worker]],
])('a claim by hand, %s', (_, text, params) => {
  const claim = async (worker = 'hand-1') => (await session.query(text, params(worker))).rows;

  test('takes jobs, and no worker of ours takes the same', async () => {
    await session.query(ENQUEUE);
    expect(await claim()).toMatchObject([
      { claimed_by: 'hand-1', lease_generation: '1', attempts: 1 },
    ]);
    expect(await claimAs(db.engine, 'w1', { types: ['send_receipt'] })).toEqual([]);
    expect(await claim('hand-2')).toEqual([]);
  });

  test('is renewed, and retried later', async () => {
    await session.query(ENQUEUE);
    const [job] = await claim();
    await db.rows(`UPDATE holdfast.inbox SET lease_expires_at = now() + interval '1 second'`);
    expect((await session.query(RENEW, [job.id, 'hand-1'])).rowCount).toBe(1);
    expect((await session.query(RENEW, [job.id, 'hand-2'])).rowCount).toBe(0);
    expect((await session.query(RETRY, [job.id, 'hand-1', 0])).rowCount).toBe(0);
    expect((await session.query(RETRY, [job.id, 'hand-1', 1])).rowCount).toBe(1);
    expect(await rows()).toMatchObject([{ status: 'pending', claimed_by: null, attempts: 1 }]);
    await db.rows('UPDATE holdfast.inbox SET available_at = now()');
    expect(await claimAs(db.engine, 'w1', { types: ['send_receipt'] })).toMatchObject([
      { leaseGeneration: 2, attempts: 2 },
    ]);
  });

  test.each([
    ['at once', CLEAN_UP],
    ['later', CLEAN_UP_LATER],
  ])('whose lease expired is cleaned up, to run %s', async (__, cleanUp) => {
    await session.query(ENQUEUE);
    await claim();
    expect((await session.query(cleanUp)).rowCount).toBe(0);
    await db.rows(EXPIRE);
    expect((await session.query(cleanUp)).rowCount).toBe(1);
    expect(await rows()).toMatchObject([{ status: 'pending', claimed_by: null, attempts: 1 }]);
  });

  test('whose lease expired is taken over by a worker of ours', async () => {
    await session.query(ENQUEUE);
    await claim();
    await db.rows(EXPIRE);
    expect(await claimAs(db.engine, 'w1', { types: ['send_receipt'] })).toMatchObject([
      { leaseGeneration: 2, attempts: 1, crashes: 1 },
    ]);
  });

  test('cannot complete, nor leave a dead letter where claims read', async () => {
    await session.query(ENQUEUE);
    const [job] = await claim();
    const done = session.query(COMPLETE, [job.id, 'hand-1', job.lease_generation]);
    await expect(done).rejects.toMatchObject({ code: '23514', constraint: 'inbox_state_check' });
    await db.rows(EXPIRE);
    await db.rows('UPDATE holdfast.inbox SET attempts = max_attempts');
    await expect(session.query(DEAD_LETTER)).rejects.toMatchObject({ code: '23514' });
    expect(await rows()).toMatchObject([{ status: 'processing' }]);
  });
});

test('a job of a worker of ours that was retried or cleaned up by hand is lost to it', async () => {
  await session.query(ENQUEUE);
  const [held] = await claimAs(db.engine, 'w1', { types: ['send_receipt'] });
  expect((await session.query(RETRY, [held!.id, 'w1', 1])).rowCount).toBe(1);
  expect(await complete(db.engine, INBOX, 'w1', [heldOf(held!)])).toEqual([]);
  expect(await rows()).toMatchObject([{ status: 'pending' }]);
});
