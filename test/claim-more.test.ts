/**
 * A claim that expects many jobs is asked for in a shorter form, without row locks. It brings the same jobs
 * and says the same of the whole claim; one that finds nothing answers all the same; and what others have
 * locked it passes over, as the one with locks does.
 */
import type pg from 'pg';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { type ClaimRequest, claim } from '../src/claim/claim.js';
import { job } from '../src/index.js';
import { BUCKETS } from '../src/job/key.js';
import { withClient } from '../src/postgres/pool.js';
import type { Executor } from '../src/postgres/queryable.js';
import { Sources } from '../src/worker/sources.js';
import { INBOX, testDatabase } from './support/database.js';
import { until } from './support/until.js';

const db = testDatabase();
const work = job<{ n: number }>('work', { maxAttempts: 7 });

async function claimed(more: boolean, request: Partial<ClaimRequest> = {}) {
  return claim(db.engine, INBOX, {
    workerId: 'w',
    probes: [{ priority: 2, from: 0, to: 1023, afterAt: '-infinity', afterPosition: 0 }],
    limit: 40,
    leaseMs: 90_000,
    versions: { work: 1 },
    above: {},
    deadWorkers: [],
    cursorLagMs: 2_000,
    more,
    ...request,
  });
}

beforeEach(async () => {
  await db.rows('TRUNCATE holdfast.inbox, holdfast.inbox_archive');
});

test('brings the same jobs in the same order, and the same of the whole claim', async () => {
  await db.hf.enqueueMany(
    Array.from({ length: 60 }, (_, n) => work.of({ n }, { key: `k${n % 7}` })),
  );
  const plain = await claimed(false);
  expect(plain.jobs).toHaveLength(40);
  // As if the worker had vanished, so that the same jobs are there again.
  const more = await claimed(true, { workerId: 'w2', deadWorkers: ['w'] });
  const again = plain.jobs.map(({ id, type, payload, partitionKey, cursorAt, cursorPosition }) => ({
    ...{ id, type, payload, partitionKey, cursorAt, cursorPosition, maxAttempts: 7, version: 1 },
    ...{ attempts: 1, leaseGeneration: 2, crashes: 1, taken: true, priority: 2 },
  }));
  expect(more.jobs).toMatchObject(again);
  expect(more.epoch).toBe(plain.epoch);
  expect(more.clock).toBeGreaterThanOrEqual(plain.clock);
  for (const { clock, seenUntil } of [plain, more]) {
    expect(Math.abs(clock - 2_000 - Date.parse(seenUntil))).toBeLessThanOrEqual(1);
  }
  const [{ reads }] = (await db.rows(
    `SELECT $1::text::timestamptz > now() - interval '1 minute' AND $1::text = $1::text::timestamptz::text AS reads`,
    [more.seenUntil],
  )) as [{ reads: boolean }];
  expect(reads).toBe(true);
});

test('a queue that has come to its end is told of as ever', async () => {
  const { jobs, epoch, clock, seenUntil, news } = await claimed(true, { news: true });
  expect(jobs).toEqual([]);
  expect(epoch).toBeGreaterThanOrEqual(0);
  expect(clock).toBeGreaterThan(Date.now() - 60_000);
  expect(Date.parse(seenUntil)).toBeGreaterThan(Date.now() - 60_000);
  expect(news).toMatchObject({ anyOrdered: false });
});

test('a paused queue gives nothing', async () => {
  await db.hf.enqueue(work, { n: 1 });
  await db.rows("UPDATE holdfast.queues SET paused = true WHERE name = 'inbox'");
  try {
    expect((await claimed(true)).jobs).toEqual([]);
  } finally {
    await db.rows("UPDATE holdfast.queues SET paused = false WHERE name = 'inbox'");
  }
  expect((await claimed(true)).jobs).toHaveLength(1);
});

test('a claim that cannot say in which membership it was made is an error', async () => {
  await db.hf.enqueue(work, { n: 1 });
  await db.rows('CREATE TABLE public.fleet_before AS SELECT * FROM holdfast.fleet');
  await db.rows('DELETE FROM holdfast.fleet');
  try {
    for (const more of [true, false]) {
      await expect(claimed(more)).rejects.toThrow('holdfast.fleet has lost its row');
    }
  } finally {
    await db.rows('INSERT INTO holdfast.fleet SELECT * FROM public.fleet_before');
  }
});

