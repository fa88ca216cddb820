/**
 * Where keys take turns, jobs that cannot start stand before others of their key: of types that are paused, or that no worker
 * handles. However many they are, what stands behind them starts, a claim reads a bounded part of them, and limits hold.
 */
import type pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { rest } from '../../packages/holdfast/src/claim/key/stretches.js';
import { claimTurnsJobs } from '../../packages/holdfast/src/claim/turns/claim.js';
import { job } from '../../packages/holdfast/src/index.js';
import { explainJob } from '../../packages/holdfast/src/inspect/explain/explain.js';
import { reading } from '../../packages/holdfast/src/inspect/reading/reading.js';
import { bucketOf } from '../../packages/holdfast/src/job/key.js';
import { configure } from '../../packages/holdfast/src/operate/queue.js';
import { load } from '../../packages/holdfast/src/postgres/statement.js';
import { numbers } from '../support/claiming.js';
import { INBOX, testDatabase } from '../support/database.js';
import { long } from '../support/long.js';
import { ALL_KEYS } from '../support/ordered.js';
import { buffers, explainedAndUndone, paramsOf, planSession } from '../support/plans.js';
import { claimInTurns, type TurnsOptions, walkInTurns } from '../support/turns.js';
import { until } from '../support/until.js';
import { testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();

const MOST_READ = 5_000;

async function queueWith(policy: object): Promise<void> {
  await db.rows('TRUNCATE holdfast.inbox, holdfast.inbox_claims');
  await configure(db.plain, INBOX, { ordering: 'none', ...policy });
}

/** Jobs of a key, all due, one after the other. */
const put = (
  type: string,
  key: string,
  jobs: number,
  { group = null as string | null, queue = 'inbox' } = {},
) =>
  db.rows(
    `INSERT INTO holdfast.${queue} (type, partition_key, group_key, partition_bucket, payload, parked, available_at)
     SELECT $1, $2, $4, $5, jsonb_build_object('n', n), false, now() - interval '1 s'
     FROM generate_series(0, $3::int - 1) AS n`,
    [type, key, jobs, group, bucketOf(group ?? key)],
  );

const claim = (workerId: string, options?: TurnsOptions) =>
  claimInTurns(db.engine, workerId, options);
const walk = (options: TurnsOptions = {}) => walkInTurns(db.engine, 'w', options);
const jobsOf = (claims: Awaited<ReturnType<typeof walk>>) => claims.flatMap((one) => numbers(one));

describe.each([
  ['perKey', { perKey: 2 }],
  ['fair', { fair: true }],
  ['perGroup', { perGroup: 3 }],
])('%s', (_, policy) => {
  beforeEach(() => queueWith(policy));

  test.each([6_000, 12_000])(
    'a walk finds what stands behind %i others of its key',
    async (blocked) => {
      await put('alien', 'a', blocked);
      await put('step', 'a', 1);
      const claims = await walk({ limit: 10 });
      expect(jobsOf(claims)).toEqual([0]);
      expect(claims.length).toBeLessThanOrEqual(blocked / MOST_READ + 2);
    },
  );

  test('and behind many keys of which each has some', async () => {
    await db.rows(
      `INSERT INTO holdfast.inbox (type, partition_key, payload)
       SELECT 'alien', 'k' || k, '{}' FROM generate_series(1, 60) AS k, generate_series(1, 200)`,
    );
    await put('step', 'k7', 1);
    const claims = await walk({ limit: 10 });
    expect(jobsOf(claims)).toEqual([0]);
    expect(claims.length).toBeLessThanOrEqual(5);
  });
});

describe('a place in the middle of a line', () => {
  /** The places at which a walk begins and from which it goes on. */
  async function toBehind(options: TurnsOptions) {
    const first = await claim('w', options);
    expect([first.jobs, first.stop === null]).toEqual([[], false]);
    return rest(ALL_KEYS, first.stop!);
  }

  test('gives a key no more than its limit, whoever reads from where', async () => {
    await queueWith({ perKey: 2 });
    await put('alien', 'a', 6_000);
    await put('step', 'a', 6);
    const behind = await toBehind({ limit: 10 });
    expect(numbers(await claim('w1', { stretches: behind, limit: 1 }))).toEqual([0]);
    expect(numbers(await claim('w2', { stretches: behind }))).toEqual([1]);
    expect((await claim('w3', { stretches: behind })).jobs).toEqual([]);
    // The others are handled now: they are read from the front, and the key is full.
    const all = { alien: 1, step: 1 };
    expect((await claim('w3', { versions: all })).jobs).toEqual([]);
    expect((await claim('w3', { versions: all, limit: 1 })).jobs).toEqual([]);
  });

  test('gives a group no more than its limit', async () => {
    await queueWith({ perGroup: 3 });
    await put('alien', 'a', 6_000, { group: 'g' });
    await put('step', 'a', 4, { group: 'g' });
    await put('step', 'b', 4, { group: 'g' });
    const behind = await toBehind({ limit: 10 });
    expect((await claim('w1', { stretches: behind })).jobs).toHaveLength(3);
    expect((await claim('w2', { stretches: behind })).jobs).toEqual([]);
    expect((await claim('w2')).jobs).toEqual([]);
  });

  test('is where a turn goes on that a claim has cut', async () => {
    await queueWith({ fair: true, weights: { a: 3 } });
    await put('alien', 'a', 6_000);
    await put('step', 'a', 9);
    await put('step', 'b', 9);
    const claims = await walk({ limit: 1 });
    const keys = claims.flatMap(({ jobs }) => jobs.map(({ partitionKey }) => partitionKey));
    expect(keys.toSorted()).toEqual(['a', 'a', 'a', 'b']);
    // Not from the front again for each job of the turn.
    expect(claims.length).toBeLessThanOrEqual(8);
  });

  test('does not keep a full key from being passed', async () => {
    await queueWith({ perKey: 1 });
    await put('step', 'a', 1);
    await put('alien', 'a', 12_000);
    await put('step', 'a', 1);
    expect(numbers(await claim('w'))).toEqual([0]);
    expect(await walk()).toHaveLength(1);
  });
});

describe('what a claim reads', () => {
  let session: pg.Client;
  beforeAll(async () => {
    session = await planSession(db.url);
    await session.query(`PREPARE claim AS ${load(claimTurnsJobs, INBOX).text}`);
  });
  afterAll(() => session?.end());

  test('is bounded whatever lies in front, and does not grow with it', async () => {
    await queueWith({ perKey: 2 });
    await put('alien', 'a', 30_000);
    await put('step', 'a', 1);
    let stretches = ALL_KEYS;
    const read: number[] = [];
    let found = 0;
    while (stretches.length > 0) {
      const options = { limit: 50, stretches };
      const params = await paramsOf((catcher) => claimInTurns(catcher, 'w', options));
      read.push(buffers(await explainedAndUndone(session, 'claim', params)));
      const { stop, jobs } = await claim('w', options);
      found += jobs.length;
      stretches = stop ? rest(stretches, stop) : [];
    }
    expect(found).toBe(1);
    expect(read.length).toBeGreaterThan(5);
    expect(Math.max(...read)).toBeLessThanOrEqual(3 * MOST_READ);
  });
});

describe('a worker', () => {
  let queues = 0;
  let queue: string;
  beforeEach(() => {
    queue = `blocked${++queues}`;
  });

  test.each([
    { why: 'unhandled', blocked: 6_000 },
    ...long([], [{ why: 'unhandled', blocked: 30_000 }] as const),
    { why: 'paused', blocked: 6_000 },
    ...long([], [{ why: 'paused', blocked: 30_000 }] as const),
  ])('starts a job behind $blocked that are $why', async ({ why, blocked }) => {
    await db.hf.createQueue(queue, { perKey: 2 });
    const step = job<{ n: number }>('step', { queue });
    const alien = job<{ n: number }>('alien', { queue });
    if (why === 'paused') await db.hf.pause(queue, { type: 'alien' });
    await put('alien', 'a', blocked, { queue });
    const ran: string[] = [];
    start(db.hf, (w) => {
      const worker = w.handle(step, ({ payload }) => void ran.push(`step ${payload.n}`));
      return why === 'paused' ? worker.handle(alien, () => void ran.push('alien')) : worker;
    });
    // Before it starts, and while it works; of another key beside them.
    await put('step', 'a', 3, { queue });
    await put('step', 'b', 1, { queue });
    await until('the first four have run', () => ran.length === 4, { timeoutMs: 10_000 });
    await db.hf.enqueue(step, { n: 9 }, { partitionKey: 'a' });
    await until('one that came later has run', () => ran.includes('step 9'), { timeoutMs: 10_000 });
    expect(ran).not.toContain('alien');
  });
});

test('explain says how many of its key wait before such a job', async () => {
  await queueWith({ perKey: 2 });
  await db.rows(
    `INSERT INTO holdfast.workers (id, handles) VALUES ('w', '{"inbox": {"step": 1}}')`,
  );
  await put('alien', 'a', 6_000);
  await put('step', 'a', 1);
  const [found] = await db.rows<{ id: string }>(
    `SELECT id FROM holdfast.inbox WHERE type = 'step'`,
  );
  const { code, text } = await reading(db.pool, (db) => explainJob(db, 'holdfast', found!.id, {}));
  expect(code).toBe('waiting_its_turn');
  expect(text).toMatch(/before it wait .* jobs of its key that became due earlier/);
});
