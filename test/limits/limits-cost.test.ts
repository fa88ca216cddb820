/**
 * What limits cost: blocked jobs at the head of a queue are not read, idle limits are not asked, a limit that somebody has
 * locked holds up nobody else, and counting permits does not depend on how much runs elsewhere.
 */
import type pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { claimMerged as claimJobs } from '../../packages/holdfast/src/claim/time/claim.js';
import { frontLines } from '../../packages/holdfast/src/claim/time/lines.js';
import { job } from '../../packages/holdfast/src/index.js';
import { load } from '../../packages/holdfast/src/postgres/statement.js';
import { allPast } from '../support/all-past.js';
import { claimByTime, type TimeOptions } from '../support/claiming.js';
import { INBOX, testDatabase } from '../support/database.js';
import { limitStep, register } from '../support/limited.js';
import { buffers, explainedAndUndone, paramsOf, planSession } from '../support/plans.js';
import { until } from '../support/until.js';
import { testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const HEAD = 50_000;

let session: pg.Client;
beforeAll(async () => {
  session = await planSession(db.url);
});
afterAll(() => session?.end());
beforeEach(async () => {
  await db.rows('TRUNCATE holdfast.inbox, holdfast.inbox_claims, holdfast.inbox_unique');
  for (const table of ['limits', 'permits', 'rates', 'workers'])
    await db.rows(`DELETE FROM holdfast.${table}`);
});

const fill = (type: string, count: number, agoSeconds: number, version = 1) =>
  db.rows(
    `INSERT INTO holdfast.inbox (type, version, partition_key, partition_bucket, payload, available_at, parked)
     SELECT $1, $4, $1 || n, n % 1024, '{"n":1}', now() - $3 * interval '1 s' + n * interval '1 us', false
     FROM generate_series(1, $2::int) AS n`,
    [type, count, agoSeconds, version],
  );
const done = (type: string) =>
  db.rows(`SELECT FROM holdfast.inbox_archive WHERE type = $1`, [type]);

/** 50,000 each of a paused type, one that nobody handles, a version that is too new, and a limited type that is full. */
async function blockedHeads(): Promise<void> {
  await fill('paused', HEAD, 3_600);
  await fill('unhandled', HEAD, 3_600);
  await fill('plain', HEAD, 3_600, 2);
  await fill('step', HEAD, 3_600);
  await db.hf.pause('inbox', { type: 'paused' });
  await limitStep(db, { concurrency: 1 });
  await register(db, ['full', 'w'], ['paused', 'plain', 'step']);
  await db.rows(`INSERT INTO holdfast.permits SELECT id, 'full', 1 FROM holdfast.limits`);
}

describe('four times 50,000 blocked jobs at the head', () => {
  beforeAll(() => undefined);

  test('are not read by a claim of others, from the front and from a cursor', async () => {
    await blockedHeads();
    await fill('plain', 100, 60);
    await session.query('VACUUM ANALYZE holdfast.inbox');
    await allPast(db.rows);
    await session.query(`DEALLOCATE ALL; PREPARE claim AS ${load(claimJobs, INBOX).text}`);
    const versions = { paused: 1, plain: 1, step: 1 };
    const read = async (options: TimeOptions) => {
      const asked = { walks: [], limit: 5, held: {}, versions, ...options };
      const params = await paramsOf((catcher) => claimByTime(catcher, 'w', asked));
      for (let n = 0; n < 6; n++) await explainedAndUndone(session, 'claim', params);
      const plan = await explainedAndUndone(session, 'claim', params);
      return { jobs: plan['Actual Rows'] - 1, read: buffers(plan) };
    };
    // The type that is full was refused before: its worker does not ask for it.
    const open = frontLines({ paused: 1, plain: 1 }, 10);
    const front = await read({ lines: open });
    expect(front.jobs).toBe(5);
    expect(front.read).toBeLessThan(60 + 5 * WRITES);
    const [after] = await db.rows<{ at: string; position: number }>(
      `SELECT available_at::text AS at, position::int FROM holdfast.inbox
       WHERE type = 'plain' AND version = 1 ORDER BY position OFFSET 49 LIMIT 1`,
    );
    const lines = open.map((line) => ({
      ...line,
      ...{ afterAt: after?.at as string, afterPosition: after?.position as number },
    }));
    const cursor = await read({ lines });
    expect(cursor.jobs).toBe(5);
    expect(cursor.read).toBeLessThan(60 + 5 * WRITES);
    // What reads and takes nothing has no share in the writes.
    const nothing = await read({ lines: open.filter(({ priority }) => priority !== 2) });
    expect(nothing).toMatchObject({ jobs: 0 });
    expect(nothing.read).toBeLessThan(60);
    // The claim that is refused reads no more of it than it asks for.
    const refused = await read({ lines: frontLines(versions, 10) });
    expect(refused.read).toBeLessThan(120 + 5 * WRITES);
    await db.hf.resume('inbox', { type: 'paused' });
  });

  test('do not hold up what commits late and is not told of', async () => {
    await blockedHeads();
    const plain = job<{ n: number }>('plain');
    const late = await db.pool.connect();
    try {
      await late.query('BEGIN');
      await late.query(`SELECT holdfast.inbox_enqueue('plain', '{"n": 1}')`);
      const handles = (type: string) => job<{ n: number }>(type);
      let ran = 0;
      const { events } = start(
        db.hf,
        (w) =>
          w
            .handle(handles('paused'), () => undefined)
            .handle(job('step', { limit: { concurrency: 1 } }), () => new Promise(() => undefined))
            .handle(plain, () => void ran++),
        { notify: false, concurrency: 10 },
      );
      await db.hf.enqueue(plain, { n: 2 });
      await until('it has read', () => events.length > 0 && ran === 1);
      // Its time of enqueue lies a second behind when it commits.
      await db.rows('SELECT pg_sleep(1)');
      await late.query('COMMIT');
      const committed = performance.now();
      await until('it has started', () => ran === 2, { everyMs: 5 });
      expect(performance.now() - committed).toBeLessThan(2_000);
    } finally {
      late.release(true);
    }
    await db.hf.resume('inbox', { type: 'paused' });
  });
});

/** Buffers that taking one more job writes to: its row, its indexes, and the like. */
const WRITES = 14;

test('limits of types that have no jobs are never locked, and the allowance is never asked', async () => {
  const plain = job<{ n: number }>('plain');
  const limit = { concurrency: 2, rate: { limit: 10, per: '1s' } } as const;
  const idle = ['a', 'b', 'c'].map((type) => job(type, { limit }));
  const { events } = start(
    db.hf,
    (w) =>
      idle.reduce(
        (to, of) => to.handle(of, () => undefined),
        w.handle(plain, () => undefined),
      ),
    { concurrency: 10 },
  );
  await until('it runs', () => events.some(({ kind }) => kind === 'started'));
  const state = () => db.rows('SELECT id, xmax::text, ctid::text FROM holdfast.limits ORDER BY id');
  const before = await state();
  expect(before).toHaveLength(3);
  for (let n = 0; n < 5; n++) {
    const jobs = Array.from({ length: 100 }, () => plain.item({ n }));
    await db.hf.enqueueMany(jobs);
  }
  await until('all ran', async () => (await done('plain')).length >= 500);
  // A lock would have left its transaction in the row.
  expect(await state()).toEqual(before);
  expect(await db.rows('SELECT FROM holdfast.rates')).toEqual([]);
  expect(await db.rows('SELECT FROM holdfast.permits WHERE held <> 0')).toEqual([]);
});

test('a limit that somebody has locked holds up its own jobs only, and they start after that', async () => {
  const [plain, step] = [job<{ n: number }>('plain'), job<{ n: number }>('step')];
  await limitStep(db, { concurrency: 5 });
  const ran = { plain: 0, step: 0 };
  const limit = { concurrency: 5 };
  const { events } = start(
    db.hf,
    (w) =>
      w.handle(job('step', { limit }), () => void ran.step++).handle(plain, () => void ran.plain++),
    { concurrency: 20 },
  );
  await until('it runs', () => events.some(({ kind }) => kind === 'started'));
  const locker = await db.pool.connect();
  try {
    await locker.query('BEGIN; SELECT FROM holdfast.limits FOR UPDATE');
    await db.hf.enqueueMany(Array.from({ length: 50 }, (_, n) => step.item({ n })));
    await until('the limited ones wait', () => events.some(({ kind }) => kind === 'throttled'));
    for (let round = 1; round <= 5; round++) {
      const began = performance.now();
      await db.hf.enqueueMany(Array.from({ length: 50 }, (_, n) => plain.item({ n })));
      await until('all of them started', () => ran.plain === 50 * round, { everyMs: 2 });
      // The best of some: the machine is shared.
      best = Math.min(best, performance.now() - began);
    }
    expect(best).toBeLessThan(200);
    expect(ran.step).toBe(0);
  } finally {
    locker.release(true);
  }
  await until('the limited ones have started', () => ran.step === 50);
});
let best = Number.POSITIVE_INFINITY;

test('counting permits reads a row for each worker, however many jobs they hold', async () => {
  await limitStep(db, { concurrency: 100_000 });
  const workers = Array.from({ length: 20 }, (_, n) => `w${n}`);
  await register(db, workers);
  await db.rows(
    `INSERT INTO holdfast.permits SELECT l.id, w.id, 2000 FROM holdfast.limits AS l, holdfast.workers AS w`,
  );
  await db.rows(`INSERT INTO holdfast.inbox_claims (worker_id, number, jobs)
    SELECT w.id, c, ARRAY(SELECT gen_random_uuid() FROM generate_series(1, 500) WHERE c IS NOT NULL)
    FROM holdfast.workers AS w, generate_series(1, 4) AS c`);
  await db.rows('VACUUM ANALYZE holdfast.permits, holdfast.workers');
  const [ids] = await db.rows('SELECT sum(cardinality(jobs))::int AS n FROM holdfast.inbox_claims');
  expect(ids).toEqual({ n: 40_000 });
  await fill('step', 1, 10);
  await session.query(`DEALLOCATE ALL; PREPARE allow AS SELECT a.* FROM (SELECT array_agg(ctid) AS places
    FROM holdfast.inbox) AS i, holdfast.inbox_allow('w0', '{"step": 0}', i.places, '{step}', '{NULL}') AS a`);
  for (let n = 0; n < 6; n++) await explainedAndUndone(session, 'allow', []);
  const plan = await explainedAndUndone(session, 'allow', []);
  expect(plan['Actual Rows']).toBe(1);
  expect(buffers(plan)).toBeLessThan(100 + 3 * workers.length);
});

test('a walk of keys reads the rates of those keys, however many keys there are', async () => {
  await limitStep(db, { rate: { limit: 1, perMs: 3_600_000, burst: 1 } }, true);
  await db.rows(`INSERT INTO holdfast.rates (limit_id, key, started_tat, slot_tat)
    SELECT l.id, 'k' || n, now() + interval '1 hour', now() FROM holdfast.limits AS l, generate_series(1, 5000) AS n`);
  await fill('step', 200, 60);
  await db.rows(`UPDATE holdfast.inbox SET limit_key = 'k' || (position % 5000)`);
  await db.rows('VACUUM ANALYZE holdfast.inbox, holdfast.rates');
  await session.query(`DEALLOCATE ALL;
    PREPARE walk AS SELECT * FROM holdfast.inbox_rate_keys('{step}', '{1}', '{""}', 64, 50, NULL, NULL)`);
  for (let n = 0; n < 6; n++) await explainedAndUndone(session, 'walk', []);
  const plan = await explainedAndUndone(session, 'walk', []);
  expect(plan['Actual Rows']).toBe(64);
  expect(buffers(plan)).toBeLessThan(64 * 10);
});
