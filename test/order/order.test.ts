/**
 * Order per key, as the row alone keeps it: whoever claims, with whatever view of the ring, gets the head
 * of a key and what follows it without a gap, and nothing of a key that somebody else has in hand.
 */
import { beforeEach, describe, expect, test } from 'vitest';
import type { ClaimedJob } from '../../packages/holdfast/src/claim/take.js';
import { type EnqueueOptions, job } from '../../packages/holdfast/src/index.js';
import { isolate, markStarted } from '../../packages/holdfast/src/lease/marks.js';
import { recover } from '../../packages/holdfast/src/maintenance/recover.js';
import { discard, retry } from '../../packages/holdfast/src/operate/dead-letters.js';
import { setPaused } from '../../packages/holdfast/src/operate/queue.js';
import { complete } from '../../packages/holdfast/src/settle/complete.js';
import { deadLetter } from '../../packages/holdfast/src/settle/dead-letter.js';
import { fail } from '../../packages/holdfast/src/settle/fail.js';
import { release, snooze } from '../../packages/holdfast/src/settle/release.js';
import { claimSuspected, heldOf, numbers } from '../support/claiming.js';
import { INBOX, testDatabase } from '../support/database.js';
import { bucketOnly, claimInOrder } from '../support/ordered.js';

const db = testDatabase();
const step = job<{ n: number }>('step');
const KEY = 'order:9182';
const [ME, OTHER] = ['worker-me', 'worker-other'];
const ERROR = { error: 'Error: no paper', summary: 'no paper' };

beforeEach(async () => {
  await db.rows('TRUNCATE holdfast.inbox, holdfast.inbox_archive, holdfast.inbox_claims');
  await db.hf.configureQueue('inbox', { ordering: 'key' });
});

/** Jobs from..to of a key, enqueued one after the other. */
async function line(from: number, to: number, key = KEY, options: EnqueueOptions = {}) {
  const items = Array.from({ length: to - from + 1 }, (_, n) =>
    step.item({ n: from + n }, { partitionKey: key, ...options }),
  );
  return (await db.hf.enqueueMany(items)).map(({ id }) => id);
}

function runsOf(jobs: readonly ClaimedJob[]): ClaimedJob[][] {
  const keys = [...new Set(jobs.map((one) => one.partitionKey))];
  return keys.map((key) => jobs.filter((one) => one.partitionKey === key));
}

const claim = (options: Parameters<typeof claimInOrder>[2] = {}, by = ME) =>
  claimInOrder(db.engine, by, options);
const taken = async (options: Parameters<typeof claimInOrder>[2] = {}, by = ME) =>
  numbers(await claim(options, by));
const completeAll = (jobs: readonly ClaimedJob[], by = ME) =>
  complete(db.engine, INBOX, by, jobs.map(heldOf));
const failOne = (one: ClaimedJob, delayMs: number) =>
  fail(db.engine, INBOX, ME, [{ ...heldOf(one), delayMs, ...ERROR }]);
const deadLetterOne = (one: ClaimedJob) =>
  deadLetter(db.engine, INBOX, ME, [{ ...heldOf(one), ...ERROR }]);
const expire = (ids: readonly string[]) =>
  db.rows(
    `UPDATE holdfast.inbox SET lease_expires_at = now() - interval '1 second' WHERE id = ANY ($1)`,
    [ids],
  );
const placeOf = async (id: string) =>
  (await db.rows('SELECT status::text, parked FROM holdfast.inbox WHERE id = $1', [id]))[0];

