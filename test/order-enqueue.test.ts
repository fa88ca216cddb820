/** Who may ask for order, and how: a definition, a queue, the SQL function, a plain INSERT. */
import { beforeEach, describe, expect, test } from 'vitest';
import { job } from '../src/index.js';
import { retry } from '../src/operate/dead-letters.js';
import { configure } from '../src/operate/queue.js';
import { withClient } from '../src/postgres/pool.js';
import { createQueue, type NewQueueOptions } from '../src/schema/queue.js';
import { bury } from '../src/settle/bury.js';
import { heldOf } from './support/claiming.js';
import { INBOX, testDatabase } from './support/database.js';
import { claimInOrder, numbers } from './support/ordered.js';

const db = testDatabase();

beforeEach(async () => {
  await configure(db.plain, INBOX, { ordering: 'none' });
  await db.rows('DELETE FROM holdfast.inbox');
});

const makeQueue = (queue: string, options: NewQueueOptions) =>
  withClient(db.pool, (client) => createQueue(client, 'holdfast', queue, options));
const orderings = async (queue = 'inbox') =>
  (
    await db.rows<{ ordering: string }>(
      `SELECT ordering::text FROM holdfast.${queue} ORDER BY position`,
    )
  ).map((row) => row.ordering);

/** One job in each of the ways in which a producer can leave the decision to the queue. */
async function enqueueSilently(queue = 'inbox'): Promise<void> {
  const silent = job<object>('step', { queue });
  await db.hf.enqueue(silent, {}, { key: 'a' });
  await db.hf.enqueue(silent, {}, { key: 'a', idempotencyKey: `${queue} ${Math.random()}` });
  await db.rows(`SELECT holdfast.${queue}_enqueue('step', '{}', key => 'a')`);
  await db.rows(
    `INSERT INTO holdfast.${queue} (type, partition_key, partition_bucket, payload)
     VALUES ('step', 'a', holdfast.bucket_of('a'), '{}')`,
  );
}

describe('a definition', () => {
  test.each([
    [{}, 'none'],
    [{ ordering: 'none' }, 'none'],
    [{ ordering: 'key' }, 'key'],
    [{ ordering: 'key', deadLetters: 'free' }, 'key'],
    [{ ordering: 'key', deadLetters: 'hold' }, 'key_strict'],
  ] as const)('%o', async (options, ordering) => {
    const definition = job<object>('step', options);
    await db.hf.enqueue(definition, {});
    await db.hf.enqueue(definition, {}, { idempotencyKey: JSON.stringify(options) });
    expect(await orderings()).toEqual([ordering, ordering]);
  });

  test.each([
    [{ ordering: 'strict' }, /ordering must be 'none' or 'key'/],
    [{ ordering: 'key', deadLetters: 'keep' }, /deadLetters must be 'free' or 'hold'/],
    [{ deadLetters: 'hold' }, /needs ordering: 'key'/],
    [{ ordering: 'none', deadLetters: 'hold' }, /needs ordering: 'key'/],
  ])('%o is refused', (options, message) => {
    expect(() => job('step', options as object)).toThrow(
      expect.objectContaining({ code: 'OPTION_INVALID', message: expect.stringMatching(message) }),
    );
  });
});

