/**
 * Claiming by time, as the rows alone decide it: oldest first within a priority, every job in one hand, and
 * everything that a worker took findable by its claims. What crashes is found again at any backlog.
 */
import { beforeEach, describe, expect, test } from 'vitest';
import type { ClaimedJob } from '../../packages/holdfast/src/claim/take.js';
import { frontLines } from '../../packages/holdfast/src/claim/time/lines.js';
import { job } from '../../packages/holdfast/src/index.js';
import { markStarted } from '../../packages/holdfast/src/lease/marks.js';
import {
  forgetClaims,
  forgetDeadClaims,
  recover,
  recoverJobs,
} from '../../packages/holdfast/src/maintenance/recover.js';
import { retry } from '../../packages/holdfast/src/operate/dead-letters.js';
import { setPaused } from '../../packages/holdfast/src/operate/queue.js';
import { engineExecutor } from '../../packages/holdfast/src/postgres/queryable.js';
import { load } from '../../packages/holdfast/src/postgres/statement.js';
import { complete, completedBefore } from '../../packages/holdfast/src/settle/complete.js';
import { deadLetter } from '../../packages/holdfast/src/settle/dead-letter.js';
import { fail, failedBefore } from '../../packages/holdfast/src/settle/fail.js';
import { release, releaseClaims } from '../../packages/holdfast/src/settle/release.js';
import {
  claimByTime,
  claimSuspected,
  heldOf,
  numbers,
  type TimeOptions,
} from '../support/claiming.js';
import { INBOX, testDatabase } from '../support/database.js';
import { long } from '../support/long.js';
import { claimInOrder } from '../support/ordered.js';
import { accesses, buffers, explained, planSession } from '../support/plans.js';

const db = testDatabase();
const step = job<{ n: number }>('step');
const [ME, OTHER] = ['worker-me', 'worker-other'];
/** Far more than would be read by a plan that does not use the claims. */
const BACKLOG = long(30_000, 100_000);

beforeEach(async () => {
  await db.rows(
    'TRUNCATE holdfast.inbox, holdfast.inbox_archive, holdfast.inbox_claims, holdfast.workers',
  );
});

/** Jobs from..to, enqueued in one statement. */
async function enqueue(from: number, to: number, options: Parameters<typeof step.item>[1] = {}) {
  const items = Array.from({ length: to - from + 1 }, (_, n) =>
    step.item({ n: from + n }, options),
  );
  return (await db.hf.enqueueMany(items)).map(({ id }) => id);
}

const claim = (options: TimeOptions = {}, by = ME) => claimByTime(db.engine, by, options);
const taken = async (options: TimeOptions = {}, by = ME) => numbers(await claim(options, by));
const idsOf = ({ jobs }: { jobs: readonly ClaimedJob[] }) => jobs.map(({ id }) => id).sort();
const upTo = (count: number) => Array.from({ length: count }, (_, n) => n + 1);
const rowOf = async (id: string) =>
  (await db.rows('SELECT * FROM holdfast.inbox WHERE id = $1', [id]))[0];
const expire = () =>
  db.rows(`UPDATE holdfast.inbox SET lease_expires_at = now() - interval '1 second'
    WHERE status = 'processing'`);
/** The handlers of all that is claimed were called. */
const begun = () => db.rows(`UPDATE holdfast.inbox SET started = true WHERE status = 'processing'`);
const claimRows = () =>
  db.rows<{ worker_id: string; number: number; jobs: string[] }>(
    'SELECT worker_id, number::int, jobs FROM holdfast.inbox_claims ORDER BY number',
  );
const die = (worker: string) =>
  db.rows(
    `INSERT INTO holdfast.workers (id, status) VALUES ($1, 'dead')
     ON CONFLICT (id) DO UPDATE SET status = 'dead'`,
    [worker],
  );
const live = (worker: string) => db.rows('INSERT INTO holdfast.workers (id) VALUES ($1)', [worker]);
const recovered = (limit = 1_000) => recover(db.engine, INBOX, { limit, recoverer: ME });

