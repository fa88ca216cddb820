/** Limits in queues that are read by key, statement by statement: in order, and where keys take turns. */
import { beforeEach, describe, expect, test } from 'vitest';
import type { ClaimedJob } from '../../packages/holdfast/src/claim/take.js';
import { job } from '../../packages/holdfast/src/index.js';
import { recover } from '../../packages/holdfast/src/maintenance/recover.js';
import { configure, type QueueSettings } from '../../packages/holdfast/src/operate/queue.js';
import { complete } from '../../packages/holdfast/src/settle/complete.js';
import { release } from '../../packages/holdfast/src/settle/release.js';
import { claimSuspected, heldOf, numbers } from '../support/claiming.js';
import { INBOX, testDatabase } from '../support/database.js';
import { limitStep, register } from '../support/limited.js';
import { claimInOrder, inWalkOrder } from '../support/ordered.js';
import { claimInTurns } from '../support/turns.js';
import { until } from '../support/until.js';

const db = testDatabase();
const step = job<{ n: number }>('step');
const other = job<{ n: number }>('other');
const keyed = job<{ n: number; tenant: string }>('step', {
  limit: { rate: { limit: 10, per: '10m', burst: 1, key: ({ tenant }) => tenant } },
});
const rate = { limit: 10, perMs: 600_000, burst: 2 };

interface Way {
  readonly settings: QueueSettings;
  readonly claim: typeof claimInOrder | typeof claimInTurns;
}
const IN_ORDER: Way = { settings: { ordering: 'key' }, claim: claimInOrder };
const IN_TURNS: Way = { settings: { perKey: 2, fair: true }, claim: claimInTurns };
let way = IN_TURNS;

async function queueRead(how: Way): Promise<void> {
  way = how;
  for (const table of ['limits', 'permits', 'rates', 'inbox', 'inbox_claims', 'workers'])
    await db.rows(`DELETE FROM holdfast.${table}`);
  await register(db, ['one', 'two', 'three', 'other', 'w', 'dead']);
  await configure(db.plain, INBOX, { ordering: 'none', ...how.settings });
}

/** As a worker claims jobs of type `step`. Its own claims are counted: it says nothing of what it holds. */
const claim = (by = 'w', options = {}) =>
  way.claim(db.engine, by, { run: 10, again: true, ...options } as never);
const taken = async (by?: string, options = {}) => numbers(await claim(by, options));
/** Each of its own key, unless they share one. */
const enqueue = (count: number, key?: string, of = step) =>
  db.hf.enqueueMany(
    Array.from({ length: count }, (_, n) => of.item({ n }, { partitionKey: key ?? `key:${n}` })),
  );
const settle = (by: string, jobs: readonly ClaimedJob[]) =>
  complete(db.engine, INBOX, by, jobs.map(heldOf));
const held = async () => (await db.rows(RUNNING)).length;
const RUNNING = `SELECT FROM holdfast.inbox WHERE status = 'processing'`;