/** A human's transaction, rolled back at the end of the test. */
async function human(work: (client: pg.PoolClient) => Promise<void>): Promise<void> {
  await withClient(db.pool, async (client) => {
    await client.query('BEGIN');
    try {
      await work(client);
    } finally {
      await client.query('ROLLBACK');
    }
  });
}

const LOCK = 'SELECT FROM holdfast.inbox WHERE id = $1 FOR UPDATE';
const enqueue = async (count: number) =>
  (await db.hf.enqueueMany(Array.from({ length: count }, (_, n) => work.of({ n })))).map(
    ({ id }) => id,
  );
const ids = ({ jobs }: Awaited<ReturnType<typeof claimed>>) => jobs.map(({ id }) => id).sort();

describe('a row that somebody has touched', () => {
  test('and may still change is passed over without waiting', async () => {
    const [mine, ...others] = await enqueue(10);
    await human(async (client) => {
      await client.query(LOCK, [mine]);
      const from = performance.now();
      const answer = await claimed(true);
      expect(ids(answer)).toEqual(others.sort());
      expect(answer.lockedOut ?? false).toBe(false);
      expect(performance.now() - from).toBeLessThan(450);
    });
    expect(ids(await claimed(true))).toEqual([mine]);
  });

  test.each([
    ['locked it and committed', 'COMMIT'],
    ['locked it and rolled back', 'ROLLBACK'],
  ])(
    'is to be had when that one has %s, also while an older transaction writes',
    async (_, end) => {
      const all = await enqueue(3);
      await human(async (older) => {
        await older.query('SELECT pg_current_xact_id()');
        await withClient(db.pool, async (client) => {
          await client.query('BEGIN');
          await client.query(LOCK, [all[0]]);
          await client.query(end);
        });
        expect(ids(await claimed(true))).toEqual(all.sort());
      });
    },
  );

  test('by one of two who run and have not been seen to end is passed over, too', async () => {
    const [mine, ...others] = await enqueue(5);
    await human(async (older) => {
      await older.query('SELECT pg_current_xact_id()');
      await human(async (client) => {
        await client.query(LOCK, [mine]);
        const answer = await claimed(true);
        expect(answer.lockedOut ?? false).toBe(false);
        expect(ids(answer)).toEqual(others.sort());
      });
    });
  });

  test('under a savepoint holds a claim up once, for less than a second', async () => {
    const [mine, ...others] = await enqueue(150);
    await human(async (client) => {
      await client.query('SELECT pg_current_xact_id()');
      await client.query('SAVEPOINT one');
      await client.query(LOCK, [mine]);
      // Somebody who came later is through; so the number of the savepoint looks like an old one.
      await db.rows('SELECT pg_current_xact_id()');
      const from = performance.now();
      const answer = await claimed(true, { limit: 1_000 });
      expect(performance.now() - from).toBeLessThan(1_000);
      expect(answer.lockedOut).toBe(true);
      expect(ids(answer)).toEqual(others.sort());
    });
  });
});

test('claims of many at once over the same jobs take each of them once', async () => {
  const JOBS = 4_000;
  for (let from = 0; from < JOBS; from += 1_000) {
    await db.hf.enqueueMany(
      Array.from({ length: 1_000 }, (_, n) => work.of({ n }, { key: `k${(from + n) % 50}` })),
    );
  }
  const taken: string[] = [];
  const claimer = async (workerId: string) => {
    for (;;) {
      const { jobs } = await claimed(true, { workerId, limit: 100 });
      if (jobs.length === 0) return;
      for (const { id, leaseGeneration } of jobs) taken.push(`${id} ${leaseGeneration}`);
    }
  };
  await Promise.all(['a', 'b', 'c', 'd'].map(claimer));
  expect(new Set(taken).size).toBe(JOBS);
  expect(taken).toHaveLength(JOBS);
  const rows = await db.rows(
    `SELECT count(*)::integer AS jobs FROM holdfast.inbox
     WHERE status = 'processing' AND lease_generation = 1 AND attempts = 1`,
  );
  expect(rows).toEqual([{ jobs: JOBS }]);
});