describe('a claim takes', () => {
  test('the oldest due jobs first, whatever the order in which they were written', async () => {
    for (const n of [3, 1, 2])
      await db.rows(
        `INSERT INTO holdfast.inbox (type, partition_key, partition_bucket, payload, available_at)
         VALUES ('step', 'k', 0, jsonb_build_object('n', $1::int), now() - (10 - $1::int) * interval '1 s')`,
        [n],
      );
    await enqueue(4, 9);
    expect(await taken({ limit: 2 })).toEqual([1, 2]);
    expect(await taken({ limit: 3 })).toEqual([3, 4, 5]);
    expect(await taken()).toEqual([6, 7, 8, 9]);
  });

  test('jobs of one moment in the order in which they were enqueued', async () => {
    await enqueue(1, 50);
    const inTens: number[] = [];
    for (let n = 0; n < 5; n++) inTens.push(...(await taken({ limit: 10 })));
    expect(inTens).toEqual(upTo(50));
  });

  test('a higher priority first, however old the others are', async () => {
    for (const priority of [4, 2, 3, 1] as const) await enqueue(priority, priority, { priority });
    expect(await taken({ limit: 3 })).toEqual([1, 2, 3]);
    expect(await taken()).toEqual([4]);
  });

  test('what is due, of a type and version that it handles, and nothing while the queue is paused', async () => {
    const ids = await enqueue(1, 4);
    await db.rows("UPDATE holdfast.inbox SET type = 'other' WHERE id = $1", [ids[0]]);
    await db.rows('UPDATE holdfast.inbox SET version = 2 WHERE id = $1', [ids[1]]);
    await db.rows("UPDATE holdfast.inbox SET available_at = now() + interval '1 h' WHERE id = $1", [
      ids[2],
    ]);
    await setPaused(db.plain, INBOX, true);
    const paused = await claim();
    await setPaused(db.plain, INBOX, false);
    expect(paused).toMatchObject({ jobs: [], epoch: expect.any(Number) });
    expect(await taken()).toEqual([4]);
    expect(await taken({ versions: { step: 2 } })).toEqual([2]);
    expect(await taken({ versions: { other: 1 } })).toEqual([1]);
  });

  test('nothing by time from a queue that is read by key, nor by key from one that is read by time', async () => {
    await db.hf.createQueue('by_key', { ordering: 'key' });
    const names = { schema: 'holdfast', queue: 'by_key' };
    await db.hf.enqueue(job<{ n: number }>('step', { queue: 'by_key' }), { n: 7 });
    await enqueue(1, 1);
    expect(await taken({ names })).toEqual([]);
    expect((await claimInOrder(db.engine, ME)).jobs).toEqual([]);
    expect(numbers(await claimInOrder(db.engine, ME, { names }))).toEqual([7]);
    expect(await taken()).toEqual([1]);
  });

  test('only what comes after its cursors', async () => {
    await enqueue(1, 10);
    const first = await claim({ limit: 4 });
    const last = first.jobs.at(-1)!;
    await release(db.engine, INBOX, ME, first.jobs.map(heldOf));
    const lines = frontLines({ step: 1 }, 100).map((line) => ({
      ...line,
      afterAt: last.cursorAt,
      afterPosition: last.cursorPosition,
    }));
    expect(await taken({ lines })).toEqual([5, 6, 7, 8, 9, 10]);
    expect(await taken()).toEqual([1, 2, 3, 4]);
  });

  test('each job once, however many claim at the same time', async () => {
    const JOBS = 4_000;
    for (let from = 1; from <= JOBS; from += 1_000) await enqueue(from, from + 999);
    const all: string[] = [];
    const claimer = async (worker: string) => {
      for (;;) {
        const { jobs } = await claim({ limit: 100 }, worker);
        all.push(...jobs.map(({ id, leaseGeneration }) => `${id} ${leaseGeneration}`));
        if (jobs.length > 0) continue;
        // Perhaps what is left was locked just then.
        const rows = await db.rows("SELECT FROM holdfast.inbox WHERE status = 'pending' LIMIT 1");
        if (rows.length === 0) return;
      }
    };
    await Promise.all(['a', 'b', 'c', 'd'].map(claimer));
    expect(all).toHaveLength(JOBS);
    expect(new Set(all).size).toBe(JOBS);
  });

  test('what others have locked is passed over without waiting', async () => {
    const [mine] = await enqueue(1, 10);
    const locker = await db.pool.connect();
    await locker.query('BEGIN');
    await locker.query('SELECT FROM holdfast.inbox WHERE id = $1 FOR UPDATE', [mine]);
    const meanwhile = await taken();
    await locker.query('ROLLBACK');
    locker.release();
    expect(meanwhile).toEqual([2, 3, 4, 5, 6, 7, 8, 9, 10]);
    expect(await taken()).toEqual([1]);
  });

  test('a job whose lease ran out, and gives the attempt back that nobody finished', async () => {
    const [id] = await enqueue(1, 1);
    await claim({}, OTHER);
    expect(await taken()).toEqual([]);
    await expire();
    const { jobs } = await claim();
    expect(jobs[0]).toMatchObject({ id, attempts: 1, leaseGeneration: 2, crashes: 1, taken: true });
    // After its second crash it is a suspect: others find it, not this claim.
    await begun();
    await expire();
    expect((await claim({}, OTHER)).jobs[0]).toMatchObject({ attempts: 1, crashes: 2 });
    await begun();
    await expire();
    expect(await taken()).toEqual([]);
    expect(await recovered()).toHaveLength(1);
    expect(await rowOf(id!)).toMatchObject({ status: 'pending', crashes: 3, attempts: 0 });
  });
});