describe.each([
  ['in order', IN_ORDER],
  ['in turns', IN_TURNS],
])('%s, a concurrency', (_, how) => {
  beforeEach(() => queueRead(how));

  test('is never exceeded, and a place is free when its job is settled or released', async () => {
    await limitStep(db, { concurrency: 3 });
    await enqueue(10);
    const first = await claim('one', { limit: 2 });
    expect(first.jobs).toHaveLength(2);
    const second = await claim('two');
    expect(second).toMatchObject({ jobs: [{}], refused: { step: null } });
    // Where those are that wait for a permit.
    expect(second.heldBack.length).toBeGreaterThan(0);
    expect(second.heldBack.every(({ inMs }) => inMs === -1)).toBe(true);
    expect(await claim('three')).toMatchObject({ jobs: [], refused: { step: null } });
    await settle('one', first.jobs.slice(1));
    await release(db.engine, INBOX, 'one', first.jobs.slice(0, 1).map(heldOf));
    expect((await claim('three')).jobs).toHaveLength(2);
    expect(await held()).toBe(3);
  });

  test('holds for the queue beside that of a type', async () => {
    await limitStep(db, { concurrency: 3 });
    await db.hf.configureQueue('inbox', { limit: { concurrency: 4 } });
    await enqueue(10);
    await enqueue(10, undefined, other);
    const others = { versions: { other: 1 } };
    // In order, the jobs of `step` are the heads of their keys.
    await db.rows(
      `UPDATE holdfast.inbox SET partition_key = 'o' || partition_key WHERE type = 'other'`,
    );
    expect((await claim('w', { limit: 2 })).jobs).toHaveLength(2);
    expect((await claim('w', { ...others, limit: 1 })).jobs).toHaveLength(1);
    expect((await claim()).jobs).toHaveLength(1);
    expect(await claim('w', others)).toMatchObject({ jobs: [], refused: { other: null } });
    expect(await held()).toBe(4);
  });

  test('is not exceeded by twenty that claim at once', async () => {
    await limitStep(db, { concurrency: 7 });
    await enqueue(60);
    const many = Array.from({ length: 20 }, (_, n) => `w${n}`);
    await register(db, many);
    for (let round = 0; round < 3; round++) {
      await Promise.all(many.map((one) => claim(one, { limit: 3 })));
      expect(await held()).toBeLessThanOrEqual(7);
    }
    await until('all permits are used', async () => {
      await claim();
      return (await held()) === 7;
    });
  });

  test('leaves whoever comes while another claims under it to come again', async () => {
    await limitStep(db, { concurrency: 7 });
    await enqueue(5);
    const client = await db.pool.connect();
    try {
      await client.query('BEGIN; SELECT FROM holdfast.limits FOR UPDATE');
      const claimed = await claim();
      expect(claimed).toMatchObject({ jobs: [], refused: { step: 5 } });
      expect(claimed.heldBack.every(({ inMs }) => inMs === 5)).toBe(true);
    } finally {
      // With its transaction: nothing is left locked, also when this fails.
      client.release(true);
    }
    await until('the lock is gone', async () => (await claim()).jobs.length === 5);
  });

  test('of a dead worker comes back with its jobs', async () => {
    await limitStep(db, { concurrency: 2 });
    await enqueue(4);
    const first = await taken('dead');
    expect(first).toHaveLength(2);
    expect(await taken()).toEqual([]);
    await db.rows(`UPDATE holdfast.workers SET status = 'dead' WHERE id = 'dead'`);
    await recover(db.engine, INBOX, { limit: 10, recoverer: 'w' });
    expect((await taken()).toSorted()).toEqual(first.toSorted());
    expect(await taken()).toEqual([]);
  });

  test('holds for suspects', async () => {
    await limitStep(db, { concurrency: 1 });
    await enqueue(3);
    await db.rows(`UPDATE holdfast.inbox SET crashes = 2 WHERE (payload ->> 'n')::int > 0`);
    const [running] = (await claim()).jobs;
    const suspects = async () => numbers(await claimSuspected(db.engine, 'w'));
    expect(await suspects()).toEqual([]);
    await settle('w', [running as ClaimedJob]);
    // Without the limit both would come together.
    expect(await suspects()).toHaveLength(1);
    expect(await taken()).toEqual([]);
  });
});

