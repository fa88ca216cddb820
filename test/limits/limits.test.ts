/** A concurrency, statement by statement, in a queue that is read by time: who may start, and when a permit is free. */
import { beforeEach, describe, expect, test } from 'vitest';
import type { TimeClaim } from '../../packages/holdfast/src/claim/time/claim.js';
import { job } from '../../packages/holdfast/src/index.js';
import { recover } from '../../packages/holdfast/src/maintenance/recover.js';
import { complete } from '../../packages/holdfast/src/settle/complete.js';
import { release, releaseClaims } from '../../packages/holdfast/src/settle/release.js';
import { claimSuspected, heldOf, numbers, type TimeOptions } from '../support/claiming.js';
import { INBOX, testDatabase } from '../support/database.js';
import { claimStep, Holder, limitStep, register } from '../support/limited.js';
import { until } from '../support/until.js';

const db = testDatabase();
const step = job<{ n: number }>('step');
const other = job<{ n: number }>('other');
const WORKERS = ['one', 'two', 'three', 'w'];
const OTHERS = { versions: { other: 1 } };

beforeEach(async () => {
  for (const table of ['limits', 'permits', 'rates', 'inbox', 'inbox_claims', 'workers'])
    await db.rows(`DELETE FROM holdfast.${table}`);
  await register(db, WORKERS);
});

const enqueue = (count: number, of = step, from = 0) =>
  db.hf.enqueueMany(Array.from({ length: count }, (_, n) => of.item({ n: from + n })));
const running = async () =>
  (await db.rows(`SELECT FROM holdfast.inbox WHERE status = 'processing'`)).length;
const kill = (id: string) =>
  db.rows(`UPDATE holdfast.workers SET status = 'dead' WHERE id = $1`, [id]);

/** A worker of version 0.1 says nothing of what it holds: its claims are counted. */
class Silent extends Holder<TimeClaim, TimeOptions> {
  override async claim(options: TimeOptions = {}): Promise<TimeClaim> {
    return claimStep(db, this.id, options);
  }
  override async left(): Promise<void> {}
}
const claimOf = (id: string, options: TimeOptions) => claimStep(db, id, options);