describe('an aged claim takes', () => {
  const LOW = frontLines({ step: 1 }, 100).filter(({ priority }) => priority > 1);
  const age = (ids: readonly string[], interval: string) =>
    db.rows('UPDATE holdfast.inbox SET available_at = now() - $2::interval WHERE id = ANY ($1)', [
      ids,
      interval,
    ]);

  test('what has been due for longer than the queue says, oldest first, and nothing if it is off', async () => {
    await enqueue(1, 5, { priority: 1 });
    const low = await enqueue(6, 8, { priority: 4 });
    await age(low.slice(0, 2), '11 min');
    await age(low.slice(1, 2), '12 min');
    await db.hf.configureQueue('inbox', { ageAfter: 'off' });
    expect(await taken({ aged: true, lines: LOW })).toEqual([]);
    await db.hf.configureQueue('inbox', { ageAfter: '10m' });
    expect(await taken({ aged: true, lines: LOW })).toEqual([7, 6]);
    expect(await taken({ aged: true, lines: LOW })).toEqual([]);
    expect(await taken()).toEqual([1, 2, 3, 4, 5, 8]);
  });

  test('only of the priorities that it is given, and up to its limit', async () => {
    for (const priority of [2, 3, 4] as const) await age(await enqueue(1, 3, { priority }), '1 h');
    const three = LOW.filter(({ priority }) => priority === 3);
    const { jobs } = await claim({ aged: true, lines: three, limit: 2 });
    expect(jobs.map(({ priority }) => priority)).toEqual([3, 3]);
  });
});

describe('a claim says', () => {
  test('when the next job is due, also of other priorities', async () => {
    expect((await claim({ ask: true })).news?.dueInMs).toBeNull();
    await enqueue(1, 1, { delay: '1h' });
    await enqueue(2, 2, { delay: '90s', priority: 4 });
    await enqueue(3, 3);
    const { news, jobs } = await claim({ ask: true });
    expect(numbers({ jobs })).toEqual([3]);
    expect(news?.dueInMs).toBeGreaterThan(80_000);
    expect(news?.dueInMs).toBeLessThanOrEqual(90_000);
    expect((await claim()).news).toBeNull();
  });

  test('whether suspects wait', async () => {
    const [id] = await enqueue(1, 1);
    expect((await claim({ ask: true, limit: 0 })).news).toMatchObject({ suspects: false });
    await db.rows('UPDATE holdfast.inbox SET crashes = 2 WHERE id = $1', [id]);
    expect((await claim({ ask: true })).news).toMatchObject({ suspects: true });
    await db.rows("UPDATE holdfast.inbox SET available_at = now() + interval '1 h'");
    expect((await claim({ ask: true })).news).toMatchObject({ suspects: false });
  });

  test('nothing at all if the membership of the fleet cannot be told', async () => {
    const client = await db.pool.connect();
    await client.query('BEGIN; DELETE FROM holdfast.fleet');
    const inside = engineExecutor(client, { prepare: false });
    await expect(claimByTime(inside, ME)).rejects.toThrow('fleet has lost its row');
    await client.query('ROLLBACK');
    client.release();
  });
});