describe('the next job of a key starts', () => {
  test('when the one before it is completed, and not earlier', async () => {
    await line(1, 3);
    for (const n of [1, 2, 3]) {
      const { jobs } = await claim({ run: 1 });
      expect(numbers({ jobs })).toEqual([n]);
      expect(await taken({}, OTHER)).toEqual([]);
      expect(await taken()).toEqual([]);
      await completeAll(jobs);
    }
    expect(await taken()).toEqual([]);
  });

  test('in the order of the enqueues, whatever their priorities', async () => {
    for (const [n, priority] of ([4, 3, 2, 1] as const).entries())
      await line(n, n, KEY, { priority });
    expect(await taken()).toEqual([0, 1, 2, 3]);
  });

  test('not while the one before it waits for a retry or for its time, or was snoozed', async () => {
    await line(1, 2);
    const [first] = (await claim({ run: 1 })).jobs;
    await failOne(first!, 60_000);
    expect(await taken()).toEqual([]);
    await db.rows(`UPDATE holdfast.inbox SET available_at = now() WHERE id = $1`, [first!.id]);
    const [again] = (await claim({ run: 1 })).jobs;
    expect(again).toMatchObject({ id: first!.id, attempts: 2 });
    await snooze(db.engine, INBOX, ME, [{ ...heldOf(again!), delayMs: 60_000 }]);
    expect(await taken()).toEqual([]);
    await line(1, 1, 'order:2', { delay: '1h' });
    await line(2, 2, 'order:2');
    expect(await taken()).toEqual([]);
  });

  test('after a release with the job that was released', async () => {
    await line(1, 2);
    const { jobs } = await claim({ run: 1 });
    await release(db.engine, INBOX, ME, jobs.map(heldOf));
    expect(await taken({}, OTHER)).toEqual([1, 2]);
  });

  test('while other keys are blocked, however many', async () => {
    const rows = Array.from({ length: 300 }, (_, n) =>
      step.item({ n }, { partitionKey: `b${n}`, delay: '1h' }),
    );
    await db.hf.enqueueMany(rows);
    await db.hf.enqueueMany(
      rows.map(({ options }) => step.item({ n: 1 }, { partitionKey: options.partitionKey! })),
    );
    await line(7, 8, 'free');
    expect(await taken()).toEqual([7, 8]);
  });

  test('of nothing while the queue is paused', async () => {
    await line(1, 2);
    await setPaused(db.plain, INBOX, true);
    const claimed = await claim();
    await setPaused(db.plain, INBOX, false);
    expect(claimed).toMatchObject({ jobs: [], stop: null, epoch: expect.any(Number) });
    expect(await taken()).toEqual([1, 2]);
  });
});

describe('a dead letter', () => {
  test.each(['by a dead letter', 'by its last failure'])('frees its key (%s)', async (how) => {
    const [id] = await line(1, 2, KEY, { maxAttempts: 1 });
    const [first] = (await claim({ run: 1 })).jobs;
    if (how === 'by a dead letter') await deadLetterOne(first!);
    else await failOne(first!, 60_000);
    expect(await placeOf(id!)).toEqual({ status: 'dead_letter', parked: true });
    expect(await taken()).toEqual([2]);
  });

  test('goes to the end of the line when a human retries it, and several keep their order', async () => {
    const ids = await line(1, 3);
    for (let n = 0; n < 2; n++) {
      const [head] = (await claim({ run: 1 })).jobs;
      await deadLetterOne(head!);
    }
    await line(4, 4);
    const moved = await retry(db.plain, INBOX, [ids[1]!, ids[0]!]);
    expect(moved.sort()).toEqual(ids.slice(0, 2).sort());
    expect(await placeOf(ids[0]!)).toEqual({ status: 'pending', parked: false });
    await line(5, 5);
    expect(await taken()).toEqual([3, 4, 1, 2, 5]);
  });

  test('holds its key if it is to, until a human retries or discards it', async () => {
    await db.hf.configureQueue('inbox', { ordering: 'key', deadLetters: 'hold' });
    for (const [n, key] of [1, 1, 2, 2].entries())
      await db.hf.enqueue(step, { n }, { partitionKey: `k${key}` });
    const heads = (await claim({ run: 1 })).jobs;
    for (const head of heads) await deadLetterOne(head);
    expect(await placeOf(heads[0]!.id)).toEqual({ status: 'dead_letter', parked: false });
    expect(await taken()).toEqual([]);
    const [k1, k2] = heads.sort((a, b) => (a.partitionKey < b.partitionKey ? -1 : 1));
    await retry(db.plain, INBOX, [k1!.id]);
    await discard(db.plain, INBOX, [k2!.id]);
    expect((await taken()).sort()).toEqual([0, 1, 3]);
  });

  test('that had freed its key cannot be made to overtake by hand', async () => {
    const [id] = await line(1, 2);
    await deadLetterOne((await claim({ run: 1 })).jobs[0]!);
    const byHand = `UPDATE holdfast.inbox SET status = 'pending', available_at = now() WHERE id = $1`;
    await expect(db.rows(byHand, [id])).rejects.toMatchObject({ constraint: 'inbox_state_check' });
  });
});