describe.each([
  ['whose workers say what they hold', Holder],
  ['whose workers say nothing', Silent],
])('a concurrency %s', (_, Kind) => {
  const worker = (id: string) => new Kind(db, id, claimOf) as Holder<TimeClaim, TimeOptions>;
  const taken = async (of: Holder<TimeClaim, TimeOptions>, options = {}) =>
    numbers(await of.claim(options));

  test('is never exceeded, and a permit is free when its job is settled', async () => {
    await limitStep(db, { concurrency: 3 });
    await enqueue(10);
    const [one, two, three] = [worker('one'), worker('two'), worker('three')];
    const first = await one.claim({ limit: 2 });
    expect(numbers(first)).toEqual([0, 1]);
    expect(first.refused).toEqual({});
    const second = await two.claim();
    expect(numbers(second)).toEqual([2]);
    // Its type waits for a permit, not for a time.
    expect(second.refused).toEqual({ step: null });
    expect(await taken(three)).toEqual([]);
    await one.complete(first.jobs);
    expect(await taken(three)).toEqual([3, 4]);
    expect(await taken(one)).toEqual([]);
  });

  test('holds for a whole queue, beside that of a type', async () => {
    await limitStep(db, { concurrency: 3 });
    await db.hf.configureQueue('inbox', { limit: { concurrency: 4 } });
    await enqueue(10);
    await enqueue(10, other, 100);
    const [one, two] = [worker('one'), worker('two')];
    expect(await taken(one, { limit: 2 })).toEqual([0, 1]);
    expect(await taken(two, { ...OTHERS, limit: 1 })).toEqual([100]);
    // One permit is left of four, and one of three.
    expect(await taken(two)).toEqual([2]);
    expect(await taken(one, OTHERS)).toEqual([]);
    await db.hf.configureQueue('inbox', { limit: null });
    expect(await taken(one)).toEqual([]);
    expect(await taken(one, OTHERS)).toHaveLength(9);
  });

  test('leaves to others of the claim what it does not allow: all in due order', async () => {
    await limitStep(db, { concurrency: 2 });
    for (let n = 0; n < 5; n++) {
      await enqueue(1, step, 10 * n);
      await enqueue(1, other, 10 * n + 1);
    }
    const both = { versions: { step: 1, other: 1 } };
    expect(await taken(worker('one'), both)).toEqual([0, 1, 10, 11, 21, 31, 41]);
    expect(await taken(worker('two'), both)).toEqual([]);
  });

  test('twenty that claim at once take no more than there are permits', async () => {
    await limitStep(db, { concurrency: 7 });
    await enqueue(100);
    const many = Array.from({ length: 20 }, (_, n) => `w${n}`);
    await register(db, many);
    const workers = many.map(worker);
    for (let round = 0; round < 5; round++) {
      await Promise.all(workers.map((one) => one.claim({ limit: 3 })));
      expect(await running()).toBeLessThanOrEqual(7);
    }
    await until('all permits are used', async () => {
      await workers[0]?.claim();
      return (await running()) === 7;
    });
  });

  test('of a dead worker is free at once, and its jobs count again when they are taken over', async () => {
    await limitStep(db, { concurrency: 2 });
    await enqueue(4);
    const [one, two] = [worker('one'), worker('two')];
    expect(await taken(one)).toEqual([0, 1]);
    expect(await taken(two)).toEqual([]);
    await kill('one');
    await recover(db.engine, INBOX, { limit: 10, recoverer: 'two' });
    expect(await taken(two)).toEqual([0, 1]);
    expect(await taken(two)).toEqual([]);
    expect(await taken(worker('three'))).toEqual([]);
  });

  test('is not exceeded by those who take over leases that ran out', async () => {
    await limitStep(db, { concurrency: 2 });
    await enqueue(5);
    expect(await taken(worker('one'))).toEqual([0, 1]);
    await kill('one');
    await db.rows(`UPDATE holdfast.inbox SET lease_expires_at = now() - interval '1 second'
      WHERE status = 'processing'`);
    const found: number[] = [];
    const [two, three] = [worker('two'), worker('three')];
    await until('both are taken over', async () => {
      const claims = await Promise.all([two, three].map((one) => one.claim({ limit: 1 })));
      found.push(...claims.flatMap(numbers));
      return found.length >= 2;
    });
    expect(found.sort()).toEqual([0, 1]);
    expect(await taken(two)).toEqual([]);
    expect(await running()).toBe(2);
  });

  test('holds for suspects', async () => {
    await limitStep(db, { concurrency: 1 });
    await enqueue(3);
    await db.rows(`UPDATE holdfast.inbox SET crashes = 2 WHERE (payload ->> 'n')::int > 0`);
    const one = worker('one');
    const first = await one.claim();
    expect(numbers(first)).toEqual([0]);
    const suspects = (held: Record<string, number>) =>
      claimSuspected(db.engine, 'two', Kind === Holder ? { held } : {});
    const none = await suspects({});
    expect([numbers(none), none.refused]).toEqual([[], { step: null }]);
    await one.complete(first.jobs);
    // Without the limit both would come together.
    expect(numbers(await suspects({}))).toEqual([1]);
    expect(numbers(await suspects({ step: 1, '': 1 }))).toEqual([]);
    expect(await taken(one)).toEqual([]);
  });

  test('gives back what a claim took whose answer was lost, and counts it until then', async () => {
    await limitStep(db, { concurrency: 2 });
    await enqueue(5);
    const one = worker('one');
    // The worker does not learn of these two.
    const held = Kind === Holder ? { held: {} } : {};
    expect(numbers(await claimStep(db, 'one', { number: 99, ...held }))).toEqual([0, 1]);
    expect(await taken(worker('two'))).toEqual([]);
    await releaseClaims(db.engine, INBOX, 'one', [99]);
    await one.left([]);
    expect(await taken(worker('two'))).toEqual([0, 1]);
  });

  test('that is locked by somebody gives nothing, and is asked for again soon', async () => {
    await limitStep(db, { concurrency: 5 });
    await enqueue(2);
    await enqueue(2, other, 10);
    const client = await db.pool.connect();
    try {
      await client.query('BEGIN; SELECT FROM holdfast.limits FOR UPDATE');
      const claimed = await worker('one').claim({ versions: { step: 1, other: 1 } });
      expect(numbers(claimed)).toEqual([10, 11]);
      expect(claimed.refused).toEqual({ step: 5 });
    } finally {
      // With its transaction: nothing is left locked, also when this fails.
      client.release(true);
    }
    const one = worker('one');
    await until('the lock is gone', async () => (await one.claim()).jobs.length === 2);
  });
});

