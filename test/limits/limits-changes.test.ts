/** Setting, changing and removing limits: what code declares, what an operator sets, and what it costs. */
import { beforeEach, describe, expect, test } from 'vitest';
import { queueSettings } from '../../packages/holdfast/src/fleet/registry.js';
import { type Holdfast, job } from '../../packages/holdfast/src/index.js';
import { numbers } from '../support/claiming.js';
import { INBOX, testDatabase } from '../support/database.js';
import { claimStep, limitStep, register } from '../support/limited.js';
import { until } from '../support/until.js';

const db = testDatabase();
const step = job<{ n: number }>('step');

beforeEach(async () => {
  for (const table of ['limits', 'permits', 'rates', 'inbox', 'inbox_claims', 'workers', 'audit'])
    await db.rows(`DELETE FROM holdfast.${table}`);
  await register(db, ['w']);
});

const enqueue = (count: number, of = step) =>
  db.hf.enqueueMany(Array.from({ length: count }, (_, n) => of.item({ n })));
const taken = async (options = {}) => numbers(await claimStep(db, 'w', options));
const limitedTypes = async () => {
  const settings = await queueSettings(db.engine, INBOX);
  return settings.find(({ name }) => name === 'inbox')?.limited;
};

/** Waits until so many sessions wait for a lock in such statements. */
const lockedOut = (count: number, text: string) =>
  until(`${count} wait for a lock`, async () => {
    const rows = await db.rows(
      `SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE $1
         AND datname = current_database()`,
      [`%${text}%`],
    );
    return rows.length === count;
  });

describe('changing a limit', () => {
  const rate = { limit: 10, perMs: 600_000, burst: 1 };

  test('deletes with it what was used of its rate, and so does dropping its queue', async () => {
    const keyed = { rate: { limit: 5, per: '1h', burst: 5 } } as const;
    const rates = () => db.rows('SELECT r.limit_id FROM holdfast.rates AS r');
    const started = async () => {
      await enqueue(2);
      expect(await taken()).toEqual([0, 1]);
      expect(await rates()).toHaveLength(1);
      await db.rows('DELETE FROM holdfast.inbox');
    };
    await db.hf.configureQueue('inbox', { limit: keyed });
    await started();
    await db.hf.limits.remove({});
    expect(await rates()).toEqual([]);
    await limitStep(db, { rate });
    await enqueue(1);
    expect(await taken()).toEqual([0]);
    expect(await rates()).toHaveLength(1);
    await limitStep(db, {});
    expect(await rates()).toEqual([]);

    await db.hf.createQueue('metered', { limit: keyed });
    const others = 'INSERT INTO holdfast.rates VALUES (2000000000, $1, now(), now())';
    await db.rows(others, ['of another limit']);
    await db.rows(`INSERT INTO holdfast.rates SELECT l.id, '', now(), now() FROM holdfast.limits AS l
      WHERE l.queue = 'metered'`);
    await db.hf.dropQueue('metered');
    expect(await rates()).toEqual([{ limit_id: 2_000_000_000 }]);
    await db.rows('DELETE FROM holdfast.inbox');
  });

  test('to a rate of their own takes types out of that of their queue', async () => {
    await db.hf.configureQueue('inbox', { limit: { rate: { limit: 1, per: '1h', burst: 1 } } });
    await enqueue(5);
    expect(await taken()).toEqual([0]);
    expect(await taken()).toEqual([]);
    await limitStep(db, { rate: { limit: 1_000, perMs: 1_000, burst: 100 } });
    expect(await taken()).toEqual([1, 2, 3, 4]);
    await db.hf.configureQueue('inbox', { limit: null });
  });

  test('waits for no job that somebody has locked, and touches none: 20,000 wait', async () => {
    await db.rows(`INSERT INTO holdfast.inbox (type, partition_key, partition_bucket, payload, parked)
      SELECT 'step', 'k' || n, n % 1024, '{"n": 1}', false FROM generate_series(1, 20000) AS n`);
    const updates = `SELECT (n_tup_upd + n_tup_ins + n_tup_del)::int AS n FROM pg_stat_xact_user_tables
      WHERE schemaname = 'holdfast' AND relname = 'inbox'`;
    const [session, other] = [await db.pool.connect(), await db.pool.connect()];
    try {
      await other.query(`BEGIN; SELECT FROM holdfast.inbox LIMIT 100 FOR UPDATE`);
      await session.query('BEGIN');
      // Also what this session has done before, and not told yet.
      const before = (await session.query(updates)).rows;
      for (const call of [
        `'declare', 'step', 3, 1, '1 hour', 1, false`,
        `'declare', 'step', 3, 1000, '1 second', 1, true`,
        `'set', 'step', NULL, 1, '1 day', 1, false`,
        `'remove', 'step', NULL, NULL, NULL, NULL, false`,
      ]) {
        const { rows } = await session.query(
          `EXPLAIN (ANALYZE, WAL, FORMAT JSON) SELECT holdfast.inbox_set_limit(${call})`,
        );
        // A row of a limit, its index, and pages that are written in full after a checkpoint.
        expect(rows[0]['QUERY PLAN'][0].Plan['WAL Bytes']).toBeLessThan(50_000);
      }
      expect((await session.query(updates)).rows).toEqual(before);
    } finally {
      session.release(true);
      other.release(true);
    }
  });

  test('by two at once leaves what each of them set', async () => {
    const paced = (limit: number) => ({ rate: { limit, per: '10m', burst: 1 } }) as const;
    await db.hf.createQueue('pair', { perKey: 10, fair: true });
    const first = await db.pool.connect();
    try {
      // The first holds the row of the queue's limit, so the second waits between its reading and its writing.
      await db.hf.configureQueue('pair', { limit: paced(1) });
      await first.query(`BEGIN; SELECT FROM holdfast.limits WHERE queue = 'pair' FOR UPDATE`);
      const weights = db.hf.configureQueue('pair', { weights: { a: 2 }, limit: paced(2) });
      await lockedOut(1, 'pair_set_limit');
      await db.hf.configureQueue('pair', { perKey: 1 });
      await first.query('COMMIT');
      await weights;
    } finally {
      first.release();
    }
    expect(
      await db.rows(`SELECT per_key, weights FROM holdfast.queues WHERE name = 'pair'`),
    ).toEqual([{ per_key: 1, weights: { a: 2 } }]);
    await db.hf.dropQueue('pair');
  });

  test('to no rate lets all of them go, in their order', async () => {
    await limitStep(db, { concurrency: 100, rate });
    await enqueue(5);
    expect(await taken()).toEqual([0]);
    await limitStep(db, { concurrency: 100 });
    expect(await taken()).toEqual([1, 2, 3, 4]);
  });

  test('raises its version, by which workers learn of it; what is declared as it was does not', async () => {
    const known = (await limitedTypes())?.version as number;
    await limitStep(db, { concurrency: 1 });
    const now = (await limitedTypes())?.version as number;
    expect(now).toBeGreaterThan(known);
    expect(await limitedTypes()).toEqual({
      ...{ version: now, types: ['step'], whole: false, permits: true, keyed: [] },
    });
    expect(await limitStep(db, { concurrency: 1 })).toBe(false);
    expect((await limitedTypes())?.version).toBe(now);
    await limitStep(db, { rate });
    expect(await limitedTypes()).toMatchObject({ types: ['step'], permits: false });
    await limitStep(db, null);
    expect(await limitedTypes()).toMatchObject({ types: [], whole: false, permits: false });
  });

  test('counts for the next claim, also of a worker that has not learned of it', async () => {
    await enqueue(3);
    await limitStep(db, { concurrency: 1 });
    expect(await taken()).toEqual([0]);
    expect(await taken()).toEqual([]);
    await limitStep(db, null);
    expect(await taken()).toEqual([1, 2]);
  });
});

