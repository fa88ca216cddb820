/**
 * An idempotency key is one logical job: whoever races, whatever became of the job meanwhile, for the
 * whole retention window. The same key for other work is reported and writes nothing.
 */
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { claimAs, heldOf } from '../../../../test/support/claiming.js';
import { INBOX, testDatabase } from '../../../../test/support/database.js';
import { type Enqueued, job } from '../index.js';
import { complete } from '../settle/complete.js';
import { deadLetter } from '../settle/dead-letter.js';

const db = testDatabase();
const receipt = job<{ order: number }>('send_receipt');
const types = ['send_receipt'];
const PRODUCERS = 50;
let producers: pg.Client[] = [];

beforeAll(async () => {
  producers = Array.from({ length: PRODUCERS }, () => new pg.Client(db.url));
  await Promise.all(producers.map((client) => client.connect()));
});
afterAll(() => Promise.all(producers.map((client) => client.end())));
beforeEach(async () => {
  for (const table of ['inbox', 'inbox_archive', 'inbox_idempotency'])
    await db.rows(`DELETE FROM holdfast.${table}`);
});

/** On this connection, also when no transaction is open on it. */
const enqueue = (order: number, idempotencyKey: string, client?: pg.ClientBase) => {
  const tx = client && { query: (text: string, params?: unknown[]) => client.query(text, params) };
  return db.hf.enqueue(receipt, { order }, { idempotencyKey, ...(tx && { tx }) });
};
const jobs = async () => (await db.rows('SELECT id FROM holdfast.inbox')).map(({ id }) => id);
const expireKeys = () => db.rows(`UPDATE holdfast.inbox_idempotency SET expires_at = now()`);

/** All producers at once, each on a connection of its own, half of them in a transaction. */
function race(key: string): Promise<Enqueued[]> {
  return Promise.all(
    producers.map(async (client, index) => {
      if (index % 2 === 0) return enqueue(9182, key, client);
      await client.query('BEGIN');
      const enqueued = await enqueue(9182, key, client);
      await client.query('COMMIT');
      return enqueued;
    }),
  );
}

async function finish(how: 'complete' | 'dead_letter' | 'claim'): Promise<void> {
  const [row] = await claimAs(db.engine, 'w1', { types });
  const held = heldOf(row!);
  if (how === 'complete') await complete(db.engine, INBOX, 'w1', [held]);
  if (how === 'dead_letter')
    await deadLetter(db.engine, INBOX, 'w1', [{ ...held, error: 'x', summary: 'x' }]);
}

describe('50 racing producers', () => {
  test('make one job, and each of them gets its id', async () => {
    for (let round = 0; round < 5; round++) {
      const answers = await race(`order:${round}`);
      expect(new Set(answers.map(({ id }) => id)).size).toBe(1);
      expect(answers.filter(({ deduplicated }) => !deduplicated)).toHaveLength(1);
      expect(await jobs()).toContain(answers[0]?.id);
    }
    expect(await jobs()).toHaveLength(5);
  });

  test('make no new job when it has been completed and archived', async () => {
    const { id } = await enqueue(9182, 'order:9182');
    await finish('complete');
    const answers = await race('order:9182');
    expect(answers).toEqual(answers.map(() => ({ id, deduplicated: true })));
    expect(await jobs()).toEqual([]);
  });

  test('make one new job when the retention window is over', async () => {
    const { id } = await enqueue(9182, 'order:9182');
    await finish('complete');
    await expireKeys();
    const answers = await race('order:9182');
    expect(new Set(answers.map((answer) => answer.id)).size).toBe(1);
    expect(answers[0]?.id).not.toBe(id);
    expect(answers.filter(({ deduplicated }) => !deduplicated)).toHaveLength(1);
    expect(await jobs()).toEqual([answers[0]?.id]);
    const [key] = await db.rows(
      `SELECT expires_at > now() + interval '6 days' AS renewed FROM holdfast.inbox_idempotency`,
    );
    expect(key).toEqual({ renewed: true });
  });

  test('one of them takes the place of a producer that rolled back', async () => {
    const [first, ...rest] = producers as [pg.Client, ...pg.Client[]];
    await first.query('BEGIN');
    const lost = await enqueue(9182, 'order:9182', first);
    const waiting = Promise.all(rest.map((client) => enqueue(9182, 'order:9182', client)));
    await first.query('ROLLBACK');
    const answers = await waiting;
    expect(answers.filter(({ deduplicated }) => !deduplicated)).toHaveLength(1);
    expect(await jobs()).toEqual([answers[0]?.id]);
    expect(answers[0]?.id).not.toBe(lost.id);
  });
});

test.each(['pending', 'claim', 'dead_letter'] as const)(
  'a key outlives its retention while its job is in the queue (%s)',
  async (how) => {
    const { id } = await enqueue(9182, 'order:9182');
    if (how !== 'pending') await finish(how);
    await expireKeys();
    expect(await enqueue(9182, 'order:9182')).toEqual({ id, deduplicated: true });
    await expect(enqueue(1, 'order:9182')).rejects.toMatchObject({ code: 'IDEMPOTENCY_MISMATCH' });
    expect(await jobs()).toEqual([id]);
  },
);

test('the retention window is an option of the queue', async () => {
  await db.hf.configureQueue('inbox', { idempotencyRetention: '1h' });
  await enqueue(1, 'short');
  await db.hf.enqueueMany([receipt.item({ order: 2 }, { idempotencyKey: 'bulk' })]);
  await db.hf.configureQueue('inbox', { idempotencyRetention: '7d' });
  const rows = await db.rows(
    `SELECT key FROM holdfast.inbox_idempotency
     WHERE expires_at BETWEEN now() + interval '50 minutes' AND now() + interval '1 hour'`,
  );
  expect(rows).toHaveLength(2);
});

