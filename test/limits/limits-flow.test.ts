/** Limits beside flow control: pauses of a part, and unique keys. */
import { beforeEach, describe, expect, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { claimSuspected, numbers } from '../support/claiming.js';
import { testDatabase } from '../support/database.js';
import { claimStep, limitStep, register } from '../support/limited.js';

const db = testDatabase();
const rate = { limit: 1, perMs: 60_000, burst: 1 };
const step = job<{ n: number; tenant?: string }>('step', {
  limit: { rate: { limit: 1, per: '1m', key: ({ tenant }) => tenant ?? 'none' } },
});

beforeEach(async () => {
  for (const table of [
    'limits',
    'rates',
    'permits',
    'inbox',
    'inbox_claims',
    'inbox_unique',
    'workers',
  ])
    await db.rows(`DELETE FROM holdfast.${table}`);
  await register(db, ['w']);
});

const taken = async (options = {}) => numbers(await claimStep(db, 'w', options));
const suspects = async () => numbers(await claimSuspected(db.engine, 'w'));
const row = () =>
  db.rows(`SELECT (payload ->> 'n')::int AS n, limit_key FROM holdfast.inbox
    WHERE status = 'pending' ORDER BY position`);

describe('a claim under a limit passes over', () => {
  test('a paused type', async () => {
    await limitStep(db, { concurrency: 5 });
    await db.hf.enqueue(step, { n: 1 });
    await db.hf.pause('inbox', { type: 'step' });
    expect(await taken()).toEqual([]);
    await db.hf.resume('inbox', { type: 'step' });
    expect(await taken()).toEqual([1]);
  });

  test('a paused key, also of a suspect', async () => {
    await limitStep(db, { rate: { ...rate, limit: 60_000, burst: 5 } });
    for (const n of [1, 2, 3])
      await db.hf.enqueue(step, { n }, { partitionKey: n < 3 ? 'a' : 'b' });
    await db.rows(`UPDATE holdfast.inbox SET crashes = 2 WHERE payload ->> 'n' = '2'`);
    await db.hf.pause('inbox', { key: 'a' });
    expect(await taken()).toEqual([3]);
    expect(await suspects()).toEqual([]);
    await db.hf.resume('inbox', { key: 'a' });
    expect(await taken()).toEqual([1]);
    expect(await suspects()).toEqual([2]);
  });
});

describe('a unique job that is replaced', () => {
  const unique = { key: 'k', onConflict: 'replace' } as const;

  test('counts for the key that it has then, and costs a token once', async () => {
    await limitStep(db, { rate }, true);
    await db.hf.enqueue(step, { n: 0, tenant: 'a' });
    await db.hf.enqueue(step, { n: 1, tenant: 'a' }, { unique });
    expect(await taken()).toEqual([0]);
    await db.hf.enqueue(step, { n: 2, tenant: 'a' }, { unique });
    expect(await row()).toEqual([{ n: 2, limit_key: 'a' }]);
    expect(await taken()).toEqual([]);
    await db.hf.enqueue(step, { n: 3, tenant: 'b' }, { unique, delay: '1h' });
    expect(await taken()).toEqual([]);
    await db.hf.enqueue(step, { n: 4, tenant: 'b' }, { unique });
    expect(await row()).toEqual([{ n: 4, limit_key: 'b' }]);
    expect(await taken()).toEqual([4]);
  });

  test('is enqueued in SQL with its limit key', async () => {
    await db.rows(
      `SELECT holdfast.inbox_enqueue('step', '{"n": 1}', unique_key => 'k', limit_key => 'a')`,
    );
    expect(await row()).toMatchObject([{ n: 1, limit_key: 'a' }]);
  });
});
