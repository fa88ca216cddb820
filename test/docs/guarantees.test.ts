/** The five guarantees of part 8, in its words. */
import { beforeEach, expect, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { isolate, markStarted } from '../../packages/holdfast/src/lease/marks.js';
import { renew } from '../../packages/holdfast/src/lease/renew.js';
import { recover } from '../../packages/holdfast/src/maintenance/recover.js';
import { cancelOwn } from '../../packages/holdfast/src/settle/cancel.js';
import { complete } from '../../packages/holdfast/src/settle/complete.js';
import { deadLetter } from '../../packages/holdfast/src/settle/dead-letter.js';
import { fail } from '../../packages/holdfast/src/settle/fail.js';
import { release, snooze } from '../../packages/holdfast/src/settle/release.js';
import { claimAs, heldOf } from '../support/claiming.js';
import { INBOX, testDatabase } from '../support/database.js';

const db = testDatabase();
const receipt = job<{ order: number }>('send_receipt');
const types = ['send_receipt'];

beforeEach(() => db.rows('DELETE FROM holdfast.inbox'));

const rowOf = async (id: string) =>
  (await db.rows('SELECT * FROM holdfast.inbox WHERE id = $1', [id]))[0];
const expire = () =>
  db.rows(`UPDATE holdfast.inbox SET lease_expires_at = now() - interval '1 second'
    WHERE status = 'processing'`);

test('Producer retry with the same idempotency_key creates one logical row.', async () => {
  const options = { partitionKey: 'order:9182', idempotencyKey: 'receipt:9182' };
  const first = await db.hf.enqueue(receipt, { order: 9182 }, options);
  const retries = await Promise.all(
    Array.from({ length: 10 }, () => db.hf.enqueue(receipt, { order: 9182 }, options)),
  );
  expect(retries).toEqual(retries.map(() => ({ id: first.id, deduplicated: true })));
  const rows = await db.rows(
    `SELECT id FROM holdfast.inbox WHERE idempotency_key = 'receipt:9182'`,
  );
  expect(rows).toEqual([{ id: first.id }]);
});

test('Two workers claiming concurrently never receive the same row in the same generation.', async () => {
  const total = 2_000;
  await db.hf.enqueueMany(
    Array.from({ length: total }, (_, order) =>
      receipt.item({ order }, { partitionKey: `o:${order % 97}` }),
    ),
  );
  const seen = new Map<string, string>();
  // Every other lease runs out at once, so that rows are claimed again under new generations.
  async function work(worker: string): Promise<void> {
    for (let round = 0; round < 40; round++) {
      const leaseMs = round % 2 === 0 ? 1 : 90_000;
      const jobs = await claimAs(db.engine, worker, { types, limit: 100, leaseMs });
      for (const one of jobs) {
        const claim = `${one.id}/${one.leaseGeneration}`;
        expect(seen.get(claim), `${claim} by ${worker}`).toBeUndefined();
        seen.set(claim, worker);
      }
    }
  }
  await Promise.all(['w1', 'w2', 'w3', 'w4'].map(work));
  expect(new Set([...seen.keys()].map((claim) => claim.split('/')[0])).size).toBe(total);
  expect(seen.size).toBeGreaterThan(total);
  expect(new Set(seen.values()).size).toBe(4);
});

test('An expired lease is returned to pending and can be claimed by a new worker.', async () => {
  const { id } = await db.hf.enqueue(receipt, { order: 9182 });
  await claimAs(db.engine, 'w1', { types });
  expect(await claimAs(db.engine, 'w2', { types })).toEqual([]);
  await expire();
  await recover(db.engine, INBOX, { limit: 100, recoverer: 'w2' });
  expect(await rowOf(id)).toMatchObject({
    status: 'pending',
    claimed_by: null,
    claimed_at: null,
    lease_expires_at: null,
  });
  const [job] = await claimAs(db.engine, 'w2', { types });
  expect(job).toMatchObject({ id, leaseGeneration: 2 });
  expect(await rowOf(id)).toMatchObject({ status: 'processing', claimed_by: 'w2' });
});

test('An expired lease can be claimed by a new worker before anybody has returned it.', async () => {
  const { id } = await db.hf.enqueue(receipt, { order: 9182 });
  await claimAs(db.engine, 'w1', { types });
  await expire();
  const [job] = await claimAs(db.engine, 'w2', { types });
  expect(job).toMatchObject({ id, leaseGeneration: 2 });
});

test('A stale worker completing with an old claimed_by or fence token affects zero rows.', async () => {
  const { id } = await db.hf.enqueue(receipt, { order: 9182 });
  const [first] = await claimAs(db.engine, 'w1', { types });
  await expire();
  const [second] = await claimAs(db.engine, 'w2', { types });
  const before = await rowOf(id);
  const stale = [
    ['w1', heldOf(first!)],
    ['w1', heldOf(second!)],
    ['w2', heldOf(first!)],
  ] as const;
  const words = { error: 'late', summary: 'late', reason: 'late', delayMs: 0 };
  for (const [worker, held] of stale) {
    expect(await complete(db.engine, INBOX, worker, [held])).toEqual([]);
    expect(await fail(db.engine, INBOX, worker, [{ ...held, ...words }])).toEqual([]);
    expect(await deadLetter(db.engine, INBOX, worker, [{ ...held, ...words }])).toEqual([]);
    expect(await release(db.engine, INBOX, worker, [held])).toEqual([]);
    expect(await snooze(db.engine, INBOX, worker, [{ ...held, ...words }])).toEqual([]);
    expect(await cancelOwn(db.engine, INBOX, worker, [{ ...held, ...words }])).toEqual([]);
    expect(await renew(db.engine, INBOX, worker, [held], 90_000)).toEqual([]);
    expect(await isolate(db.engine, INBOX, worker, held)).toBe(false);
    expect(await markStarted(db.engine, INBOX, worker, held)).toBe(false);
  }
  expect(await rowOf(id)).toEqual(before);
  expect(await db.rows('SELECT id FROM holdfast.inbox_archive WHERE id = $1', [id])).toEqual([]);
  expect(await complete(db.engine, INBOX, 'w2', [heldOf(second!)])).toEqual([id]);
});

test('A row past max_attempts lands in dead_letter and no longer blocks the stream.', async () => {
  const options = { partitionKey: 'order:9182', maxAttempts: 3 };
  const { id } = await db.hf.enqueue(receipt, { order: 1 }, options);
  const next = await db.hf.enqueue(receipt, { order: 2 }, options);
  for (let attempt = 1; attempt <= 3; attempt++) {
    const [job] = await claimAs(db.engine, 'w1', { types, limit: 1 });
    expect(job).toMatchObject({ id, attempts: attempt });
    const failure = { ...heldOf(job!), delayMs: 0, error: 'no paper', summary: 'no paper' };
    await fail(db.engine, INBOX, 'w1', [failure]);
    // The later job of the stream is put behind it again, so that the failing one is claimed first.
    await db.rows('UPDATE holdfast.inbox SET available_at = now() WHERE id = $1', [next.id]);
  }
  expect(await rowOf(id)).toMatchObject({
    status: 'dead_letter',
    attempts: 3,
    claimed_by: null,
    last_error: 'no paper',
  });
  const claimed = await claimAs(db.engine, 'w1', { types });
  expect(claimed.map((job) => job.id)).toEqual([next.id]);
  expect(await complete(db.engine, INBOX, 'w1', claimed.map(heldOf))).toEqual([next.id]);
  expect(await claimAs(db.engine, 'w1', { types })).toEqual([]);
});