test('the order of the properties of a payload does not make it another payload', async () => {
  const loose = job<object>('loose');
  const { id } = await db.hf.enqueue(loose, { a: 1, b: [1.0] }, { idempotencyKey: 'k' });
  const again = await db.hf.enqueue(loose, { b: [1], a: 1 }, { idempotencyKey: 'k' });
  expect(again).toEqual({ id, deduplicated: true });
});

describe('the same key for other work', () => {
  const other = job<{ order: number }>('refund');

  test.each([
    ['another payload', () => enqueue(1, 'k')],
    ['another type', () => db.hf.enqueue(other, { order: 9182 }, { idempotencyKey: 'k' })],
  ])('%s is an error that names both, and nothing is written', async (_, attempt) => {
    const { id } = await enqueue(9182, 'k');
    await expect(attempt()).rejects.toMatchObject({
      code: 'IDEMPOTENCY_MISMATCH',
      message: expect.stringMatching(new RegExp(`"k".*${id}.*nothing was enqueued`)),
    });
    expect(await jobs()).toEqual([id]);
    await finish('complete');
    await expect(attempt()).rejects.toMatchObject({ code: 'IDEMPOTENCY_MISMATCH' });
    expect(await jobs()).toEqual([]);
  });

  const three = () => [
    receipt.item({ order: 1 }, { idempotencyKey: 'new' }),
    receipt.item({ order: 2 }, { idempotencyKey: 'k' }),
    receipt.item({ order: 3 }),
  ];

  test('one of three takes back the other two, in a transaction that can go on', async () => {
    const { id } = await enqueue(9182, 'k');
    const [client] = producers as [pg.Client];
    await client.query('BEGIN');
    const kept = await db.hf.enqueue(receipt, { order: 7 }, { tx: client });
    await expect(db.hf.enqueueMany(three(), { tx: client })).rejects.toMatchObject({
      code: 'IDEMPOTENCY_MISMATCH',
    });
    await client.query('COMMIT');
    expect((await jobs()).sort()).toEqual([id, kept.id].sort());
    expect((await enqueue(1, 'new')).deduplicated).toBe(false);
  });

  test('one of three takes back the other two, without a transaction of the caller', async () => {
    const { id } = await enqueue(9182, 'k');
    await expect(db.hf.enqueueMany(three())).rejects.toMatchObject({
      code: 'IDEMPOTENCY_MISMATCH',
    });
    expect(await jobs()).toEqual([id]);
    expect(await db.rows('SELECT key FROM holdfast.inbox_idempotency')).toEqual([{ key: 'k' }]);
  });

  test("onMismatch 'existing' returns the job that stands, says that it is other work, and writes the others", async () => {
    const { id } = await enqueue(9182, 'k');
    const single = await db.hf.enqueue(
      receipt,
      { order: 1 },
      { idempotencyKey: 'k', onMismatch: 'existing' },
    );
    expect(single).toEqual({ id, deduplicated: true, mismatch: true });
    const [first, second, third] = await db.hf.enqueueMany(three(), { onMismatch: 'existing' });
    expect(second).toEqual({ id, deduplicated: true, mismatch: true });
    expect([first?.deduplicated, third?.deduplicated]).toEqual([false, false]);
    expect((await jobs()).sort()).toEqual([id, first?.id, third?.id].sort());
    expect(await db.hf.job(id)).toMatchObject({ payload: { order: 9182 } });
  });
});

describe('in bulk', () => {
  test('a key that comes twice is one job', async () => {
    const item = receipt.item({ order: 1 }, { idempotencyKey: 'twice' });
    const [first, plain, again] = await db.hf.enqueueMany([item, receipt.item({ order: 2 }), item]);
    expect(first?.deduplicated).toBe(false);
    expect(again).toEqual({ id: first?.id, deduplicated: true });
    expect(await jobs()).toEqual([first?.id, plain?.id]);
  });

  test('a key that comes twice for different work is an error, and nothing is written', async () => {
    const items = [1, 2].map((order) => receipt.item({ order }, { idempotencyKey: 'twice' }));
    await expect(db.hf.enqueueMany(items)).rejects.toMatchObject({ code: 'IDEMPOTENCY_MISMATCH' });
    expect(await jobs()).toEqual([]);
    expect(await db.rows('SELECT key FROM holdfast.inbox_idempotency')).toEqual([]);
  });

  test('two calls over the same 200 keys in opposite order do not deadlock', async () => {
    for (let round = 0; round < 10; round++) {
      const items = Array.from({ length: 200 }, (_, order) =>
        receipt.item({ order }, { idempotencyKey: `${round}:${order}` }),
      );
      const [there, back] = await Promise.all([
        db.hf.enqueueMany(items),
        db.hf.enqueueMany([...items].reverse()),
      ]);
      expect(back?.map(({ id }) => id).reverse()).toEqual(there?.map(({ id }) => id));
      const fresh = [...there!, ...back!].filter(({ deduplicated }) => !deduplicated);
      expect(fresh).toHaveLength(200);
    }
    expect(await jobs()).toHaveLength(2_000);
  });

  test('10,000 keys that all stand already are found in one call', async () => {
    const items = Array.from({ length: 10_000 }, (_, order) =>
      receipt.item({ order }, { idempotencyKey: `many:${order}` }),
    );
    const first = await db.hf.enqueueMany(items);
    const again = await db.hf.enqueueMany(items);
    expect(again).toEqual(first.map(({ id }) => ({ id, deduplicated: true })));
    expect(await jobs()).toHaveLength(10_000);
  });
});