describe('the permits of a worker', () => {
  const worker = (id: string) => new Holder<TimeClaim, TimeOptions>(db, id, claimOf);

  test('are those that it says, whatever its claims are', async () => {
    await limitStep(db, { concurrency: 3 });
    await enqueue(10);
    const one = worker('one');
    const { jobs } = await one.claim();
    expect(jobs).toHaveLength(3);
    // They are settled, and it has not said so yet.
    await complete(db.engine, INBOX, 'one', jobs.slice(1).map(heldOf));
    expect(numbers(await worker('two').claim())).toEqual([]);
    await one.left(jobs.slice(1));
    expect(numbers(await worker('two').claim())).toEqual([3, 4]);
  });

  test('are counted by its claims as long as it has said nothing, also of a worker of version 0.1', async () => {
    await enqueue(6);
    // Before there was a limit.
    const first = await claimStep(db, 'one', { limit: 3 });
    await limitStep(db, { concurrency: 4 });
    const two = worker('two');
    expect(numbers(await two.claim())).toEqual([3]);
    await release(db.engine, INBOX, 'one', first.jobs.slice(0, 1).map(heldOf));
    expect(numbers(await two.claim())).toEqual([0]);
  });

  test('are of no account for types that it does not handle, and if it is not registered', async () => {
    await limitStep(db, { concurrency: 2 });
    await enqueue(6);
    await db.rows(`INSERT INTO holdfast.permits SELECT id, 'gone', 2 FROM holdfast.limits`);
    expect(numbers(await worker('two').claim())).toEqual([0, 1]);
  });

  test('are not asked for by a claim for which limits do not hold', async () => {
    await limitStep(db, { concurrency: 1 });
    await enqueue(3);
    expect(numbers(await claimStep(db, 'one', { held: 'unlimited' }))).toEqual([0, 1, 2]);
  });
});

test('a claim that finds no limited job locks no limit and counts nothing', async () => {
  await limitStep(db, { concurrency: 1 });
  const locks = () => db.rows('SELECT xmax::text FROM holdfast.limits');
  const before = await locks();
  await enqueue(3, other);
  await claimStep(db, 'one', { versions: { step: 1, other: 1 }, held: {} });
  expect(await locks()).toEqual(before);
  expect(await db.rows('SELECT FROM holdfast.permits')).toEqual([]);
  // What this shows, it shows only if a claim of a limited job leaves a trace.
  await enqueue(1);
  await claimStep(db, 'one', { held: {} });
  expect(await locks()).not.toEqual(before);
  expect(await db.rows('SELECT held FROM holdfast.permits')).toEqual([{ held: 1 }]);
});

test('what has waited for too long keeps to the limit too', async () => {
  await limitStep(db, { concurrency: 1 });
  await db.hf.enqueueMany([1, 2].map((n) => step.item({ n }, { priority: 4 })));
  await db.rows(`UPDATE holdfast.inbox SET available_at = now() - interval '11 min'`);
  expect(numbers(await claimStep(db, 'one', { aged: true }))).toEqual([1]);
  expect(numbers(await claimStep(db, 'one', { aged: true }))).toEqual([]);
});
