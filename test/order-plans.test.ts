/**
 * What a claim of ordered jobs may cost: index scans only, on a connection as a worker has it, no more
 * buffers at a large backlog than at a small one, nothing for what lies behind the head of a blocked
 * key; and, as every claim, no index is written.
 */
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { claimOrdered, claimOrderedJobs, claimOrderedMore } from '../src/claim/claim-ordered.js';
import { engineConfig } from '../src/postgres/pool.js';
import { engineExecutor } from '../src/postgres/queryable.js';
import { load } from '../src/postgres/statement.js';
import { INBOX, testDatabase } from './support/database.js';
import { ALL_KEYS, bucketOnly, claimInOrder } from './support/ordered.js';
import { accesses, buffers, explained, type PlanNode, planSession } from './support/plans.js';

const db = testDatabase();

let session: pg.Client;
beforeAll(async () => {
  session = await planSession(db.url);
  await session.query(`PREPARE claim AS ${load(claimOrderedJobs, INBOX).text}`);
  await session.query(`PREPARE more AS ${load(claimOrderedMore, INBOX).text}`);
});
afterAll(() => session?.end());

/** The parameters that the verb passes for a request, caught on their way. */
async function paramsOf(limit: number, probes = ALL_KEYS): Promise<unknown[]> {
  let caught: readonly unknown[] = [];
  const catcher = {
    run: async (_: unknown, __: unknown, params: readonly unknown[]) => {
      caught = params;
      return [{ epoch: 0 }];
    },
  };
  await claimOrdered(catcher as never, INBOX, {
    ...{ workerId: 'w', probes, limit, run: 100, leaseMs: 90_000 },
    ...{ versions: { step: 1 }, above: {}, deadWorkers: [], trusted: ['step'] },
  });
  return [...caught];
}

/** One claim, rolled back, with its plan. */
async function explain(limit: number, probes = ALL_KEYS, form = 'claim'): Promise<PlanNode> {
  const params = await paramsOf(limit, probes);
  await session.query('BEGIN');
  const plan = await explained(session, form, params);
  await session.query('ROLLBACK');
  return plan;
}

const ways = (plan: PlanNode) => [...new Set(accesses(plan))];
const GOOD = ['Index Scan inbox_order_idx', 'Tid Scan'];

/** `each` jobs of each of `keys` keys; with a delay, none of them is due. */
async function fill(keys: number, each: number, prefix: string, delayed = false): Promise<void> {
  await session.query(
    `INSERT INTO holdfast.inbox (type, partition_key, partition_bucket, payload, ordering, available_at)
     SELECT 'step', k.key, k.bucket, '{"n":1}', 'key', now() + $4::int * interval '1 hour'
     FROM generate_series(1, $2::int) AS n
     CROSS JOIN (SELECT $3::text || g AS key, holdfast.bucket_of($3::text || g) AS bucket
                 FROM generate_series(1, $1::int) AS g) AS k`,
    [keys, each, prefix, delayed ? 1 : 0],
  );
}

/** A claim answers with a row about itself and one for each job; in its other form with the jobs. */
const FORMS = [
  ['claim', 1],
  ['more', 0],
] as const;

describe('a claim of ordered jobs', () => {
  test.each(FORMS)(
    'planned on an empty table keeps its plan and its cost as the backlog grows (%s)',
    async (form, about) => {
      await session.query('TRUNCATE holdfast.inbox');
      const explain25 = () => explain(25, ALL_KEYS, form);
      for (let n = 0; n < 8; n++) expect(ways(await explain25())).toEqual(GOOD);
      await fill(1_000, 3, 'k');
      const small = await explain25();
      expect(small['Actual Rows']).toBe(25 + about);
      await fill(20_000, 10, 'm');
      const large = await explain25();
      expect(ways(large)).toEqual(GOOD);
      expect(large['Actual Rows']).toBe(25 + about);
      expect(buffers(small)).toBeLessThanOrEqual(300);
      expect(buffers(large)).toBeLessThanOrEqual(buffers(small) + 100);
      await session.query('ANALYZE holdfast.inbox');
      await session.query('DISCARD PLANS');
      const fresh = await explain25();
      expect(ways(fresh)).toEqual(GOOD);
      expect(buffers(fresh)).toBeLessThanOrEqual(buffers(small) + 100);
    },
  );

  test.each(FORMS)(
    'costs a few buffers per job in a long run, and none for the rest of the line (%s)',
    async (form, about) => {
      await session.query('TRUNCATE holdfast.inbox');
      await fill(1, 100_000, 'hot');
      const plan = await explain(100, bucketOnly('hot1'), form);
      expect(plan['Actual Rows']).toBe(100 + about);
      expect(buffers(plan)).toBeLessThanOrEqual(100 * 12);
    },
  );

  test('does not read what waits behind the head of a blocked key', async () => {
    await session.query('TRUNCATE holdfast.inbox');
    await fill(1, 1, 'blocked', true);
    await fill(1, 100_000, 'blocked');
    const plan = await explain(25);
    expect(buffers(plan)).toBeLessThanOrEqual(150);
  });

  test('stops after a bounded number of blocked keys, says where, and goes on from there', async () => {
    await session.query('TRUNCATE holdfast.inbox');
    await fill(5_000, 2, 'b', true);
    const [probe] = ALL_KEYS;
    let [claims, from] = [0, probe!];
    for (;;) {
      const { stop, jobs } = await claimInOrder(db.engine, 'w', { probes: [from] });
      claims++;
      expect(jobs).toEqual([]);
      if (!stop) break;
      from = { ...probe!, bucket: stop.bucket, afterKey: stop.key, afterPosition: 2 ** 53 - 1 };
    }
    expect(claims).toBeGreaterThan(5);
    expect(claims).toBeLessThan(20);
    expect(buffers(await explain(25))).toBeLessThan(4_000);
  });
});

test('claims of 1,000 ordered jobs are HOT', async () => {
  await session.query('TRUNCATE holdfast.inbox');
  await fill(100, 10, 'k');
  const counters = async () =>
    (
      await db.rows<{ all: number; hot: number }>(
        `SELECT n_tup_upd::int AS all, n_tup_hot_upd::int AS hot FROM pg_stat_user_tables
         WHERE schemaname = 'holdfast' AND relname = 'inbox'`,
      )
    )[0]!;
  const before = await counters();
  const client = new pg.Client(engineConfig({ connectionString: db.url }));
  await client.connect();
  try {
    const engine = engineExecutor(client, { prepare: true });
    for (let count = 0; count < 4; count++)
      expect((await claimInOrder(engine, 'w', { limit: 250, run: 10 })).jobs).toHaveLength(250);
    // Counts are kept in the session for up to a second; this tells it not to wait.
    await client.query('SELECT pg_stat_force_next_flush()');
  } finally {
    await client.end();
  }
  const after = await counters();
  expect({ all: after.all - before.all, hot: after.hot - before.hot }).toEqual({
    all: 1_000,
    hot: 1_000,
  });
});