describe('the row of a claim', () => {
  test('names what was taken, and goes with a later claim when all of it has left', async () => {
    await enqueue(1, 5);
    const first = await claim({ number: 901, limit: 3 });
    expect(await claimRows()).toEqual([
      { worker_id: ME, number: 901, jobs: expect.arrayContaining(idsOf(first)) },
    ]);
    await complete(db.engine, INBOX, ME, first.jobs.map(heldOf));
    const second = await claim({ number: 902, finished: [901] });
    expect(await claimRows()).toMatchObject([{ number: 902, jobs: { length: 2 } }]);
    await complete(db.engine, INBOX, ME, second.jobs.map(heldOf));
    await claim({ number: 903, finished: [902] });
    expect(await claimRows()).toEqual([]);
  });

  test('is not written by a claim that takes nothing, and nobody deletes that of another', async () => {
    await enqueue(1, 2);
    await claim({ number: 1, limit: 1 }, OTHER);
    await claim({ number: 2, limit: 1, finished: [1] });
    await claim({ number: 3 });
    expect(await claimRows()).toMatchObject([
      { worker_id: OTHER, number: 1 },
      { worker_id: ME, number: 2 },
    ]);
  });

  test('is written by claims by key and of suspects as well', async () => {
    await enqueue(1, 1);
    await db.rows('UPDATE holdfast.inbox SET crashes = 2');
    await claimSuspected(db.engine, ME, { number: 11 });
    await db.hf.createQueue('rows_by_key', { ordering: 'key' });
    const names = { schema: 'holdfast', queue: 'rows_by_key' };
    await db.hf.enqueue(job<{ n: number }>('step', { queue: 'rows_by_key' }), { n: 1 });
    await claimInOrder(db.engine, ME, { names, number: 12 });
    expect(await claimRows()).toMatchObject([{ number: 11, jobs: { length: 1 } }]);
    expect(await db.rows('SELECT number::int FROM holdfast.rows_by_key_claims')).toEqual([
      { number: 12 },
    ]);
  });

  test('releases what a claim took whose answer was lost, and nothing else', async () => {
    await enqueue(1, 6);
    const known = await claim({ number: 21, limit: 2 });
    const lost = await claim({ number: 22, limit: 2 });
    await claim({ number: 22, limit: 2 }, OTHER);
    const [gone] = lost.jobs;
    await complete(db.engine, INBOX, ME, [heldOf(gone!)]);
    expect(await releaseClaims(db.engine, INBOX, ME, [22])).toBe(1);
    expect(await releaseClaims(db.engine, INBOX, ME, [22])).toBe(0);
    const { jobs } = await claim();
    expect(jobs).toMatchObject([
      { id: lost.jobs[1]!.id, attempts: 1, leaseGeneration: 2, crashes: 0 },
    ]);
    for (const { id } of known.jobs) expect(await rowOf(id)).toMatchObject({ claimed_by: ME });
  });

  test('of a worker that is gone is forgotten when nothing of it is left, and not before', async () => {
    await enqueue(1, 4);
    await live(ME);
    await claim({ number: 1, limit: 2 });
    await claim({ number: 1, limit: 2 }, OTHER);
    await die(OTHER);
    expect(await forgetClaims(db.engine, INBOX)).toBe(0);
    await recovered();
    expect(await forgetClaims(db.engine, INBOX)).toBe(1);
    expect(await claimRows()).toMatchObject([{ worker_id: ME }]);
  });
});