describe('an operator', () => {
  const listed = async (hf: Holdfast = db.hf) =>
    (await hf.limits.list()).map(({ type, concurrency, rate, overridden, declared }) => ({
      ...{ type, concurrency, overridden, declared: declared?.concurrency ?? null },
      rate: rate?.limit ?? null,
    }));

  test('sets what deploys do not undo, and resets it', async () => {
    await limitStep(db, { concurrency: 5 });
    await db.hf.limits.set({ type: 'step' }, { concurrency: 2 }, { actor: 'ann', reason: 'calm' });
    await limitStep(db, { concurrency: 6 });
    expect(await listed()).toEqual([
      { type: 'step', concurrency: 2, overridden: true, declared: 6, rate: null },
    ]);
    await enqueue(9);
    expect(await taken()).toHaveLength(2);
    await db.hf.limits.reset({ type: 'step' });
    expect(await listed()).toMatchObject([{ concurrency: 6, overridden: false }]);
    expect(await taken()).toHaveLength(4);
    await db.hf.limits.set({ type: 'step' }, null);
    expect(await listed()).toMatchObject([{ concurrency: null, declared: 6, overridden: true }]);
    await db.hf.limits.remove({ type: 'step' });
    expect(await listed()).toEqual([]);
    const acts = await db.rows(
      `SELECT act, actor, reason, changes FROM holdfast.audit ORDER BY id`,
    );
    expect(acts.map(({ act }) => act)).toEqual([
      ...['set_limit', 'reset_limit', 'set_limit', 'remove_limit'],
    ]);
    expect(acts[0]).toMatchObject({
      ...{ actor: 'ann', reason: 'calm' },
      changes: { type: 'step', from: { concurrency: 5 }, to: { concurrency: 2 } },
    });
  });

  test('limits what code does not, and takes it away', async () => {
    await db.hf.limits.set({}, { rate: { limit: 5, per: '1s' } });
    expect(await listed()).toMatchObject([{ type: null, rate: 5, declared: null }]);
    await db.hf.limits.reset({});
    expect(await listed()).toEqual([]);
    await expect(db.hf.limits.reset({ type: 'step' })).rejects.toMatchObject({
      code: 'LIMIT_UNKNOWN',
    });
    await expect(db.hf.limits.remove({ queue: 'nowhere' })).rejects.toThrow(/no limit|no queue/);
  });

  test('is refused a key, and goes with its queue', async () => {
    await expect(
      db.hf.limits.set({}, { rate: { limit: 5, per: '1s', key: () => '' } as never }),
    ).rejects.toThrow(/belongs to the definition of a job/);
    await db.hf.createQueue('lines', { ordering: 'key', limit: { concurrency: 2 } });
    await db.hf.createQueue('calm', { limit: { concurrency: 3 } });
    expect(await db.hf.limits.list({ queue: 'calm' })).toMatchObject([{ concurrency: 3 }]);
    await db.hf.configureQueue('calm', { ordering: 'key' });
    await expect(db.hf.limits.set({ queue: 'nowhere' }, { concurrency: 1 })).rejects.toThrow(
      /no queue "nowhere"/,
    );
    await db.hf.dropQueue('calm');
    await db.hf.dropQueue('lines');
    expect(await db.hf.limits.list()).toEqual([]);
  });
});
