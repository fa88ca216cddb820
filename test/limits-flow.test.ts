/** Limits beside flow control: pauses of a part, and unique keys. */
import { beforeEach, describe, expect, test } from 'vitest';
import { job } from '../src/index.js';
import { numbers } from './support/claiming.js';
import { testDatabase } from './support/database.js';
import { claimStep, limitStep } from './support/limited.js';

const db = testDatabase();
const rate = { limit: 1, perMs: 60_000, burst: 1 };
const step = job<{ n: number; tenant?: string }>('step', {
  limit: { rate: { limit: 1, per: '1m', key: ({ tenant }) => tenant ?? 'none' } },
});

beforeEach(async () => {
  for (const table of ['limits', 'inbox', 'inbox_claims', 'inbox_unique'])
    await db.rows(`DELETE FROM holdfast.${table}`);
});

const taken = async (options = {}) => numbers(await claimStep(db, 'w', options));
const row = () =>
  db.rows<{ n: number; limit_key: string; slot: Date | null; waits: boolean | null }>(
    `SELECT (payload ->> 'n')::int AS n, limit_key, limit_slot AS slot, limit_slot = available_at AS waits
     FROM holdfast.inbox WHERE status = 'pending' ORDER BY position`,
  );

describe('a claim under a limit passes over', () => {
  test('a paused type', async () => {
    await limitStep(db, { concurrency: 5 });
    await db.hf.enqueue(step, { n: 1 });
    await db.hf.pause('inbox', { type: 'step' });
    expect(await taken()).toEqual([]);
    await db.hf.resume('inbox', { type: 'step' });
    expect(await taken()).toEqual([1]);
  });

  test('a paused key, also of a suspect and of a job whose slot has come', async () => {
    await limitStep(db, { rate: { ...rate, limit: 60_000, burst: 5 } });
    for (const n of [1, 2, 3])
      await db.hf.enqueue(step, { n }, { partitionKey: n < 3 ? 'a' : 'b' });
    await db.rows(
      `UPDATE holdfast.inbox SET limit_slot = available_at WHERE payload ->> 'n' = '1'`,
    );
    await db.rows(`UPDATE holdfast.inbox SET crashes = 2 WHERE payload ->> 'n' = '2'`);
    await db.hf.pause('inbox', { key: 'a' });
    expect(await taken()).toEqual([3]);
    expect(await taken({ suspects: true })).toEqual([]);
    await db.hf.resume('inbox', { key: 'a' });
    expect(await taken()).toEqual([1]);
    expect(await taken({ suspects: true })).toEqual([2]);
  });
});

describe('a unique job that is replaced', () => {
  const unique = { key: 'k', onConflict: 'replace' } as const;

  test('keeps its slot, unless it counts for another key or is due later', async () => {
    await limitStep(db, { rate }, true);
    await db.hf.enqueue(step, { n: 0, tenant: 'a' });
    await db.hf.enqueue(step, { n: 1, tenant: 'a' }, { unique });
    expect(await taken()).toEqual([0]);
    const [before] = await row();
    expect(before).toMatchObject({ n: 1, limit_key: 'a', waits: true });
    await db.hf.enqueue(step, { n: 2, tenant: 'a' }, { unique });
    expect(await row()).toEqual([{ ...before, n: 2 }]);
    expect(await taken()).toEqual([]);
    await db.hf.enqueue(step, { n: 3, tenant: 'a' }, { unique, delay: '1h' });
    expect(await row()).toMatchObject([{ n: 3, slot: null }]);
    await db.hf.enqueue(step, { n: 4, tenant: 'b' }, { unique });
    expect(await row()).toMatchObject([{ n: 4, limit_key: 'b', slot: null }]);
    expect(await taken()).toEqual([4]);
  });

  test('is enqueued in SQL with its limit key', async () => {
    await db.rows(
      `SELECT holdfast.inbox_enqueue('step', '{"n": 1}', unique_key => 'k', limit_key => 'a')`,
    );
    expect(await row()).toMatchObject([{ n: 1, limit_key: 'a' }]);
  });
});
