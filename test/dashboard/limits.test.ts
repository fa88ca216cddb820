/** The screen of limits and pauses: what is used, what waits until when, and acts with their row in the audit. */
import { beforeEach, expect, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { numbers } from '../support/claiming.js';
import { clearAll, plantJob, plantWorker } from '../support/cli-plant.js';
import { asking } from '../support/dashboard.js';
import { testDatabase } from '../support/database.js';
import { claimStep, limitStep } from '../support/limited.js';

const db = testDatabase();
const step = job<{ n: number; tenant?: string }>('step', {
  limit: { rate: { limit: 1, per: '1m', key: ({ tenant }) => tenant ?? 'none' } },
});
const rate = { limit: 1, perMs: 60_000, burst: 1 };

beforeEach(async () => {
  await clearAll(db);
  await plantWorker(db, { id: 'w', handles: { inbox: { step: 1 } } });
  await db.rows('DELETE FROM holdfast.limits');
  await db.rows('DELETE FROM holdfast.audit');
  await db.rows('UPDATE holdfast.queues SET paused_types = NULL, paused_keys = NULL');
});

const dashboard = () => asking(db.hf, { loopback: true, write: true, actor: 'ada' });
const limits = async () => (await dashboard().get('/api/limits')).body.limits;
const acts = async () => (await db.hf.audit()).acts.map(({ act, actor }) => [act, actor]);

test('how many of the permits are taken, and how many due jobs wait for one', async () => {
  await limitStep(db, { concurrency: 2 });
  for (let n = 0; n < 5; n++) await db.hf.enqueue(step, { n });
  await plantJob(db);
  await claimStep(db, 'w');
  expect(await limits()).toMatchObject([
    {
      ...{ queue: 'inbox', type: 'step', concurrency: 2, running: 2 },
      waiting: { jobs: 3, opensAt: null },
      ...{ overridden: false, declared: { concurrency: 2 }, more: false },
    },
  ]);
});

test('and how many in a queue that is read by key', async () => {
  await db.hf.createQueue('turns', { fair: true, limit: { concurrency: 1 } });
  const turn = job<{ n: number }>('turn', { queue: 'turns' });
  await db.hf.enqueueMany(Array.from({ length: 3 }, (_, n) => turn.item({ n })));
  await db.hf.enqueue(turn, { n: 3 }, { delay: '1h' });
  expect(await limits()).toMatchObject([
    { queue: 'turns', type: null, waiting: { jobs: 3 }, more: false },
  ]);
});

test('what waits for a token, by key, and when the next may start', async () => {
  await limitStep(db, { rate }, true);
  for (let n = 0; n < 3; n++) await db.hf.enqueue(step, { n, tenant: 'a' });
  await db.hf.enqueue(step, { n: 3, tenant: 'b' });
  await db.hf.enqueue(step, { n: 4, tenant: 'b' });
  const before = Date.now();
  expect(numbers(await claimStep(db, 'w'))).toEqual([0, 3]);
  const [limit] = await limits();
  expect(limit).toMatchObject({ running: 2, rate, keyed: true, moreKeys: 0 });
  expect(limit.waiting.jobs).toBe(3);
  expect(limit.keys.map(({ key, jobs }: { key: string; jobs: number }) => [key, jobs])).toEqual([
    ['a', 2],
    ['b', 1],
  ]);
  const inMs = (at: string) => Math.round((Date.parse(at) - before) / 30_000);
  expect([limit.waiting, ...limit.keys].map(({ opensAt }) => inMs(opensAt))).toEqual([2, 2, 2]);
});

test('the rate of a queue is for those types that have none of their own', async () => {
  await limitStep(db, { rate });
  await db.hf.limits.set({}, { rate: { limit: 5, per: '1m' } });
  await db.hf.enqueue(step, { n: 1 });
  await db.hf.enqueue(step, { n: 2 });
  await claimStep(db, 'w');
  expect(await limits()).toMatchObject([
    { type: null, waiting: { jobs: 0 } },
    { type: 'step', waiting: { jobs: 1, opensAt: expect.any(String) } },
  ]);
});

test('a limit is set, reset and removed, each with its row in the audit', async () => {
  await limitStep(db, { concurrency: 2 });
  const { post } = dashboard();
  const act = (body: object) => post('/api/limits/act', { type: 'step', ...body });
  const limit = { concurrency: 7, rate: { limit: 100, per: '1m' } };
  expect((await act({ verb: 'set', limit, reason: 'the provider is slow' })).status).toBe(200);
  expect(await limits()).toMatchObject([
    { concurrency: 7, rate: { limit: 100, perMs: 60_000, burst: 10 }, overridden: true },
  ]);
  await act({ verb: 'reset' });
  expect(await limits()).toMatchObject([{ concurrency: 2, rate: null, overridden: false }]);
  await act({ verb: 'remove' });
  expect(await limits()).toEqual([]);
  expect(await acts()).toEqual([
    ['remove_limit', 'ada'],
    ['reset_limit', 'ada'],
    ['set_limit', 'ada'],
  ]);
  expect(await act({ verb: 'remove' })).toMatchObject({ status: 404 });
});

test.each<[object, RegExp]>([
  [{ verb: 'lift' }, /set, reset, remove/],
  [{ verb: 'set' }, /limit is missing/],
  [{ verb: 'set', limit: {} }, /a concurrency, a rate, or both/],
  [{ verb: 'set', limit: { concurrency: 0 } }, /whole number from 1/],
  [{ verb: 'set', limit: { rate: { limit: 1, per: 'soon' } } }, /must be a duration/],
])('%j is refused with 400, and nothing is set', async (body, words) => {
  const answer = await dashboard().post('/api/limits/act', { type: 'step', ...body });
  expect(answer).toMatchObject({ status: 400, body: { error: expect.stringMatching(words) } });
  expect(await limits()).toEqual([]);
});

test('a type and a key are paused and resumed by themselves', async () => {
  const { post } = dashboard();
  await post('/api/queues/inbox/pause', { type: 'step' });
  await post('/api/queues/inbox/pause', { key: 'order:1', reason: 'a dispute' });
  const paused = async () => {
    const [queue] = await db.hf.queues();
    return [queue?.paused, queue?.pausedTypes, queue?.pausedKeys];
  };
  expect(await paused()).toEqual([false, ['step'], ['order:1']]);
  await post('/api/queues/inbox/resume', { type: 'step' });
  await post('/api/queues/inbox/resume', { key: 'order:1' });
  expect(await paused()).toEqual([false, [], []]);
  expect(await post('/api/queues/inbox/pause', { type: 'a', key: 'b' })).toMatchObject({
    status: 400,
  });
  expect((await acts()).map(([name]) => name)).toEqual(['resume', 'resume', 'pause', 'pause']);
});
