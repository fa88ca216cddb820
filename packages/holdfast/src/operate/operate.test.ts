/** Ids, queues and options of the verbs are checked before anything is asked of the database. */
import { beforeEach, describe, expect, test } from 'vitest';
import { INBOX, testDatabase } from '../../../../test/support/database.js';
import { HoldfastError, job } from '../index.js';
import { load } from '../postgres/statement.js';
import { cancelJobs } from './cancel.js';
import { discardDeadLetters, retryDeadLetters } from './dead-letters.js';

const db = testDatabase();
const work = job<object>('work');

/** Two dead letters. */
async function letters(): Promise<string[]> {
  const enqueued = await db.hf.enqueueMany([work.item({}), work.item({})]);
  await db.rows(`UPDATE holdfast.inbox SET status = 'dead_letter', available_at = 'infinity'`);
  return enqueued.map(({ id }) => id);
}

const left = async () =>
  (await db.rows<{ id: string }>('SELECT id FROM holdfast.inbox ORDER BY id')).map(({ id }) => id);

async function refusal(attempt: Promise<unknown>): Promise<HoldfastError> {
  const error = await attempt.catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(HoldfastError);
  return error as HoldfastError;
}

beforeEach(() => db.rows('TRUNCATE holdfast.inbox'));

const VERBS = ['retry', 'discard', 'cancel'] as const;

describe.each(VERBS)('%s', (verb) => {
  const call = (ids: unknown, options?: unknown) =>
    db.hf[verb](ids as string[], ...((options === undefined ? [] : [options]) as [object]));

  test('acts on no more jobs than it was given ids, also if one holds a comma', async () => {
    const ids = await letters();
    const error = await refusal(call([ids.join(',')]));
    expect(error.code).toBe('OPTION_INVALID');
    expect(error.message).toMatch(
      /^ids\[0\] is "[0-9a-f-]+,.*not the UUID of a job; nothing was done/,
    );
    expect(await left()).toEqual(ids);
  });

  test.each([
    ['an empty text', [''], /ids\[0\] is ""/],
    ['null', [null], /ids\[0\] is null/],
    ['undefined', [undefined], /ids\[0\] is undefined/],
    ['a hole', new Array(1), /ids\[0\] is undefined/],
    ['a word', ['nope'], /ids\[0\] is "nope"/],
    ['a number', [7], /ids\[0\] is 7/],
    ['the word NULL', ['NULL'], /ids\[0\] is "NULL"/],
  ])('refuses %s among the ids', async (_, ids, message) => {
    const error = await refusal(call(ids));
    expect(error).toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringMatching(message),
    });
  });

  test.each([[crypto.randomUUID()], [undefined], [null], [{}]])(
    'refuses %o in place of ids',
    async (ids) => {
      const error = await refusal(call(ids));
      expect(error.code).toBe('OPTION_INVALID');
      expect(error.message).toMatch(/not an array; nothing was done.*\[id\]/);
    },
  );

  test('tells of a queue that does not exist, and of a name that cannot be one', async () => {
    const ids = [crypto.randomUUID()];
    const unknown = await refusal(call(ids, { queue: 'nowhere' }));
    expect(unknown.code).toBe('QUEUE_UNKNOWN');
    expect(unknown.message).toContain('no queue "nowhere" in schema "holdfast"; nothing was done');
    for (const queue of ['', 'a.b', 'Inbox', null, 5]) {
      expect((await refusal(call(ids, { queue }))).code).toBe('NAME_INVALID');
    }
  });

  test.each(['inbox', null, 5])('refuses %o in place of options', async (options) => {
    const error = await refusal(call([], options));
    expect(error).toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringContaining(`Write ${verb}(ids, { queue }).`),
    });
  });

  test('takes ids in capitals, and none at all', async () => {
    const ids = await letters();
    if (verb === 'cancel') await db.hf.retry(ids);
    expect(await call(ids.map((id) => id.toUpperCase()))).toHaveLength(2);
    expect(await call([])).toEqual([]);
  });
});

test('many ids are read once, and no row is compared with all, in a table that was never analysed', async () => {
  const rows = await db.rows<{ id: string }>(
    `INSERT INTO holdfast.inbox (type, partition_key, partition_bucket, payload, status, available_at, parked)
     SELECT 'work', n::text, n % 1024, '{}', 'dead_letter', 'infinity', false
     FROM generate_series(1, 3000) AS n RETURNING id`,
  );
  const ids = rows.slice(0, 1_000).map(({ id }) => id);
  for (const [verb, ...more] of [
    [retryDeadLetters],
    [discardDeadLetters],
    [cancelJobs, '', null],
  ] as const) {
    const plan = JSON.stringify(
      await db.rows(`EXPLAIN (FORMAT JSON) ${load(verb, INBOX).text}`, [`{${ids}}`, ...more]),
    );
    expect(plan).toContain('InitPlan');
    // As a literal of a condition they are parsed again for each row.
    expect(plan).not.toContain(ids[0]);
    expect(plan).not.toContain('Join Filter');
  }
});

test('cancel keeps the reason, which must be a text, and acts in the queue that is named', async () => {
  await db.hf.createQueue('outbox');
  const { id } = await db.hf.enqueue(job<object>('send', { queue: 'outbox' }), {});
  const wrong = await refusal(db.hf.cancel([id], { queue: 'outbox', reason: 5 as never }));
  expect(wrong).toMatchObject({
    code: 'OPTION_INVALID',
    message: expect.stringContaining('reason is 5'),
  });
  expect(await db.hf.cancel([id], { queue: 'outbox', reason: 'paid' })).toEqual([id]);
  expect(await db.hf.job(id, { queue: 'outbox' })).toMatchObject({
    status: 'cancelled',
    lastError: 'paid',
  });
});

test('job refuses what is no id, and tells of a queue that does not exist', async () => {
  for (const id of ['nope', '', null, undefined, 7]) {
    expect(await refusal(db.hf.job(id as string))).toMatchObject({ code: 'OPTION_INVALID' });
  }
  const unknown = await refusal(db.hf.job(crypto.randomUUID(), { queue: 'nowhere' }));
  expect(unknown.code).toBe('QUEUE_UNKNOWN');
});

test('pause and resume tell of a queue that does not exist', async () => {
  for (const verb of ['pause', 'resume'] as const) {
    const error = await refusal(db.hf[verb]('nowhere'));
    expect(error).toMatchObject({
      code: 'QUEUE_UNKNOWN',
      message: expect.stringContaining('nothing was set'),
    });
  }
});
