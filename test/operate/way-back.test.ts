/**
 * The way back: what was cancelled or discarded runs again from the archive, as the same job. Nobody who held it
 * before can settle it, its idempotency key stands for one job only, and the jobs of a key keep their order.
 */
import { beforeEach, describe, expect, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { pruneChunk, pruneEffects } from '../../packages/holdfast/src/maintenance/prune.js';
import { complete } from '../../packages/holdfast/src/settle/complete.js';
import { deadLetter } from '../../packages/holdfast/src/settle/dead-letter.js';
import { claimAs, heldOf } from '../support/claiming.js';
import { clearAll, plantJob } from '../support/cli-plant.js';
import { INBOX, testDatabase } from '../support/database.js';
import { until } from '../support/until.js';
import { testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const work = job<{ n?: number }>('work');
const types = ['work'];

beforeEach(async () => {
  await clearAll(db);
  await db.rows('TRUNCATE holdfast.inbox_idempotency, holdfast.inbox_effects');
});

async function claimOne(by: string) {
  const [row] = await claimAs(db.engine, by, { types });
  return { ...heldOf(row!), attempt: row?.attempts };
}

const WHY = { error: 'Error: no', summary: 'no' };

test('a cancelled job comes back as itself, and whoever held it cannot settle it', async () => {
  const { id } = await db.hf.enqueue(work, { n: 1 });
  const stale = await claimOne('stale');
  await db.hf.cancel([id], { reason: 'a mistake' });
  expect(await db.hf.archive.replay([id])).toEqual({
    ...{ found: 1, moved: 1, keyTaken: 0, finished: true },
  });
  expect(await complete(db.engine, INBOX, 'stale', [stale])).toEqual([]);
  // The same worker may claim it again: its first claim is still worth nothing.
  const held = await claimOne('stale');
  expect(held).toMatchObject({ id, attempt: 1, generation: stale.generation + 1 });
  expect(await complete(db.engine, INBOX, 'stale', [stale])).toEqual([]);
  const running = await db.hf.job(id);
  expect(running).toMatchObject({ status: 'processing', archived: false, payload: { n: 1 } });
  expect(running?.history.at(-1)).toMatchObject({ outcome: 'replayed', was: 'cancelled' });
  expect(await complete(db.engine, INBOX, 'stale', [held])).toEqual([id]);
  expect(await db.rows('SELECT id FROM holdfast.inbox_archive')).toEqual([{ id }]);
});

test.each(['cancel', 'discard'] as const)(
  'after a %s, what the job did long ago is known for as long as it may come back',
  async (verb) => {
    const { id } = await db.hf.enqueue(work, {});
    if (verb === 'discard')
      await deadLetter(db.engine, INBOX, 'w', [{ ...(await claimOne('w')), ...WHY }]);
    await db.rows(
      `INSERT INTO holdfast.inbox_effects (job_id, name, value, generation, created_at)
       VALUES ($1, 'charge', '{"value": 7}', 1, now() - interval '8 days')`,
      [id],
    );
    await db.hf[verb]([id]);
    expect(await pruneChunk(db.engine, INBOX, pruneEffects, 10, null)).toMatchObject({ pruned: 0 });
    await db.hf.archive.replay([id]);
    const charged: unknown[] = [];
    const { worker } = start(db.hf, (w) =>
      w.handle(work, async (ctx) => {
        charged.push(await ctx.once('charge', () => 'again'));
      }),
    );
    await until('it has run', () => worker.stats.completed === 1);
    expect(charged).toEqual([7]);
    // Completed, it is known for as long as it was before. The worker may have pruned, and then the next round begins there.
    await worker.stop();
    await db.rows(`UPDATE holdfast.queues SET serviced_at = '{}'`);
    await db.rows(`UPDATE holdfast.inbox_effects SET created_at = now() - interval '8 days'`);
    expect(await pruneChunk(db.engine, INBOX, pruneEffects, 10, null)).toMatchObject({ pruned: 1 });
  },
);

test('jobs are found by their ids in whichever queue has them', async () => {
  await db.hf.createQueue('elsewhere');
  const other = job<object>('other', { queue: 'elsewhere' });
  const ids = [(await db.hf.enqueue(work, {})).id, (await db.hf.enqueue(other, {})).id];
  await db.hf.cancel(ids);
  const both = { found: 2, moved: 0, keyTaken: 0, finished: false };
  expect(await db.hf.archive.replay(ids, { dryRun: true })).toEqual(both);
  const steps: unknown[] = [];
  const onProgress = (step: { finished: boolean }) => steps.push(step.finished);
  expect(await db.hf.archive.replay(ids, { onProgress })).toEqual({
    ...{ found: 2, moved: 2, keyTaken: 0, finished: true },
  });
  expect(steps).toEqual([false, false, false, true]);
  for (const id of ids) expect(await db.hf.job(id)).toMatchObject({ status: 'pending' });
});

test('one that was cancelled before its time waits for it again, with all its attempts', async () => {
  const runAt = new Date(Date.now() + 3_600_000);
  const [waits, due] = await db.hf.enqueueMany([
    work.item({ n: 1 }, { runAt }),
    work.item({ n: 2 }),
  ]);
  const ids = [waits!.id, due!.id];
  await db.hf.cancel(ids);
  expect((await db.hf.job(waits!.id))?.history).toMatchObject([
    { outcome: 'cancelled', due: runAt, worker: null },
  ]);
  expect((await db.hf.job(due!.id))?.history).toEqual([]);
  expect(await db.hf.archive.replay(ids)).toMatchObject({ moved: 2 });
  expect(await db.hf.job(waits!.id)).toMatchObject({ runAt, attempts: 0, status: 'pending' });
  const claimed = await claimAs(db.engine, 'w', { types });
  expect(claimed.map(({ id }) => id)).toEqual([due!.id]);
});

test('a discarded dead letter comes back; a completed job only if that is asked for', async () => {
  const [letter, done] = await db.hf.enqueueMany([work.item({ n: 1 }), work.item({ n: 2 })]);
  const held = (await claimAs(db.engine, 'w', { types })).map(heldOf);
  await deadLetter(db.engine, INBOX, 'w', [{ ...held[0]!, ...WHY }]);
  await complete(db.engine, INBOX, 'w', [{ ...held[1]!, result: '{"sent":true}' }]);
  await db.hf.discard([letter!.id]);
  await db.rows(
    `INSERT INTO holdfast.inbox_effects (job_id, name, value, generation) VALUES ($1, 'mail', '{}', 1)`,
    [done!.id],
  );
  expect(await db.hf.archive.replay('all', { dryRun: true })).toMatchObject({ found: 1, moved: 0 });
  expect(await db.hf.archive.replay([letter!.id, done!.id])).toMatchObject({ moved: 1 });
  await expect(db.hf.archive.replay({ status: 'completed' })).rejects.toThrow('completed: true');
  await expect(db.hf.archive.replay({})).rejects.toThrow("archive.replay('all')");
  const lost = db.hf.archive.replay({ type: undefined, newer: '2h' } as never);
  await expect(lost).rejects.toThrow('more jobs than you meant');
  await expect(db.hf.archive.replay({ status: 'pending' })).rejects.toThrow('not in the archive');
  expect((await db.hf.job(done!.id))?.status).toBe('completed');

  const again = await db.hf.archive.replay({ status: 'completed' }, { completed: true });
  expect(again).toMatchObject({ found: 1, moved: 1 });
  expect(await db.hf.job(done!.id)).toMatchObject({ status: 'pending', result: null });
  const markers = () => db.rows('SELECT name FROM holdfast.inbox_effects');
  expect(await markers()).toEqual([{ name: 'mail' }]);
  await db.hf.cancel([done!.id]);
  await db.hf.archive.replay([done!.id], { repeatEffects: true });
  expect(await markers()).toEqual([]);
});

test('a discarded dead letter is a dead letter again where that is asked for, and does not run', async () => {
  const { id } = await db.hf.enqueue(work, { n: 1 }, { maxAttempts: 3 });
  const held = await claimOne('w');
  await deadLetter(db.engine, INBOX, 'w', [{ ...held, ...WHY }]);
  const before = await db.hf.job(id);
  await db.hf.discard([id]);
  const [cancelled] = await db.hf.enqueueMany([work.item({ n: 2 })]);
  await db.hf.cancel([cancelled!.id]);
  const back = { asDeadLetters: true };
  expect(await db.hf.archive.replay('all', { ...back, dryRun: true })).toMatchObject({ found: 1 });
  await expect(db.hf.archive.replay({ status: 'cancelled' }, back)).rejects.toThrow('were dead');
  expect(await db.hf.archive.replay([id, cancelled!.id], back)).toMatchObject({ moved: 1 });
  expect(await db.hf.job(id)).toEqual({ ...before, position: expect.any(Number) });
  expect((await db.hf.job(cancelled!.id))?.status).toBe('cancelled');
  expect(await claimAs(db.engine, 'w', { types })).toEqual([]);
  expect((await db.hf.audit({ act: 'replay' })).acts[0]).toMatchObject({
    ...{ jobs: 1, changes: back },
  });
  expect(await db.hf.retry([id])).toEqual([id]);
});

describe('an idempotency key', () => {
  const enqueue = (n = 1) => db.hf.enqueue(work, { n }, { idempotencyKey: 'k' });

  test('stands for the replayed job, for another retention, also if it had been pruned', async () => {
    const { id } = await enqueue();
    await db.hf.cancel([id]);
    await db.rows(`UPDATE holdfast.inbox_idempotency SET expires_at = now() + interval '1 hour'`);
    await db.hf.archive.replay([id]);
    expect(await enqueue()).toEqual({ id, deduplicated: true });
    const left = `SELECT expires_at > now() + interval '6 days' AS anew FROM holdfast.inbox_idempotency`;
    expect(await db.rows(left)).toEqual([{ anew: true }]);

    await db.hf.cancel([id]);
    await db.rows('DELETE FROM holdfast.inbox_idempotency');
    await db.hf.archive.replay([id]);
    expect(await enqueue()).toEqual({ id, deduplicated: true });
    await expect(enqueue(2)).rejects.toMatchObject({ code: 'IDEMPOTENCY_MISMATCH' });
  });

  test('that stands for another job by now keeps the old one in the archive', async () => {
    const first = await enqueue();
    await db.hf.cancel([first.id]);
    await db.rows('UPDATE holdfast.inbox_idempotency SET expires_at = now()');
    const second = await enqueue();
    expect(second).toMatchObject({ deduplicated: false });
    const blocked = { found: 1, moved: 0, keyTaken: 1, finished: true };
    expect(await db.hf.archive.replay([first.id])).toEqual(blocked);
    // Finished, it is still the one for which the key stands.
    await db.hf.cancel([second.id]);
    expect(await db.hf.archive.replay([first.id])).toEqual(blocked);
    // Both at once: the one for which it stands comes back.
    expect(await db.hf.archive.replay('all')).toMatchObject({ found: 2, moved: 1, keyTaken: 1 });
    expect(await db.rows('SELECT id FROM holdfast.inbox')).toEqual([{ id: second.id }]);
  });
});

test('jobs of a key come back in the order of their enqueues, behind what came meanwhile', async () => {
  await db.hf.createQueue('orders', { ordering: 'key' });
  const step = job<{ n: number }>('step', { queue: 'orders' });
  const of = (n: number) => db.hf.enqueue(step, { n }, { partitionKey: 'order:1' });
  const ids: string[] = [];
  for (let n = 0; n < 5; n++) ids.push((await of(n)).id);
  for (const n of [3, 0, 4, 1, 2]) await db.hf.cancel([ids[n] as string], { queue: 'orders' });
  await of(9);
  const steps: number[] = [];
  const replayed = await db.hf.archive.replay(
    { partitionKey: 'order:1' },
    { queue: 'orders', batch: 2, onProgress: ({ moved }) => void steps.push(moved) },
  );
  expect(replayed).toMatchObject({ moved: 5, finished: true });
  expect(steps).toEqual([2, 4, 5, 5]);
  const line = await db.rows<{ n: number }>(
    `SELECT (payload ->> 'n')::int AS n FROM holdfast.orders ORDER BY position`,
  );
  expect(line.map(({ n }) => n)).toEqual([9, 0, 1, 2, 3, 4]);
});

test('two replays at once bring each job back once', async () => {
  const many = await db.hf.enqueueMany(Array.from({ length: 300 }, (_, n) => work.item({ n })));
  await db.hf.cancel(many.map(({ id }) => id));
  const both = await Promise.all([0, 1].map(() => db.hf.archive.replay('all', { batch: 20 })));
  expect(both.reduce((sum, { moved }) => sum + moved, 0)).toBe(300);
  expect(await db.rows('SELECT count(*)::int AS n FROM holdfast.inbox')).toEqual([{ n: 300 }]);
  expect(await db.rows('SELECT id FROM holdfast.inbox_archive')).toEqual([]);
});

test('a job that retention deletes meanwhile takes no idempotency key, and the others come back', async () => {
  const of = async (idempotencyKey: string) =>
    (await db.hf.enqueue(work, {}, { idempotencyKey })).id;
  const [gone, stays] = [await of('gone'), await of('stays')];
  await db.hf.cancel([gone, stays]);
  await db.rows('DELETE FROM holdfast.inbox_idempotency');
  const pruner = await db.pool.connect();
  try {
    await pruner.query('BEGIN');
    await pruner.query('DELETE FROM holdfast.inbox_archive WHERE id = $1', [gone]);
    const replayed = db.hf.archive.replay('all');
    const waits = `SELECT FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)
      WHERE NOT l.granted AND a.datname = current_database()`;
    await until('the replay waits', async () => (await db.rows(waits)).length > 0);
    await pruner.query('COMMIT');
    expect(await replayed).toEqual({ found: 2, moved: 1, keyTaken: 0, finished: true });
  } finally {
    await pruner.query('ROLLBACK');
    pruner.release();
  }
  const keys = await db.rows('SELECT key, job_id AS id FROM holdfast.inbox_idempotency');
  expect(keys).toEqual([{ key: 'stays', id: stays }]);
  expect(await db.hf.enqueue(work, {}, { idempotencyKey: 'gone' })).toMatchObject({
    deduplicated: false,
  });
});

test('an aborted replay ends after its batch, and the same call goes on', async () => {
  const many = await db.hf.enqueueMany(Array.from({ length: 30 }, (_, n) => work.item({ n })));
  await db.hf.cancel(many.map(({ id }) => id));
  const halt = new AbortController();
  const choice = { batch: 10, signal: halt.signal, onProgress: () => halt.abort() };
  expect(await db.hf.archive.replay('all', choice)).toMatchObject({ moved: 10, finished: false });
  expect(await db.hf.archive.replay('all')).toMatchObject({ moved: 20, finished: true });
});

test('retried dead letters and replayed jobs wake a worker that sleeps', async () => {
  const ran: string[] = [];
  start(db.hf, (w) => w.handle(work, ({ id }) => void ran.push(id)), { poll: '60s' });
  // Other test files have workers on the same server.
  const listens = `SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND mode = 'ShareLock'
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND classid = 'holdfast.fleet'::regclass AND objid = 0`;
  await until('the worker listens', async () => (await db.rows(listens)).length > 0);
  const letter = await plantJob(db, { type: 'work', status: 'dead_letter', parked: true });
  await db.hf.retry([letter]);
  await until('the dead letter ran', () => ran.includes(letter), { timeoutMs: 20_000 });
  await until('it is archived', async () => (await db.hf.job(letter))?.status === 'completed');
  await db.hf.archive.replay([letter], { completed: true });
  await until('it ran again', () => ran.length === 2, { timeoutMs: 20_000 });
});