describe('a worker', () => {
  const terms = { names: INBOX, workerId: 'w', leaseMs: 90_000 };
  let sent: string[] = [];
  const watched: Executor = {
    run(statement, names, params) {
      sent.push(statement.name);
      return db.engine.run(statement, names, params);
    },
  };
  const share = { versions: { work: 1 }, above: {}, buckets: [...Array(BUCKETS).keys()] };

  async function claimsOf(
    alone: boolean,
    count: number,
    sources = new Sources(1_000),
    deadWorkers: string[] = [],
  ) {
    sources.assign({ shares: [share], ordered: false, alone });
    sent = [];
    for (let n = 0; n < count; n++) {
      await sources.claim({
        engine: watched,
        ...terms,
        deadWorkers,
        limit: 120,
        run: 1,
        trusted: [],
      });
    }
    return sent;
  }

  beforeEach(() => vi.useFakeTimers({ toFake: ['performance'] }));
  afterEach(() => vi.useRealTimers());

  test('that is alone with its buckets and has plenty to do claims so', async () => {
    await enqueue(500);
    expect(await claimsOf(true, 3)).toEqual(['claim', 'claim_more', 'claim_more']);
  });

  test('that shares them does not', async () => {
    await enqueue(500);
    expect(await claimsOf(false, 3)).toEqual(['claim', 'claim', 'claim']);
  });

  test('does not take a claim that lost jobs to others for the end of its queue', async () => {
    await enqueue(1_000);
    await db.rows("UPDATE holdfast.inbox SET available_at = now() - interval '1 minute'");
    const sources = new Sources(1_000);
    expect(await claimsOf(true, 1, sources)).toEqual(['claim']);
    await human(async (client) => {
      await client.query('SELECT pg_current_xact_id()');
      await client.query('SAVEPOINT one');
      const half = "FROM holdfast.inbox WHERE status = 'pending' AND position % 2 = 0";
      await client.query(`SELECT ${half} FOR UPDATE`);
      await db.rows('SELECT pg_current_xact_id()');
      const claiming = claimsOf(true, 1, sources);
      await until('the claim waits', async () => {
        const text =
          "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        return (await db.rows(text)).length > 0;
      });
      await client.query(
        `UPDATE holdfast.inbox SET available_at = now() + interval '1 hour'
         WHERE id IN (SELECT id ${half})`,
      );
      await client.query('COMMIT; BEGIN');
      expect(await claiming).toEqual(['claim_more']);
    });
    await claimsOf(true, 20, sources);
    const left = await db.rows(
      "SELECT FROM holdfast.inbox WHERE status = 'pending' AND available_at <= now()",
    );
    expect(left).toEqual([]);
  });

  test('that hears of a death takes locks for a minute: the dead may live', async () => {
    await enqueue(1_000);
    const sources = new Sources(1_000);
    const before = ['long ago'];
    expect(await claimsOf(true, 2, sources, before)).toEqual(['claim', 'claim_more']);
    const after = [...before, 'just now'];
    expect(await claimsOf(true, 2, sources, after)).toEqual(['claim', 'claim']);
    vi.advanceTimersByTime(60_000);
    expect(await claimsOf(true, 2, sources, after)).toEqual(['claim', 'claim_more']);
  });

  test('that was held up takes locks again, for a minute', async () => {
    await enqueue(1_000);
    const sources = new Sources(1_000);
    expect(await claimsOf(true, 1, sources)).toEqual(['claim']);
    await human(async (client) => {
      await client.query('SELECT pg_current_xact_id()');
      await client.query('SAVEPOINT one');
      await client.query('SELECT FROM holdfast.inbox WHERE position % 2 = 0 FOR UPDATE');
      await db.rows('SELECT pg_current_xact_id()');
      expect(await claimsOf(true, 1, sources)).toEqual(['claim_more', 'claim']);
    });
    expect(await claimsOf(true, 2, sources)).toEqual(['claim', 'claim']);
    vi.advanceTimersByTime(60_000);
    expect(await claimsOf(true, 2, sources)).toEqual(['claim', 'claim_more']);
  });
});