describe('recovery', () => {
  test('returns what a dead worker held, and leaves alone what the living hold', async () => {
    await enqueue(1, 6);
    await Promise.all([live(ME), live('third')]);
    const dead = await claim({ limit: 2 }, OTHER);
    await claim({ limit: 2 });
    await claim({ limit: 2 }, 'third');
    expect(await recovered()).toEqual([]);
    await die(OTHER);
    const back = await recovered();
    expect(back.map(({ id }) => id).sort()).toEqual(idsOf(dead));
    const again = await claim({}, 'third');
    expect(again.jobs).toMatchObject(
      dead.jobs.map(({ id }) => ({ id, attempts: 1, crashes: 1, leaseGeneration: 2 })),
    );
    expect(await recovered()).toEqual([]);
  });

  test(`finds it behind ${BACKLOG} older jobs without reading them`, async () => {
    await enqueue(1, 50, { delay: '1h' });
    await db.rows('UPDATE holdfast.inbox SET available_at = now()');
    await claim({}, OTHER);
    await db.rows(
      `INSERT INTO holdfast.inbox (type, partition_key, partition_bucket, payload, available_at, parked)
       SELECT 'unrelated', 'k' || n, n % 1024, '{}', now() - interval '1 hour', false
       FROM generate_series(1, $1::int) AS n`,
      [BACKLOG],
    );
    await die(OTHER);
    const session = await planSession(db.url);
    await session.query(`PREPARE recover AS ${load(recoverJobs, INBOX).text}`);
    const plan = await explained(session, 'recover', [1_000, ME, 1, '(0,0)', '(0,0)', '{}']);
    await session.query(`PREPARE forget AS ${load(forgetDeadClaims, INBOX).text}`);
    const after = await explained(session, 'forget', []);
    await session.end();
    expect(plan['Actual Rows']).toBe(50);
    expect(accesses(plan)).toEqual([
      'Index Scan inbox_job_pkey',
      'Index Scan inbox_suspect_idx',
      'Tid Range Scan',
      'Tid Scan',
    ]);
    expect(buffers(plan)).toBeLessThan(50 * 20);
    expect(accesses(after)).toEqual(['Index Scan inbox_job_pkey']);
    expect(buffers(after)).toBeLessThan(50 * 10);
    expect(await claimRows()).toEqual([]);
    const rows = await db.rows("SELECT FROM holdfast.inbox WHERE status = 'processing'");
    expect(rows).toEqual([]);
  });

  test('is bounded by its limit, and goes on where it ended', async () => {
    await enqueue(1, 30);
    await claim({}, OTHER);
    await die(OTHER);
    for (const left of [20, 10, 0]) {
      expect(await recovered(10)).toHaveLength(10);
      const rows = await db.rows("SELECT FROM holdfast.inbox WHERE status = 'processing'");
      expect(rows).toHaveLength(left);
    }
    expect(await recovered(10)).toEqual([]);
  });

  test('by several at once returns each job once', async () => {
    await enqueue(1, 200);
    await claim({}, OTHER);
    await die(OTHER);
    const back = (await Promise.all([1, 2, 3, 4].map(() => recovered(100)))).flat();
    let more = await recovered();
    while (more.length > 0) {
      back.push(...more);
      more = await recovered();
    }
    expect(back).toHaveLength(200);
    expect(new Set(back.map(({ id }) => id)).size).toBe(200);
    const rows = await db.rows('SELECT DISTINCT crashes FROM holdfast.inbox');
    expect(rows).toEqual([{ crashes: 1 }]);
  });

  test('returns leases that ran out, also those of the living', async () => {
    await enqueue(1, 3);
    await live(OTHER);
    await claim({}, OTHER);
    await expire();
    expect(await recovered()).toHaveLength(3);
  });

  test('a first crash costs nothing: no attempt, no place in the queue, no wait', async () => {
    await enqueue(1, 5);
    await claim({ limit: 3 }, OTHER);
    await die(OTHER);
    await recovered();
    const { jobs } = await claim();
    expect(numbers({ jobs })).toEqual([1, 2, 3, 4, 5]);
    for (const { attempts } of jobs) expect(attempts).toBe(1);
    const history = await db.rows<{ history: object[] }>(
      'SELECT history FROM holdfast.inbox WHERE crashes = 1',
    );
    expect(history).toHaveLength(3);
    for (const row of history)
      expect(row.history).toMatchObject([{ outcome: 'vanished', worker: OTHER, spent: false }]);
  });

  test('what had not been started is not blamed: after its first crash it counts no more', async () => {
    const ids = await enqueue(1, 20);
    for (const by of ['first', 'second', 'third']) {
      const { jobs } = await claim({}, by);
      expect(jobs).toHaveLength(20);
      await die(by);
      expect(await recovered()).toHaveLength(20);
    }
    expect(await db.rows('SELECT DISTINCT crashes, attempts FROM holdfast.inbox')).toEqual([
      { crashes: 1, attempts: 0 },
    ]);
    // Of those that one claim took, the one that ran is a suspect, and the others run like any other job.
    const { jobs } = await claim({}, 'fourth');
    await markStarted(db.engine, INBOX, 'fourth', heldOf(jobs[0]!));
    await die('fourth');
    await recovered();
    expect(await rowOf(ids[0]!)).toMatchObject({ crashes: 2 });
    expect(await taken()).toEqual(upTo(20).slice(1));
  });

  test('an expired lease of what had not been started is not blamed on it either', async () => {
    const [id] = await enqueue(1, 1);
    for (const by of ['first', 'second', 'third']) {
      expect((await claim({}, by)).jobs).toHaveLength(1);
      await expire();
    }
    const { jobs } = await claim();
    expect(jobs).toMatchObject([{ id, attempts: 1, crashes: 1, leaseGeneration: 4, taken: true }]);
  });

  test('a suspect that waits to run alone pays no attempt for a crash before it was started', async () => {
    const [id] = await enqueue(1, 1, { maxAttempts: 1 });
    await db.rows('UPDATE holdfast.inbox SET crashes = 4');
    expect((await claimSuspected(db.engine, OTHER)).alone).toBe(true);
    await die(OTHER);
    await recovered();
    expect(await rowOf(id!)).toMatchObject({ status: 'pending', attempts: 0, crashes: 4 });
  });

  test('a job that crashes its worker for ever becomes a dead letter, also if it never ran alone', async () => {
    const [id] = await enqueue(1, 1, { maxAttempts: 1_000 });
    await db.rows('UPDATE holdfast.inbox SET crashes = 18');
    await die(OTHER);
    const crash = async () => {
      await claimSuspected(db.engine, OTHER);
      await db.rows('UPDATE holdfast.inbox SET isolated = false, started = true');
      return recovered();
    };
    expect(await crash()).toMatchObject([{ status: 'pending' }]);
    expect(await rowOf(id!)).toMatchObject({ crashes: 19, attempts: 0 });
    // The twentieth.
    await crash();
    expect(await rowOf(id!)).toMatchObject({ status: 'dead_letter' });
    await retry(db.plain, INBOX, [id!]);
    expect(await taken()).toEqual([1]);
  });
});