describe.each([
  ['in order', IN_ORDER],
  ['in turns', IN_TURNS],
])('%s, a rate', (_, how) => {
  beforeEach(() => queueRead(how));
  const waiting = () =>
    db.rows(
      `SELECT FROM holdfast.inbox WHERE status = 'pending' AND available_at <= now() AND attempts = 0`,
    );

  test('lets a burst start; what waits keeps its place and costs nothing', async () => {
    await limitStep(db, { rate });
    await enqueue(6);
    const first = await claim();
    expect(first.jobs).toHaveLength(2);
    // One a minute.
    expect(first.refused.step).toBeGreaterThan(55_000);
    expect(first.refused.step).toBeLessThanOrEqual(60_000);
    for (const { inMs } of first.heldBack) expect(inMs).toBeGreaterThan(55_000);
    expect((await claim('other')).jobs).toEqual([]);
    expect(await waiting()).toHaveLength(4);
    await db.rows(`UPDATE holdfast.rates SET started_tat = started_tat - interval '1 minute'`);
    expect(await claim('other')).toMatchObject({ jobs: [{}] });
    expect(await taken('other')).toEqual([]);
  });

  test('is paid for what started only', async () => {
    await limitStep(db, { rate });
    await enqueue(1);
    expect(await taken()).toHaveLength(1);
    expect(await taken()).toEqual([]);
    await enqueue(1, 'late');
    expect(await taken()).toHaveLength(1);
    await enqueue(1, 'later');
    expect(await taken()).toEqual([]);
  });

  test('of a queue is for types that have none of their own', async () => {
    await limitStep(db, { rate: { ...rate, burst: 3 } });
    await db.hf.configureQueue('inbox', { limit: { rate: { limit: 1, per: '1h', burst: 1 } } });
    await enqueue(5);
    expect(await taken()).toHaveLength(3);
    await db.rows(`DELETE FROM holdfast.inbox`);
    await enqueue(5, undefined, other);
    const others = { versions: { other: 1 } };
    expect(await taken('w', others)).toHaveLength(1);
    expect(await taken('w', others)).toEqual([]);
  });

  test('that changes counts at once', async () => {
    await limitStep(db, { rate });
    await enqueue(6);
    expect(await taken()).toHaveLength(2);
    await limitStep(db, { rate: { ...rate, limit: 600_000 } });
    await db.rows('SELECT pg_sleep(0.01)');
    expect((await taken()).length).toBeGreaterThan(0);
    await limitStep(db, null);
    expect(await taken()).not.toEqual([]);
  });

  test('with keys holds for each of them, and holds up no other', async () => {
    await limitStep(db, { rate: { ...rate, burst: 1 } }, true);
    const tenants = 20;
    await db.hf.enqueueMany(
      Array.from({ length: 3 * tenants }, (_, n) => {
        const tenant = `t${n % tenants}`;
        return keyed.item({ n, tenant }, { partitionKey: tenant });
      }),
    );
    const first = await claim();
    expect(numbers(first).toSorted((a, b) => a - b)).toEqual(
      Array.from({ length: tenants }, (_, n) => n),
    );
    await settle('w', first.jobs);
    const none = await claim();
    // Others of the type may start: it is not closed, but its buckets are known.
    expect([none.jobs, none.refused]).toEqual([[], {}]);
    expect(new Set(none.heldBack.map(({ bucket }) => bucket))).toEqual(
      new Set(first.jobs.map(({ partitionBucket }) => partitionBucket)),
    );
    await db.hf.enqueue(keyed, { n: 100, tenant: 'new' }, { partitionKey: 'new' });
    expect(await taken()).toEqual([100]);
    await db.rows(`UPDATE holdfast.rates SET started_tat = started_tat - interval '1 minute'
      WHERE key = 't7'`);
    expect(await taken()).toEqual([tenants + 7]);
  });
});

describe('in order', () => {
  beforeEach(() => queueRead(IN_ORDER));

  test('a job that waits for its limit holds its key, and frees it in its turn', async () => {
    await limitStep(db, { concurrency: 1 });
    const [a, b] = inWalkOrder(['a', 'b']) as [string, string];
    await enqueue(1, a);
    await enqueue(1, b);
    await enqueue(1, b, other);
    const ordinary = { versions: { other: 1 } };
    // `step` of b waits for the place that a has, and `other` of b for that.
    const [first] = (await claim('w', { limit: 1 })).jobs;
    expect(await taken('w', ordinary)).toEqual([]);
    await settle('w', [first as ClaimedJob]);
    const second = await claim();
    expect(second.jobs).toHaveLength(1);
    expect(await taken('w', ordinary)).toEqual([]);
    await settle('w', second.jobs);
    expect(await taken('w', ordinary)).toEqual([0]);
  });
});

describe('in turns', () => {
  beforeEach(() => queueRead(IN_TURNS));

  test('perKey and a concurrency hold together: 2 of a key, 5 in all', async () => {
    await limitStep(db, { concurrency: 5 });
    for (const key of ['a', 'b', 'c', 'd']) await enqueue(9, key);
    const { jobs } = await claim('one');
    expect(jobs).toHaveLength(5);
    expect(new Set(jobs.map(({ partitionKey }) => partitionKey)).size).toBe(4);
    await settle('one', jobs);
    await db.hf.limits.set({ type: 'step' }, { concurrency: 50 });
    expect((await claim('one')).jobs).toHaveLength(8);
    expect((await claim('two')).jobs).toEqual([]);
  });

  test('a job that waits for its limit lets others of its key run', async () => {
    await limitStep(db, { concurrency: 1 });
    await enqueue(1, 'a');
    await enqueue(2, 'b');
    await enqueue(1, 'b', other);
    expect(await taken('w', { limit: 1 })).toHaveLength(1);
    expect(await taken('w', { versions: { other: 1 } })).toHaveLength(1);
  });
});
