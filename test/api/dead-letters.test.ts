/** Dead letters for programs: listed, grouped by what they have in common, retried and discarded by a filter. */
import { beforeEach, expect, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { foldError, foldedError } from '../../packages/holdfast/src/inspect/job/failures.js';
import { deadLetter } from '../../packages/holdfast/src/settle/dead-letter.js';
import { claimAs, heldOf } from '../support/claiming.js';
import { INBOX, testDatabase } from '../support/database.js';

const db = testDatabase();

beforeEach(() => db.rows('TRUNCATE holdfast.inbox, holdfast.inbox_archive, holdfast.inbox_claims'));

/** Dead letters of a type with these errors, in this order. */
async function letters(type: string, errors: readonly string[], key = 'k'): Promise<string[]> {
  const ids: string[] = [];
  for (const error of errors) {
    await db.hf.enqueue(job(type), {}, { partitionKey: key });
    const held = heldOf((await claimAs(db.engine, 'w1', { types: [type] }))[0]!);
    await deadLetter(db.engine, INBOX, 'w1', [{ ...held, error, summary: error }]);
    ids.push(held.id);
  }
  return ids;
}

const statuses = async (ids: readonly string[]) =>
  Promise.all(ids.map(async (id) => (await db.hf.job(id))?.status));

test('groups put together what differs in numbers, ids and the rest of the stack', async () => {
  const orders = await letters('receipt', [
    'Error: no order 9182\n    at send (mail.ts:7:3)',
    'Error: no order 9183\n    at send (mail.ts:9:3)',
    'Error: no order 0199a1c2-7d3e-7000-8000-000000009182',
  ]);
  const [paper] = await letters('receipt', ['Error: no paper']);
  await letters('invoice', ['Error: no order 7']);
  await db.hf.enqueue(job('receipt'), {});
  expect(await db.hf.deadLetters.groups()).toEqual([
    {
      ...{ type: 'receipt', error: 'Error: no order #', jobs: 3, groups: 3 },
      ...{
        first: orders[0],
        example: orders[2],
        key: 'k',
        keys: 1,
        oldest: expect.any(Date),
        newest: expect.any(Date),
      },
    },
    expect.objectContaining({ type: 'invoice', error: 'Error: no order #', jobs: 1 }),
    expect.objectContaining({ type: 'receipt', error: 'Error: no paper', example: paper }),
  ]);
  expect(await db.hf.deadLetters.groups({ filter: { type: 'invoice' } })).toHaveLength(1);
});

test('groups by key have one key each; without it they say how many', async () => {
  await letters('receipt', ['Error: no paper', 'Error: no paper'], 'order:1');
  const [other] = await letters('receipt', ['Error: no paper'], 'order:2');
  const error = 'Error: no paper';
  const all = { error, key: 'order:1', keys: 2, jobs: 3, example: other };
  expect(await db.hf.deadLetters.groups()).toMatchObject([all]);
  expect(await db.hf.deadLetters.groups({ byKey: true })).toMatchObject([
    { error, key: 'order:1', keys: 1, jobs: 2 },
    { error, key: 'order:2', keys: 1, jobs: 1, example: other },
  ]);
});

test('an error that was read is folded as the database folds it', async () => {
  const errors = [
    ...['', 'no order 9182', 'at 0199A1C2-7d3e-7000-8000-0000000091823', 'a1b2c3d4-12'],
    ...['x1\ny2', `${'é😀7'.repeat(150)}`, '12345678-1234-1234-1234-12345678901', '٣ 3'],
  ];
  const folded = await db.rows<{ error: string }>(
    `SELECT ${foldedError('e')} AS error FROM unnest($1::text[]) WITH ORDINALITY AS e(last_error, n) ORDER BY n`,
    [errors],
  );
  expect(errors.map(foldError)).toEqual(folded.map(({ error }) => error));
});

test('a list has dead letters only', async () => {
  const [id] = await letters('receipt', ['Error: no paper']);
  await db.hf.enqueue(job('receipt'), {});
  const { jobs, next } = await db.hf.deadLetters.list();
  expect(jobs).toMatchObject([{ id, status: 'dead_letter', lastError: 'Error: no paper' }]);
  expect(next).toBeNull();
  expect((await db.hf.deadLetters.list({ filter: { error: 'PAPER' } })).jobs).toHaveLength(1);
  expect((await db.hf.deadLetters.list({ filter: { type: 'other' } })).jobs).toEqual([]);
});

test('a filter says which are retried, and the others stay', async () => {
  const paper = await letters('receipt', ['Error: no paper', 'Error: No Paper']);
  const [other] = await letters('receipt', ['Error: no ink']);
  const done = { found: 2, moved: 2, finished: true };
  expect(await db.hf.deadLetters.retry({ error: 'no paper' })).toEqual(done);
  expect(await statuses([...paper, other!])).toEqual(['pending', 'pending', 'dead_letter']);
  expect(await db.hf.job(paper[0]!)).toMatchObject({ attempts: 0 });
});

test('all are discarded where that is said', async () => {
  const ids = await letters('receipt', ['Error: no paper', 'Error: no ink']);
  const done = { found: 2, moved: 2, finished: true };
  expect(await db.hf.deadLetters.discard('all')).toEqual(done);
  expect(await statuses(ids)).toEqual(['discarded', 'discarded']);
});

test('an empty or misspelt filter, which would mean all, does nothing', async () => {
  const ids = await letters('receipt', ['Error: no paper']);
  for (const which of [
    ...[{}, { type: undefined }, { type: undefined, newer: '1h' }],
    ...[{ typ: 'receipt' }, 'every', undefined],
  ]) {
    for (const verb of ['retry', 'discard'] as const) {
      await expect(db.hf.deadLetters[verb](which as never)).rejects.toMatchObject({
        code: 'OPTION_INVALID',
        message: expect.stringMatching(/nothing was done/i),
      });
    }
  }
  expect(await statuses(ids)).toEqual(['dead_letter']);
});

test('a signal that is aborted lets no batch begin', async () => {
  const ids = await letters('receipt', ['Error: no paper']);
  const signal = AbortSignal.abort();
  expect(await db.hf.deadLetters.discard('all', { signal })).toEqual({
    ...{ found: 0, moved: 0, finished: false },
  });
  expect(await statuses(ids)).toEqual(['dead_letter']);
});

test('of a queue that is not there nothing is done', async () => {
  const nope = { queue: 'nope' };
  for (const call of [
    () => db.hf.deadLetters.list(nope),
    () => db.hf.deadLetters.groups(nope),
    () => db.hf.deadLetters.retry('all', nope),
  ])
    await expect(call()).rejects.toMatchObject({ code: 'QUEUE_UNKNOWN' });
});