describe('a run', () => {
  test.each([
    ['is not due', `available_at = now() + interval '1 hour'`],
    ['is of a type that is not handled', `type = 'other'`],
    ['is of a newer version', 'version = 2'],
    ['is a suspect', 'crashes = 2'],
    ['crashed once', 'crashes = 1'],
    ['has failed before', 'attempts = 1'],
    [
      'is a dead letter that holds the key',
      `status = 'dead_letter', available_at = 'infinity', parked = false`,
    ],
  ])('ends before a job that %s', async (_, change) => {
    const ids = await line(1, 5);
    await db.rows(`UPDATE holdfast.inbox SET ${change} WHERE id = $1`, [ids[2]]);
    expect(await taken()).toEqual([1, 2]);
  });

  test.each(['attempts', 'crashes'])(
    'is one job if that has %s: it may end badly',
    async (what) => {
      const [id] = await line(1, 3);
      await db.rows(`UPDATE holdfast.inbox SET ${what} = 1 WHERE id = $1`, [id]);
      expect(await taken()).toEqual([1]);
    },
  );

  test('has as many jobs as were asked for, of one key and of all', async () => {
    await line(1, 300);
    await line(1, 300, 'order:2');
    const { jobs } = await claim({ run: 200, limit: 250 });
    const runs = runsOf(jobs);
    expect(runs.map((run) => run.length)).toEqual([200, 50]);
    for (const run of runs)
      expect(numbers({ jobs: run })).toEqual(Array.from(run, (_, n) => n + 1));
  });

  test('is not taken while a later job of the key is still in somebody’s hand', async () => {
    await line(1, 3);
    const { jobs } = await claim();
    await release(db.engine, INBOX, ME, [heldOf(jobs[0]!)]);
    expect(await taken({}, OTHER)).toEqual([]);
    await release(db.engine, INBOX, ME, jobs.slice(1).map(heldOf));
    expect(await taken({}, OTHER)).toEqual([1, 2, 3]);
  });

  test.each([1, 2, 3])('is not taken in part when its job %i is locked', async (n) => {
    const ids = await line(1, 3);
    await line(7, 7, 'order:2');
    const locker = await db.pool.connect();
    await locker.query('BEGIN');
    await locker.query('SELECT FROM holdfast.inbox WHERE id = $1 FOR UPDATE', [ids[n - 1]]);
    const meanwhile = await taken({ run: 2 });
    await locker.query('ROLLBACK');
    locker.release();
    expect(meanwhile).toEqual([7]);
    expect(await taken({ run: 2 })).toEqual([1, 2]);
  });

  test('is not taken while one stands behind it that may end badly, and is locked', async () => {
    const ids = await line(1, 3);
    await line(7, 7, 'order:2');
    await db.rows('UPDATE holdfast.inbox SET attempts = 1 WHERE id = $1', [ids[2]]);
    const locker = await db.pool.connect();
    await locker.query('BEGIN');
    await locker.query('SELECT FROM holdfast.inbox WHERE id = $1 FOR UPDATE', [ids[2]]);
    const meanwhile = await taken();
    await locker.query('ROLLBACK');
    locker.release();
    expect(meanwhile).toEqual([7]);
    expect(await taken()).toEqual([1, 2]);
  });

  test('a job that its producer commits late waits for those that were claimed before it', async () => {
    const late = await db.pool.connect();
    await late.query('BEGIN');
    await db.hf.enqueue(step, { n: 1 }, { partitionKey: KEY, tx: late });
    await line(2, 3);
    const { jobs } = await claim({ run: 1 });
    expect(numbers({ jobs })).toEqual([2]);
    await late.query('COMMIT');
    late.release();
    expect(await taken({ run: 1 }, OTHER)).toEqual([]);
    await completeAll(jobs);
    expect(await taken({}, OTHER)).toEqual([1, 3]);
  });
});

