/** A rate, statement by statement, in a queue that is read by time: never more starts than it allows, and all of those. */
import { beforeEach, describe, expect, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { prune, pruneRates } from '../../packages/holdfast/src/maintenance/prune.js';
import { complete } from '../../packages/holdfast/src/settle/complete.js';
import { fail } from '../../packages/holdfast/src/settle/fail.js';
import { claimSuspected, heldOf, numbers, type TimeOptions } from '../support/claiming.js';
import { INBOX, testDatabase } from '../support/database.js';
import { claimStep, limitStep, register } from '../support/limited.js';

const db = testDatabase();
const step = job<{ n: number }>('step');
const other = job<{ n: number }>('other');
const OTHERS = { versions: { other: 1 } };

beforeEach(async () => {
  for (const table of ['limits', 'permits', 'rates', 'inbox', 'inbox_claims', 'workers'])
    await db.rows(`DELETE FROM holdfast.${table}`);
  await register(db, ['w', 'v']);
});

const enqueue = (count: number, of = step, from = 0) =>
  db.hf.enqueueMany(Array.from({ length: count }, (_, n) => of.item({ n: from + n })));
const taken = async (options: TimeOptions = {}, by = 'w') =>
  numbers(await claimStep(db, by, options));
/** As if so much time had passed. */
const pass = (ms: number) =>
  db.rows(`UPDATE holdfast.rates SET started_tat = started_tat - $1 * interval '1 ms'`, [ms]);

describe('a rate', () => {
  /** One a minute. */
  const rate = { limit: 10, perMs: 600_000, burst: 2 };

  test('lets a burst start, and then one whenever there is a token', async () => {
    await limitStep(db, { rate });
    await enqueue(6);
    const claimed = await claimStep(db, 'w');
    expect(numbers(claimed)).toEqual([0, 1]);
    expect(claimed.refused.step).toBeGreaterThan(59_000);
    expect(claimed.refused.step).toBeLessThanOrEqual(60_000);
    expect(await taken({}, 'v')).toEqual([]);
    await pass(60_000);
    expect(await taken({}, 'v')).toEqual([2]);
    expect(await taken()).toEqual([]);
    await pass(120_000);
    expect(await taken()).toEqual([3, 4]);
  });

  test('saves up no more than its burst, however long nobody was there', async () => {
    await limitStep(db, { rate });
    await enqueue(20);
    expect(await taken()).toEqual([0, 1]);
    await pass(86_400_000);
    expect(await taken()).toEqual([2, 3]);
    expect(await taken()).toEqual([]);
  });

  test('writes nothing to a job that waits', async () => {
    await limitStep(db, { rate });
    await enqueue(50);
    const rows = () =>
      db.rows(`SELECT ctid::text, xmin::text, available_at FROM holdfast.inbox
      WHERE status = 'pending' ORDER BY position`);
    await taken();
    const before = await rows();
    for (let n = 0; n < 5; n++) expect(await taken()).toEqual([]);
    expect(await rows()).toEqual(before);
  });

  test('lets nobody overtake those that wait, but for more urgent ones', async () => {
    await limitStep(db, { rate: { ...rate, burst: 1 } });
    await enqueue(3);
    expect(await taken()).toEqual([0]);
    await enqueue(1, step, 10);
    await db.hf.enqueue(step, { n: 20 }, { priority: 1 });
    for (const next of [20, 1, 2, 10]) {
      await pass(60_000);
      expect(await taken()).toEqual([next]);
    }
  });

  test('is used in full where others have left: nobody waits for jobs that were cancelled or paused', async () => {
    await limitStep(db, { rate });
    const ids = (await enqueue(9)).map(({ id }) => id);
    expect(await taken()).toEqual([0, 1]);
    await db.hf.cancel(ids.slice(2, 5));
    // Its key is its id.
    await db.hf.pause('inbox', { key: ids[5] as string });
    await pass(60_000);
    expect(await taken()).toEqual([6]);
    await db.hf.resume('inbox', { key: ids[5] as string });
    await pass(60_000);
    expect(await taken()).toEqual([5]);
  });

  test('counts a retry as a start, and what starts again because its lease ran out', async () => {
    await limitStep(db, { rate });
    await enqueue(2);
    const { jobs } = await claimStep(db, 'w');
    const [first] = jobs.map(heldOf);
    await fail(db.engine, INBOX, 'w', [{ ...first!, delayMs: 0, error: 'no', summary: 'no' }]);
    await db.rows(`UPDATE holdfast.inbox SET lease_expires_at = now() - interval '1 second'
      WHERE status = 'processing'`);
    expect(await taken()).toEqual([]);
    await pass(60_000);
    expect(await taken()).toHaveLength(1);
  });

  test('is not paid for what did not start', async () => {
    await limitStep(db, { rate });
    await enqueue(1);
    expect(await taken()).toEqual([0]);
    expect(await taken()).toEqual([]);
    // Somebody has locked the next one.
    const [late] = await enqueue(1, step, 1);
    const client = await db.pool.connect();
    try {
      await client.query(`BEGIN; SELECT FROM holdfast.inbox WHERE id = '${late?.id}' FOR UPDATE`);
      const claimed = await claimStep(db, 'w');
      // Others of its type may start: it is not closed.
      expect([numbers(claimed), claimed.refused]).toEqual([[], {}]);
    } finally {
      await client.query('ROLLBACK');
      client.release();
    }
    expect(await taken()).toEqual([1]);
    await enqueue(1, step, 2);
    expect(await taken()).toEqual([]);
  });

  test('leaves a token to the next claim if there was no room for a job', async () => {
    await limitStep(db, { rate: { ...rate, burst: 5 } });
    await enqueue(8);
    expect((await claimStep(db, 'w', { limit: 2 })).refused).toEqual({});
    const next = await claimStep(db, 'w');
    expect(numbers(next)).toEqual([2, 3, 4]);
    expect(next.refused).toMatchObject({ step: expect.any(Number) });
  });

  test('and a concurrency hold together', async () => {
    await limitStep(db, { concurrency: 1, rate: { ...rate, burst: 3 } });
    await enqueue(5);
    const first = await claimStep(db, 'w');
    expect([numbers(first), first.refused]).toEqual([[0], { step: null }]);
    await complete(db.engine, INBOX, 'w', first.jobs.map(heldOf));
    for (const n of [1, 2]) {
      const { jobs } = await claimStep(db, 'w');
      expect(numbers({ jobs })).toEqual([n]);
      await complete(db.engine, INBOX, 'w', jobs.map(heldOf));
    }
    expect(await taken()).toEqual([]);
  });

  test('of a queue is for the types that have none of their own, which share it', async () => {
    await limitStep(db, { rate });
    await db.hf.configureQueue('inbox', { limit: { rate: { limit: 1, per: '10m', burst: 2 } } });
    await enqueue(4);
    await enqueue(3, other, 100);
    await enqueue(3, job('third'), 200);
    expect(await taken({ ...OTHERS, limit: 1 })).toEqual([100]);
    expect(await taken()).toEqual([0, 1]);
    expect(await taken({ versions: { third: 1 } })).toEqual([200]);
    expect(await taken(OTHERS)).toEqual([]);
    await pass(600_000);
    expect(await taken({ versions: { step: 1, other: 1, third: 1 } })).toEqual([2, 3, 101]);
    await db.hf.configureQueue('inbox', { limit: null });
  });

  test('holds for suspects', async () => {
    await limitStep(db, { rate });
    await enqueue(5);
    await db.rows('UPDATE holdfast.inbox SET crashes = 2');
    const { jobs, refused } = await claimSuspected(db.engine, 'w');
    expect(jobs).toHaveLength(2);
    expect(refused.step).toBeGreaterThan(0);
  });

  test('of one start a year, of which many have started at once, is a time that can be told', async () => {
    const year = 365 * 86_400_000;
    await limitStep(db, { rate: { limit: 1_000, perMs: year, burst: 1_000 } });
    await enqueue(1_000);
    expect(await taken()).toHaveLength(1_000);
    await enqueue(1);
    await limitStep(db, { rate: { limit: 1, perMs: year, burst: 1 } });
    const { refused } = await claimStep(db, 'w');
    expect(refused.step).toBeGreaterThan(year / 2);
    expect(refused.step).toBeLessThan(Number.MAX_SAFE_INTEGER);
  });

  test('is not exceeded by twenty that claim at once', async () => {
    await limitStep(db, { rate: { ...rate, burst: 7 } });
    await enqueue(200);
    const found: number[] = [];
    for (let round = 0; round < 5; round++) {
      const claims = Array.from({ length: 20 }, (_, n) => taken({ limit: 3 }, `w${n}`));
      for (const one of await Promise.all(claims)) found.push(...one);
      expect(found.length).toBeLessThanOrEqual(7);
    }
    found.push(...(await taken()));
    expect(found.toSorted()).toEqual([0, 1, 2, 3, 4, 5, 6]);
  });
});

describe('a changed rate', () => {
  const second = { limit: 1, perMs: 3_600_000, burst: 1 };

  test('counts at once, though all tokens were used, and moves no job', async () => {
    await limitStep(db, { rate: second });
    await enqueue(30);
    expect(await taken()).toEqual([0]);
    expect((await claimStep(db, 'w')).refused.step).toBeGreaterThan(3_500_000);
    // A hundred a second: the next token is due in ten milliseconds.
    await limitStep(db, { rate: { limit: 100, perMs: 1_000, burst: 1 } });
    const { refused, jobs } = await claimStep(db, 'w');
    if (jobs.length === 0) expect(refused.step).toBeLessThanOrEqual(10);
    await db.rows('SELECT pg_sleep(0.02)');
    expect(await taken()).toHaveLength(1);
  });

  test('that is lower counts at once too: what was used is used by the new pace', async () => {
    await limitStep(db, { rate: { limit: 1, perMs: 60_000, burst: 1 } });
    await enqueue(5);
    expect(await taken()).toEqual([0]);
    await limitStep(db, { rate: second });
    const { jobs, refused } = await claimStep(db, 'w');
    expect(jobs).toEqual([]);
    expect(refused.step).toBeGreaterThan(3_000_000);
    expect(refused.step).toBeLessThanOrEqual(3_600_000);
    // By the old pace there would be a token.
    await db.rows(`UPDATE holdfast.rates SET started_tat = started_tat - interval '50 s'`);
    expect(await taken()).toEqual([]);
  });

  test('in the middle of its time leaves the share that was waited for', async () => {
    await limitStep(db, { rate: { limit: 1, perMs: 600_000, burst: 1 } });
    await enqueue(5);
    expect(await taken()).toEqual([0]);
    await pass(300_000);
    await limitStep(db, { rate: { limit: 1, perMs: 60_000, burst: 1 } });
    const { refused } = await claimStep(db, 'w');
    expect(refused.step).toBeGreaterThan(29_000);
    expect(refused.step).toBeLessThanOrEqual(30_000);
    await limitStep(db, { rate: { limit: 1, perMs: 6_000_000, burst: 1 } });
    const again = (await claimStep(db, 'w')).refused.step as number;
    expect(again).toBeGreaterThan(2_900_000);
    expect(again).toBeLessThanOrEqual(3_000_000);
  });
});

describe('a rate with keys', () => {
  const keyed = job<{ n: number; tenant: string }>('step', {
    limit: { rate: { limit: 10, per: '10m', burst: 1, key: ({ tenant }) => tenant } },
  });
  const rate = { limit: 10, perMs: 600_000, burst: 1 };
  const tenants = (count: number, keys: number) =>
    db.hf.enqueueMany(
      Array.from({ length: count }, (_, n) => keyed.item({ n, tenant: `t${n % keys}` })),
    );

  test('holds for each key by itself', async () => {
    await limitStep(db, { rate }, true);
    await tenants(12, 3);
    const first = await claimStep(db, 'w');
    expect(numbers(first)).toEqual([0, 1, 2]);
    // Others of the type may start: it is not closed.
    expect(first.refused).toEqual({});
    expect(await taken()).toEqual([]);
    await pass(60_000);
    expect(await taken()).toEqual([3, 4, 5]);
    // One that comes later waits for nobody but its own key.
    await db.hf.enqueue(keyed, { n: 20, tenant: 'new' });
    expect(await taken()).toEqual([20]);
  });

  test('says when a key that was walked has a token', async () => {
    await limitStep(db, { rate }, true);
    await tenants(4, 2);
    await taken();
    await pass(20_000);
    const { walkMs } = await claimStep(db, 'w');
    expect(walkMs).toBeGreaterThan(39_000);
    expect(walkMs).toBeLessThanOrEqual(40_000);
  });

  test('passes over a key without tokens, however many of it are due', async () => {
    await limitStep(db, { rate }, true);
    await db.hf.enqueueMany(
      Array.from({ length: 1_200 }, (_, n) => keyed.item({ n, tenant: 'large' })),
    );
    expect(await taken()).toEqual([0]);
    await db.hf.enqueue(keyed, { n: 5_000, tenant: 'small' });
    expect(await taken({ limit: 10 })).toEqual([5_000]);
  });

  test('walks on from behind the last key', async () => {
    await limitStep(db, { rate }, true);
    await tenants(30, 30);
    const found: number[] = [];
    let afterKey = '';
    for (let claims = 0; claims < 3; claims++) {
      const walks = [{ type: 'step', version: 1, afterKey }];
      const claimed = await claimStep(db, 'w', { walks, keys: 10, limit: 20 });
      found.push(...numbers(claimed));
      afterKey = claimed.walked.step as string;
    }
    expect(found.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 30 }, (_, n) => n));
  });

  test('holds for what has no key as for one more', async () => {
    await limitStep(db, { rate }, true);
    await enqueue(3, step, 100);
    await tenants(4, 2);
    expect(await taken()).toEqual([100, 0, 1]);
    expect(await taken()).toEqual([]);
    await pass(60_000);
    expect(await taken()).toEqual([101, 2, 3]);
  });

  test('is for keys no more if it is changed to one without: all share it', async () => {
    await limitStep(db, { rate }, true);
    await tenants(6, 6);
    await limitStep(db, { rate });
    expect(await taken()).toHaveLength(1);
    expect(await taken()).toEqual([]);
    await limitStep(db, null);
    expect(await taken()).toHaveLength(5);
  });

  test('keeps priorities, pauses and versions', async () => {
    await limitStep(db, { rate: { ...rate, burst: 2 } }, true);
    await tenants(4, 1);
    await db.hf.enqueue(keyed, { n: 10, tenant: 't0' }, { priority: 1 });
    await db.rows(`UPDATE holdfast.inbox SET version = 2 WHERE payload ->> 'n' = '0'`);
    await db.hf.pause('inbox', { type: 'step' });
    expect(await taken()).toEqual([]);
    await db.hf.resume('inbox', { type: 'step' });
    expect(await taken()).toEqual([10, 1]);
    await pass(120_000);
    expect(await taken({ versions: { step: 2 } })).toEqual([0, 2]);
  });

  test('forgets keys that nobody waits for', async () => {
    await limitStep(db, { rate }, true);
    await db.hf.enqueue(keyed, { n: 1, tenant: 'a' });
    expect(await taken()).toEqual([1]);
    expect(await prune(db.engine, INBOX, pruneRates, 100)).toBe(0);
    await db.rows(`UPDATE holdfast.rates SET slot_tat = slot_tat - interval '10 min'`);
    await pass(600_000);
    expect(await prune(db.engine, INBOX, pruneRates, 100)).toBe(1);
  });

  test('is enqueued in SQL too', async () => {
    await limitStep(db, { rate }, true);
    for (const key of ['a', 'a', 'b'])
      await db.rows(`SELECT holdfast.inbox_enqueue('step', '{"n": 1}', limit_key => $1)`, [key]);
    expect(await taken()).toHaveLength(2);
    await expect(
      db.rows(`SELECT holdfast.inbox_enqueue('step', '{}', limit_key => '')`),
    ).rejects.toMatchObject({ code: 'HF002' });
  });
});