describe('suspects', () => {
  const suspects = (crashes: number, from: number, to: number) =>
    enqueue(from, to).then(async (ids) => {
      await db.rows('UPDATE holdfast.inbox SET crashes = $2 WHERE id = ANY ($1)', [ids, crashes]);
      return ids;
    });
  const group = (by = ME) => claimSuspected(db.engine, by);
  const finish = ({ jobs }: { jobs: readonly ClaimedJob[] }, by = ME) =>
    complete(db.engine, INBOX, by, jobs.map(heldOf));

  test('are not claimed with others', async () => {
    await suspects(2, 1, 2);
    await enqueue(3, 4);
    expect(await taken()).toEqual([3, 4]);
    expect(numbers(await group())).toEqual([1, 2]);
  });

  test.each([
    [2, 16, false],
    [3, 4, false],
    [4, 1, true],
    [7, 1, true],
  ])('with %i crashes come in groups of %i', async (crashes, size, alone) => {
    await suspects(crashes, 1, 20);
    const first = await group();
    expect(numbers(first)).toEqual(upTo(size));
    expect(first.alone).toBe(alone);
    const rows = await db.rows<{ isolated: boolean }>(
      "SELECT DISTINCT isolated FROM holdfast.inbox WHERE status = 'processing'",
    );
    expect(rows).toEqual([{ isolated: alone }]);
  });

  test('that crashed together come with few crashes before many', async () => {
    await suspects(4, 1, 1);
    await suspects(3, 2, 2);
    await suspects(2, 3, 3);
    for (const n of [3, 2, 1]) {
      const one = await group();
      expect(numbers(one)).toEqual([n]);
      await finish(one);
    }
  });

  test('wait in the order of their last crash, so that new ones starve nobody', async () => {
    const crashed = async (ids: readonly string[], at: string) => {
      const history = JSON.stringify([{ at, outcome: 'vanished', spent: false }]);
      await db.rows('UPDATE holdfast.inbox SET history = $2 WHERE id = ANY ($1)', [ids, history]);
    };
    await crashed(await suspects(2, 1, 1), '2026-01-01T12:00:05Z');
    await crashed(await suspects(4, 2, 2), '2026-01-01T12:00:03Z');
    await crashed(await suspects(4, 3, 3), '2026-01-01T12:00:02Z');
    await crashed(await suspects(2, 4, 4), '2026-01-01T12:00:04Z');
    for (const expected of [[3], [2], [1, 4]]) {
      const one = await group();
      expect(numbers(one)).toEqual(expected);
      await finish(one);
    }
  });

  test('are in one hand at a time in the whole fleet, until the group has left', async () => {
    await suspects(2, 1, 20);
    const first = await group(OTHER);
    expect(first.jobs).toHaveLength(16);
    expect((await group()).jobs).toEqual([]);
    await finish({ jobs: first.jobs.slice(1) }, OTHER);
    expect((await group()).jobs).toEqual([]);
    await finish({ jobs: first.jobs.slice(0, 1) }, OTHER);
    expect((await group()).jobs).toHaveLength(4);
  });

  test('are given to one of many who ask at the same moment', async () => {
    await suspects(4, 1, 30);
    for (let round = 0; round < 10; round++) {
      const answers = await Promise.all(
        ['a', 'b', 'c', 'd', 'e', 'f'].map(async (by) => ({ by, ...(await group(by)) })),
      );
      const winners = answers.filter(({ jobs }) => jobs.length > 0);
      expect(winners.length).toBeLessThanOrEqual(1);
      for (const winner of winners) await finish(winner, winner.by);
      if (winners.length === 0) await finish(await group(), ME);
    }
  });

  test('wait for a group whose worker is frozen no longer than its lease', async () => {
    await suspects(2, 1, 20);
    await group(OTHER);
    await expire();
    expect((await group()).jobs).toHaveLength(4);
  });

  test('are left alone in a paused queue, before their time, and if the type is not handled', async () => {
    const [first, second] = await suspects(2, 1, 3);
    await setPaused(db.plain, INBOX, true);
    const paused = await group();
    await setPaused(db.plain, INBOX, false);
    expect(paused.jobs).toEqual([]);
    await db.rows("UPDATE holdfast.inbox SET type = 'other' WHERE id = $1", [first]);
    await db.rows("UPDATE holdfast.inbox SET available_at = now() + interval '1 h' WHERE id = $1", [
      second,
    ]);
    expect(numbers(await group())).toEqual([3]);
  });

  test('that end, well or badly, are suspects no more', async () => {
    await suspects(2, 1, 1);
    const { jobs } = await group();
    const failure = { ...heldOf(jobs[0]!), delayMs: 0, error: 'no', summary: 'no' };
    await fail(db.engine, INBOX, ME, [failure]);
    expect((await claim()).jobs).toMatchObject([{ crashes: 0, attempts: 2 }]);
  });

  test('that a drain releases stay suspects', async () => {
    await suspects(3, 1, 1);
    const { jobs } = await group();
    await release(db.engine, INBOX, ME, jobs.map(heldOf));
    expect(await taken()).toEqual([]);
    expect((await group()).jobs).toMatchObject([{ crashes: 3, attempts: 1 }]);
  });

  test('lose an attempt only to a crash while they ran alone, and end as dead letters', async () => {
    const [id] = await enqueue(1, 1, { maxAttempts: 2 });
    const spent: [number, string][] = [];
    for (let crash = 0; crash < 7; crash++) {
      const by = `victim-${crash}`;
      const ordinary = await claim({}, by);
      const { jobs } = ordinary.jobs.length > 0 ? ordinary : await group(by);
      if (jobs.length === 0) break;
      await begun();
      await die(by);
      await recovered();
      const row = await rowOf(id!);
      spent.push([row?.attempts as number, row?.status as string]);
    }
    expect(spent).toEqual([
      [0, 'pending'],
      [0, 'pending'],
      [0, 'pending'],
      [0, 'pending'],
      // It ran alone.
      [1, 'pending'],
      [2, 'dead_letter'],
    ]);
  });
});

