/** Who may ask for order, and how: a queue, and nobody else. */
import { beforeEach, describe, expect, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import type { ReadPolicyOptions } from '../../packages/holdfast/src/job/turns.js';
import { retry } from '../../packages/holdfast/src/operate/dead-letters.js';
import { configure } from '../../packages/holdfast/src/operate/queue.js';
import { withClient } from '../../packages/holdfast/src/postgres/connect/pool.js';
import { createQueue } from '../../packages/holdfast/src/schema/queue.js';
import { deadLetter } from '../../packages/holdfast/src/settle/dead-letter.js';
import { claimByTime, heldOf, numbers } from '../support/claiming.js';
import { INBOX, testDatabase } from '../support/database.js';
import { claimInOrder } from '../support/ordered.js';

const db = testDatabase();
const LEDGER = { schema: 'holdfast', queue: 'ledger' };
const WHY = { error: 'no', summary: 'no' };

beforeEach(async () => {
  await db.rows('TRUNCATE holdfast.inbox');
  await configure(db.plain, INBOX, { ordering: 'none' });
});

const makeQueue = (queue: string, options: ReadPolicyOptions) =>
  withClient(db.pool, (client) => createQueue(client, 'holdfast', queue, options));
const orderingOf = async (queue: string) =>
  (await db.rows('SELECT ordering::text FROM holdfast.queues WHERE name = $1', [queue]))[0]
    ?.ordering;
const indexOf = async (queue: string) =>
  (
    await db.rows<{ columns: string }>(
      `SELECT pg_get_indexdef(coalesce(to_regclass('holdfast.${queue}_claim_idx'),
        to_regclass('holdfast.${queue}_line_idx'))) AS columns`,
    )
  )[0]?.columns;

/** One job in each of the ways in which a producer can write, numbered in their order. */
async function enqueueInEveryWay(queue: string): Promise<void> {
  const step = job<object>('step', { queue });
  await db.hf.enqueue(step, { n: 1 }, { partitionKey: 'a' });
  await db.hf.enqueue(
    step,
    { n: 2 },
    { partitionKey: 'a', idempotencyKey: `${queue} ${Math.random()}` },
  );
  await db.rows(`SELECT holdfast.${queue}_enqueue('step', '{"n": 3}', partition_key => 'a')`);
  await db.rows(
    `INSERT INTO holdfast.${queue} (type, partition_key, partition_bucket, payload)
     VALUES ('step', 'a', holdfast.bucket_of('a'), '{"n": 4}')`,
  );
}

describe('a definition', () => {
  test.each([
    { ordering: 'key' },
    { ordering: 'none' },
    { deadLetters: 'hold' },
    { ordering: 'key', deadLetters: 'free' },
  ])('with %o is refused, and told where order belongs', (options) => {
    expect(() => job('step', options as object)).toThrow(
      expect.objectContaining({
        code: 'OPTION_INVALID',
        message: expect.stringMatching(/property of a queue: createQueue\('orders'/),
      }),
    );
  });
});

describe('a queue', () => {
  test('that is made without order is read by time', async () => {
    await makeQueue('plain', {});
    expect(await orderingOf('plain')).toBe('none');
    expect(await indexOf('plain')).toMatch(
      /hashtextextended.*, priority, available_at, "position"\)/,
    );
    await enqueueInEveryWay('plain');
    const names = { schema: 'holdfast', queue: 'plain' };
    expect(numbers(await claimByTime(db.engine, 'w', { names, limit: 2 }))).toEqual([1, 2]);
    expect(numbers(await claimByTime(db.engine, 'w', { names, limit: 2 }))).toEqual([3, 4]);
  });

  test('that is made with order keeps it for every job, whichever way it comes', async () => {
    expect(await makeQueue('ledger', { ordering: 'key' })).toBe(true);
    expect(await makeQueue('ledger', { ordering: 'none' })).toBe(false);
    expect(await orderingOf('ledger')).toBe('key');
    expect(await indexOf('ledger')).toMatch(/\(partition_bucket, partition_key/);
    await enqueueInEveryWay('ledger');
    for (const n of [1, 2]) {
      const { jobs } = await claimInOrder(db.engine, 'w', { names: LEDGER, run: 1 });
      expect(numbers({ jobs })).toEqual([n]);
      expect((await claimInOrder(db.engine, 'other', { names: LEDGER })).jobs).toEqual([]);
      await deadLetter(db.engine, LEDGER, 'w', [{ ...heldOf(jobs[0]!), ...WHY }]);
      if (n === 1) await retry(db.plain, LEDGER, [jobs[0]!.id]);
    }
    // The first was retried by a human, behind all that had come meanwhile; the second is a dead letter.
    expect(numbers(await claimInOrder(db.engine, 'w', { names: LEDGER }))).toEqual([3, 4, 1]);
  });

  test.each([
    [{ ordering: 'parked' }, /ordering must be 'none' or 'key'/],
    [{ ordering: 'key', deadLetters: 'keep' }, /deadLetters must be 'free' or 'hold'/],
    [{ deadLetters: 'hold' }, /needs ordering: 'key'/],
    [{ ordering: 'none', deadLetters: 'hold' }, /needs ordering: 'key'/],
  ])('%o is refused', async (options, message) => {
    const refusal = { code: 'OPTION_INVALID', message: expect.stringMatching(message) };
    await expect(makeQueue('never', options as object)).rejects.toMatchObject(refusal);
    await expect(configure(db.plain, INBOX, options as object)).rejects.toMatchObject(refusal);
    expect(await db.rows(`SELECT to_regclass('holdfast.never') AS made`)).toEqual([{ made: null }]);
  });
});

describe('the order of a queue', () => {
  test('can be changed while it is empty, and jobs are found after it', async () => {
    const step = job<{ n: number }>('step');
    for (const [options, ordering] of [
      [{ ordering: 'key' }, 'key'],
      [{ ordering: 'key', deadLetters: 'hold' }, 'key_strict'],
      [{ ordering: 'none' }, 'none'],
    ] as const) {
      await db.hf.configureQueue('inbox', options);
      expect(await orderingOf('inbox')).toBe(ordering);
      await db.hf.enqueue(step, { n: 1 });
      const byTime = await claimByTime(db.engine, 'w');
      const byKey = await claimInOrder(db.engine, 'w');
      expect([byTime.jobs.length, byKey.jobs.length]).toEqual(
        ordering === 'none' ? [1, 0] : [0, 1],
      );
      await db.rows('DELETE FROM holdfast.inbox');
    }
    // What is left out stays.
    await db.hf.configureQueue('inbox', { ordering: 'key' });
    await db.hf.configureQueue('inbox', { maxPayloadBytes: 1_000_000 });
    expect(await orderingOf('inbox')).toBe('key');
  });

  test.each(['pending', 'dead_letter'])(
    'is not changed while it holds a %s job',
    async (status) => {
      const step = job<{ n: number }>('step');
      const { id } = await db.hf.enqueue(step, { n: 1 });
      if (status === 'dead_letter') {
        const { jobs } = await claimByTime(db.engine, 'w');
        await deadLetter(db.engine, INBOX, 'w', [{ ...heldOf(jobs[0]!), ...WHY }]);
      }
      const before = await indexOf('inbox');
      await expect(
        db.hf.configureQueue('inbox', { ordering: 'key', maxPayloadBytes: 77 }),
      ).rejects.toMatchObject({
        code: 'HF005',
        message: expect.stringMatching(/'inbox' holds jobs: its order was not changed/),
      });
      expect(await orderingOf('inbox')).toBe('none');
      expect(await indexOf('inbox')).toBe(before);
      expect(await db.hf.job(id)).toMatchObject({ status });
      // Nor anything else that was asked for with it.
      const sizes = await db.rows(
        "SELECT max_payload_bytes AS n FROM holdfast.queues WHERE name = 'inbox'",
      );
      expect(sizes).not.toEqual([{ n: 77 }]);
      // To ask for what it is already is no change.
      await db.hf.configureQueue('inbox', { ordering: 'none' });
    },
  );

  test('is not changed under a producer that has not committed yet', async () => {
    const producer = await db.pool.connect();
    await producer.query('BEGIN');
    await db.hf.enqueue(job<object>('step'), {}, { tx: producer });
    const change = configure(db.plain, INBOX, { ordering: 'key' });
    await expect(change).rejects.toMatchObject({ code: '55P03' });
    await producer.query('COMMIT');
    producer.release();
    expect(await orderingOf('inbox')).toBe('none');
    expect((await claimByTime(db.engine, 'w')).jobs).toHaveLength(1);
  });

  test('is told to every worker: the epoch of the fleet rises', async () => {
    const epoch = async () =>
      (await db.rows<{ epoch: string }>('SELECT epoch FROM holdfast.fleet'))[0]?.epoch;
    const before = Number(await epoch());
    await db.hf.configureQueue('inbox', { ordering: 'key' });
    expect(Number(await epoch())).toBe(before + 1);
    await db.hf.configureQueue('inbox', { maxPayloadBytes: 1_000_000 });
    expect(Number(await epoch())).toBe(before + 1);
  });

  test('changes nothing about whether inserts wake workers', async () => {
    const enabled = async () =>
      (
        await db.rows<{ on: string }>(
          `SELECT tgenabled AS on FROM pg_trigger
           WHERE tgrelid = 'holdfast.inbox'::regclass AND tgname = 'wake'`,
        )
      )[0]?.on;
    await db.hf.configureQueue('inbox', { notify: false });
    expect(await enabled()).toBe('D');
    await db.hf.configureQueue('inbox', { ordering: 'key' });
    expect(await enabled()).toBe('D');
    await db.hf.configureQueue('inbox', { notify: true });
  });
});

test('the SQL function has no argument for order', async () => {
  await expect(
    db.rows(`SELECT holdfast.inbox_enqueue('step', '{}', ordering => 'key')`),
  ).rejects.toMatchObject({ code: '42883' });
});