describe('after a crash', () => {
  const die = async (worker: string) => {
    await db.rows(
      `INSERT INTO holdfast.workers (id, status) VALUES ($1, 'dead')
      ON CONFLICT (id) DO UPDATE SET status = 'dead'`,
      [worker],
    );
    return recover(db.engine, INBOX, { limit: 1_000, recoverer: ME });
  };

  test('jobs come one at a time, with their attempt restored, until they have ended well', async () => {
    await line(1, 3);
    await claim({}, OTHER);
    expect(await taken()).toEqual([]);
    expect(await die(OTHER)).toHaveLength(3);
    for (const n of [1, 2, 3]) {
      const { jobs } = await claim();
      expect(numbers({ jobs })).toEqual([n]);
      expect(jobs[0]).toMatchObject({ crashes: 1, attempts: 1, leaseGeneration: 2 });
      expect(await taken()).toEqual([]);
      await completeAll(jobs);
    }
  });

  test('an expired head is not run beside a job of its key whose lease lives', async () => {
    const ids = await line(1, 4);
    await claim({}, OTHER);
    for (let expired = 1; expired < 4; expired++) {
      await expire(ids.slice(0, expired));
      expect(await taken()).toEqual([]);
    }
    await expire(ids);
    expect(await taken()).toEqual([1]);
  });

  test('whole runs are recovered, also while the queue is paused', async () => {
    await line(1, 250);
    await line(1, 2, 'order:2');
    const { jobs } = await claim({ run: 200 }, OTHER);
    await setPaused(db.plain, INBOX, true);
    const back = await die(OTHER);
    await setPaused(db.plain, INBOX, false);
    expect(back.map((row) => row.id).sort()).toEqual(jobs.map((one) => one.id).sort());
    const one = await claim({ stretches: bucketOnly(KEY) });
    expect(numbers(one)).toEqual([1]);
    expect(one.jobs[0]).toMatchObject({ crashes: 1, attempts: 1 });
  });

  test('a suspect holds its key, and is claimed apart, as its head only', async () => {
    const ids = await line(1, 3);
    await db.rows('UPDATE holdfast.inbox SET crashes = 2 WHERE id = ANY ($1)', [ids.slice(1)]);
    // Behind a job that is not settled, a suspect waits as any other does.
    const first = await claim();
    expect(numbers(first)).toEqual([1]);
    expect(numbers(await claimSuspected(db.engine, OTHER))).toEqual([]);
    await completeAll(first.jobs);
    expect(await taken()).toEqual([]);
    // The second of the key is the head now; the third stands behind it.
    const second = await claimSuspected(db.engine, OTHER);
    expect(numbers(second)).toEqual([2]);
    expect(await taken()).toEqual([]);
    await completeAll(second.jobs, OTHER);
    expect(numbers(await claimSuspected(db.engine, OTHER))).toEqual([3]);
  });

  test('a job that spent its last attempt alone becomes a dead letter, and frees its key', async () => {
    const [id] = await line(1, 2, KEY, { maxAttempts: 1 });
    const { jobs } = await claim({ run: 1 }, OTHER);
    await isolate(db.engine, INBOX, OTHER, heldOf(jobs[0]!));
    await markStarted(db.engine, INBOX, OTHER, heldOf(jobs[0]!));
    expect(await die(OTHER)).toMatchObject([{ status: 'dead_letter' }]);
    expect(await placeOf(id!)).toEqual({ status: 'dead_letter', parked: true });
    expect(await taken()).toEqual([2]);
  });

  test('and holds its key if dead letters are to', async () => {
    await db.hf.configureQueue('inbox', { ordering: 'key', deadLetters: 'hold' });
    const [id] = await line(1, 2, KEY, { maxAttempts: 1 });
    const { jobs } = await claim({ run: 1 }, OTHER);
    await isolate(db.engine, INBOX, OTHER, heldOf(jobs[0]!));
    await markStarted(db.engine, INBOX, OTHER, heldOf(jobs[0]!));
    await die(OTHER);
    expect(await placeOf(id!)).toEqual({ status: 'dead_letter', parked: false });
    expect(await taken()).toEqual([]);
  });
});

