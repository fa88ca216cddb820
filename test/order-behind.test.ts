/**
 * A key of which somebody still holds a job is left alone, though the job before it is free again: also
 * when the walk of the claim ends between the two. And looking behind the last job moves nothing on.
 */
import { beforeEach, expect, test } from 'vitest';
import { between, endOf, startOf } from '../src/claim/order-places.js';
import { bucketOf, job } from '../src/index.js';
import { BUCKETS } from '../src/job/key.js';
import { testDatabase } from './support/database.js';
import { claimInOrder, numbers } from './support/ordered.js';

const db = testDatabase();
const step = job<{ n: number }>('step', { ordering: 'key' });
const CHUNK = 32;

beforeEach(() => db.rows('DELETE FROM holdfast.inbox'));

const inWalkOrder = (keys: readonly string[]) =>
  [...keys].sort((a, b) => bucketOf(a) - bucketOf(b) || (a < b ? -1 : 1));

test.each([
  ['because it has read enough', { walk: 5, limit: 10 }],
  ['because it has what was asked for', { walk: 100, limit: 1 }],
  ['not at all', { walk: 1_000, limit: 500 }],
])('a walk that ends there %s', async (_, { walk, limit }) => {
  const [first, second] = inWalkOrder(['a', 'c']) as [string, string];
  const waiting = Array.from({ length: CHUNK - 1 }, (_, n) =>
    step.of({ n }, { key: first, delay: '1h' }),
  );
  await db.hf.enqueueMany(waiting);
  await db.hf.enqueueMany([step.of({ n: 1 }, { key: second }), step.of({ n: 2 }, { key: second })]);
  await db.rows(
    `UPDATE holdfast.inbox SET status = 'processing', claimed_by = 'somebody', claimed_at = now(),
       lease_expires_at = now() + interval '1 hour', lease_generation = 1, attempts = 1
     WHERE partition_key = $1 AND payload ->> 'n' = '2'`,
    [second],
  );
  expect(numbers(await claimInOrder(db.engine, 'w', { walk, limit, run: 1 }))).toEqual([]);
  await db.rows("DELETE FROM holdfast.inbox WHERE status = 'processing'");
  expect(numbers(await claimInOrder(db.engine, 'w', { walk, limit, run: 1 }))).toEqual([1]);
});

test.each([false, true])(
  'the next claim goes on with the key behind the last one (more: %s)',
  async (more) => {
    const keys = inWalkOrder(Array.from({ length: CHUNK + 20 }, (_, n) => `key ${n}`));
    await db.hf.enqueueMany(keys.map((key, n) => step.of({ n }, { key })));
    const { jobs, stop, wanted } = await claimInOrder(db.engine, 'w', { limit: CHUNK, more });
    expect(jobs.map(({ partitionKey }) => partitionKey)).toEqual(keys.slice(0, CHUNK));
    expect(stop).toEqual({ probe: 0, bucket: bucketOf(keys[CHUNK - 1]!), key: keys[CHUNK - 1] });
    expect(wanted).toBe(CHUNK);
    const probes = between(endOf(stop!.bucket, stop!.key), startOf(BUCKETS), [
      { from: 0, to: BUCKETS - 1 },
    ]);
    const rest = await claimInOrder(db.engine, 'w', { probes, more });
    expect(rest.jobs.map(({ partitionKey }) => partitionKey)).toEqual(keys.slice(CHUNK));
    expect(rest.stop).toBeNull();
  },
);