test('a failure whose answer was lost is found, and that of another attempt is not', async () => {
  await enqueue(1, 4);
  const held = (await claim()).jobs.map(heldOf);
  const because = { error: 'no', summary: 'no' };
  await fail(
    db.engine,
    INBOX,
    ME,
    held.slice(0, 2).map((one) => ({ ...one, ...because, delayMs: 0 })),
  );
  await deadLetter(db.engine, INBOX, ME, [{ ...held[2]!, ...because }]);
  // Somebody has begun the next attempt of the first one.
  await claim({ limit: 1 }, 'other');
  const found = await failedBefore(db.plain, INBOX, ME, held);
  expect(new Map(found.map(({ id, status }) => [id, status]))).toEqual(
    new Map([
      [held[1]!.id, 'pending'],
      [held[2]!.id, 'dead_letter'],
    ]),
  );
  expect(await failedBefore(db.plain, INBOX, 'other', held)).toEqual([]);
});

describe('a queue that keeps no archive', () => {
  test('deletes what is completed, and finds a completion whose answer was lost', async () => {
    await db.hf.configureQueue('inbox', { archiveRetention: 0 });
    try {
      await enqueue(1, 4);
      const { jobs } = await claim();
      const [one, two, three, four] = jobs.map(heldOf);
      expect(await complete(db.engine, INBOX, ME, [one!, two!])).toEqual([one!.id, two!.id]);
      expect((await completedBefore(db.plain, INBOX, ME, [one!, two!, three!])).sort()).toEqual(
        [one!.id, two!.id].sort(),
      );
      // Dead letters and cancelled jobs are kept: somebody will want to know.
      await deadLetter(db.engine, INBOX, ME, [{ ...three!, error: 'no', summary: 'no' }]);
      await db.hf.discard([three!.id]);
      await db.hf.cancel([four!.id]);
      const rows = await db.rows(
        'SELECT status::text FROM holdfast.inbox_archive ORDER BY status::text',
      );
      expect(rows).toEqual([{ status: 'cancelled' }, { status: 'dead_letter' }]);
      expect(await db.rows('SELECT FROM holdfast.inbox')).toEqual([]);
      // They are gone, and were not completed.
      expect(await completedBefore(db.plain, INBOX, ME, [three!, four!])).toEqual([]);
    } finally {
      await db.hf.configureQueue('inbox', { archiveRetention: '7d' });
    }
  });

  test('is fenced as any other', async () => {
    await db.hf.configureQueue('inbox', { archiveRetention: 0 });
    try {
      const [id] = await enqueue(1, 1);
      const stale = (await claim({}, OTHER)).jobs.map(heldOf);
      await expire();
      await claim();
      expect(await complete(db.engine, INBOX, OTHER, stale)).toEqual([]);
      expect(await completedBefore(db.plain, INBOX, OTHER, stale)).toEqual([]);
      expect(await rowOf(id!)).toMatchObject({ claimed_by: ME });
    } finally {
      await db.hf.configureQueue('inbox', { archiveRetention: '7d' });
    }
  });
});

test('a job that somebody cancelled is not found as completed after a lost answer', async () => {
  await enqueue(1, 2);
  const [one, two] = (await claim()).jobs.map(heldOf);
  await complete(db.engine, INBOX, ME, [one!]);
  await db.hf.cancel([two!.id]);
  expect(await completedBefore(db.plain, INBOX, ME, [one!, two!])).toEqual([one!.id]);
});