describe('a queue', () => {
  test('says what jobs get whose producer is silent, whichever way they come', async () => {
    await enqueueSilently();
    await configure(db.plain, INBOX, { ordering: 'key' });
    await enqueueSilently();
    await configure(db.plain, INBOX, { ordering: 'key', deadLetters: 'hold' });
    await enqueueSilently();
    // What is left out stays, and jobs that are in the queue keep what they have.
    await configure(db.plain, INBOX, { maxPayloadBytes: 1_000_000 });
    await enqueueSilently();
    const four = (ordering: string) => Array.from({ length: 4 }, () => ordering);
    expect(await orderings()).toEqual(['none', 'key', 'key_strict', 'key_strict'].flatMap(four));
  });

  test('is overruled by a definition and by an argument', async () => {
    await configure(db.plain, INBOX, { ordering: 'key' });
    await db.hf.enqueue(job<object>('step', { ordering: 'none' }), {});
    await db.rows(`SELECT holdfast.inbox_enqueue('step', '{}', ordering => 'none')`);
    await db.rows(`SELECT holdfast.inbox_enqueue('step', '{}', ordering => 'key_strict')`);
    expect(await orderings()).toEqual(['none', 'none', 'key_strict']);
  });

  test('can be made with order and assignment, and another one is not touched by it', async () => {
    expect(await makeQueue('steps', { ordering: 'key', assignment: 'competing' })).toBe(true);
    await enqueueSilently('steps');
    await enqueueSilently();
    expect(await orderings('steps')).toEqual(['key', 'key', 'key', 'key']);
    expect(await orderings()).toEqual(['none', 'none', 'none', 'none']);
    const settings = await db.rows(
      `SELECT ordering::text, assignment FROM holdfast.queues WHERE name = 'steps'`,
    );
    expect(settings).toEqual([{ ordering: 'key', assignment: 'competing' }]);
    expect(await makeQueue('steps', { ordering: 'none' })).toBe(false);
    await enqueueSilently('steps');
    expect(new Set(await orderings('steps'))).toEqual(new Set(['key']));
  });

  test('of another name claims, parks and retries in order as well', async () => {
    await makeQueue('ledger', { ordering: 'key' });
    const names = { schema: 'holdfast', queue: 'ledger' };
    const entry = job<{ n: number }>('step', { queue: 'ledger' });
    for (const n of [1, 2]) await db.hf.enqueue(entry, { n }, { key: 'a' });
    const { jobs } = await claimInOrder(db.engine, 'w', { names, run: 1 });
    const why = { error: 'no', summary: 'no' };
    await bury(db.engine, names, 'w', [{ ...heldOf(jobs[0]!), ...why }]);
    await retry(
      db.plain,
      names,
      jobs.map((one) => one.id),
    );
    expect(numbers(await claimInOrder(db.engine, 'w', { names }))).toEqual([2, 1]);
  });

  test.each([
    [{ ordering: 'parked' }, /ordering must be/],
    [{ deadLetters: 'hold' }, /needs ordering: 'key'/],
    [{ assignment: 'lanes' }, /assignment must be 'ring' or 'competing'/],
  ])('%o is refused', async (options, message) => {
    const refusal = { code: 'OPTION_INVALID', message: expect.stringMatching(message) };
    await expect(makeQueue('never', options as object)).rejects.toMatchObject(refusal);
    await expect(configure(db.plain, INBOX, options as object)).rejects.toMatchObject(refusal);
    expect(await db.rows(`SELECT to_regclass('holdfast.never') AS made`)).toEqual([{ made: null }]);
  });

  test('that somebody keeps in use is not changed, and those behind do not wait for long', async () => {
    const user = await db.pool.connect();
    await user.query('BEGIN; LOCK TABLE holdfast.inbox IN ROW EXCLUSIVE MODE');
    const change = configure(db.plain, INBOX, { ordering: 'key' });
    await expect(change).rejects.toMatchObject({ code: '55P03' });
    await user.query('ROLLBACK');
    user.release();
    await enqueueSilently();
    expect(new Set(await orderings())).toEqual(new Set(['none']));
  });
});

test('the SQL function refuses an ordering that does not exist, and one that is not for producers', async () => {
  for (const ordering of ['strict', 'parked', '']) {
    await expect(
      db.rows(`SELECT holdfast.inbox_enqueue('step', '{}', ordering => $1)`, [ordering]),
    ).rejects.toMatchObject({
      code: 'HF002',
      message: expect.stringMatching(/nothing was enqueued/),
    });
  }
});
