/**
 * A key of which somebody still holds a job is left alone, though the job before it is free again: also
 * when the walk of the claim ends between the two. And looking behind the last job moves nothing on.
 */
import { beforeAll, beforeEach, expect, test } from 'vitest';
import { rest } from '../../packages/holdfast/src/claim/key/stretches.js';
import { bucketOf, job } from '../../packages/holdfast/src/index.js';
import { numbers } from '../support/claiming.js';
import { testDatabase } from '../support/database.js';
import { ALL_KEYS, claimInOrder, inWalkOrder } from '../support/ordered.js';

const db = testDatabase();
const step = job<{ n: number }>('step');
const CHUNK = 32;

beforeAll(() => db.hf.configureQueue('inbox', { ordering: 'key' }));
beforeEach(() => db.rows('DELETE FROM holdfast.inbox'));

test.each([
  ['because it has read enough', { maxRows: 5, limit: 10 }],
  ['because it has what was asked for', { maxRows: 100, limit: 1 }],
  ['not at all', { maxRows: 1_000, limit: 500 }],
])('a walk that ends there %s', async (_, { maxRows, limit }) => {
  const [first, second] = inWalkOrder(['a', 'c']) as [string, string];
  const waiting = Array.from({ length: CHUNK - 1 }, (_, n) =>
    step.item({ n }, { partitionKey: first, delay: '1h' }),
  );
  await db.hf.enqueueMany(waiting);
  await db.hf.enqueueMany([
    step.item({ n: 1 }, { partitionKey: second }),
    step.item({ n: 2 }, { partitionKey: second }),
  ]);
  await db.rows(
    `UPDATE holdfast.inbox SET status = 'processing', claimed_by = 'somebody', claimed_at = now(),
       lease_expires_at = now() + interval '1 hour', lease_generation = 1, attempts = 1
     WHERE partition_key = $1 AND payload ->> 'n' = '2'`,
    [second],
  );
  expect(numbers(await claimInOrder(db.engine, 'w', { maxRows, limit, run: 1 }))).toEqual([]);
  await db.rows("DELETE FROM holdfast.inbox WHERE status = 'processing'");
  expect(numbers(await claimInOrder(db.engine, 'w', { maxRows, limit, run: 1 }))).toEqual([1]);
});

test('the next claim goes on with the key behind the last one', async () => {
  const keys = inWalkOrder(Array.from({ length: CHUNK + 20 }, (_, n) => `key ${n}`));
  await db.hf.enqueueMany(keys.map((key, n) => step.item({ n }, { partitionKey: key })));
  const { jobs, stop, wanted } = await claimInOrder(db.engine, 'w', { limit: CHUNK });
  expect(jobs.map(({ partitionKey }) => partitionKey)).toEqual(keys.slice(0, CHUNK));
  expect(stop).toEqual({ stretch: 0, bucket: bucketOf(keys[CHUNK - 1]!), key: keys[CHUNK - 1] });
  expect(wanted).toBe(CHUNK);
  const stretches = rest(ALL_KEYS, stop!);
  const others = await claimInOrder(db.engine, 'w', { stretches });
  expect(others.jobs.map(({ partitionKey }) => partitionKey)).toEqual(keys.slice(CHUNK));
  expect(others.stop).toBeNull();
});