describe('completions of a run', () => {
  const chained = (jobs: readonly ClaimedJob[]) =>
    jobs.map((one, n) => ({ ...heldOf(one), after: jobs[n - 1]?.id ?? null }));
  const byId = (a: { id: string }, b: { id: string }) => (a.id < b.id ? -1 : 1);

  test('are made together, whatever the order of their ids', async () => {
    await line(1, 50);
    await line(1, 5, 'order:2');
    const { jobs } = await claim();
    const run = runsOf(jobs).flatMap(chained);
    const done = await complete(db.engine, INBOX, ME, run.sort(byId));
    expect(done).toHaveLength(55);
  });

  test('end before the first job that is lost, so that none is completed ahead of it', async () => {
    await line(1, 4);
    const { jobs } = await claim();
    await expire([jobs[1]!.id]);
    const done = await complete(db.engine, INBOX, ME, chained(jobs).sort(byId));
    expect(done).toEqual([jobs[0]!.id]);
    // In a statement of its own, too.
    expect(await complete(db.engine, INBOX, ME, chained(jobs).slice(2))).toEqual([]);
    const left = await db.rows<{ n: number }>(
      `SELECT (payload ->> 'n')::int AS n FROM holdfast.inbox ORDER BY position`,
    );
    expect(left.map(({ n }) => n)).toEqual([2, 3, 4]);
  });

  test('do not count behind a job that somebody else took away in the meantime', async () => {
    await line(1, 2);
    const { jobs } = await claim();
    // Cancelled, or taken over and completed: from here they look the same, so what follows runs again.
    await db.hf.cancel([jobs[0]!.id]);
    expect(await complete(db.engine, INBOX, ME, chained(jobs))).toEqual([]);
    expect(await complete(db.engine, INBOX, ME, chained(jobs).slice(1))).toEqual([jobs[1]!.id]);
  });

  test('are not disturbed by a renewal that moves the rows meanwhile', async () => {
    await line(1, 2);
    const { jobs } = await claim();
    const renewal = await db.pool.connect();
    await renewal.query('BEGIN');
    await renewal.query(`UPDATE holdfast.inbox SET lease_expires_at = now() + interval '90 s'`);
    const done = complete(db.plain, INBOX, ME, chained(jobs));
    const [blocked] = [
      `SELECT count(*)::int AS n FROM pg_stat_activity
      WHERE datname = current_database() AND wait_event_type = 'Lock'`,
    ];
    await expect.poll(async () => (await db.rows<{ n: number }>(blocked!))[0]?.n).toBe(1);
    await renewal.query('COMMIT');
    renewal.release();
    expect((await done).sort()).toEqual(jobs.map((one) => one.id).sort());
  });
});
