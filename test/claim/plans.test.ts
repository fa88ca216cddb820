/**
 * The plans that a queue which is read by time relies on, and what a claim may cost: index scans only, on a
 * connection as a worker has it, whatever the statistics say, and at most 200 buffers for 25 jobs at any
 * backlog. Order per key has its own in order-plans.test.ts.
 */
import type pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { claimSuspectJobs } from '../../packages/holdfast/src/claim/suspects.js';
import {
  claimInLine as claimJobs,
  claimMerged,
  type LineRequest,
} from '../../packages/holdfast/src/claim/time/claim.js';
import { frontLines } from '../../packages/holdfast/src/claim/time/lines.js';
import { renewLeases } from '../../packages/holdfast/src/lease/renew.js';
import { recoverJobs } from '../../packages/holdfast/src/maintenance/recover.js';
import { load, type Statement } from '../../packages/holdfast/src/postgres/statement.js';
import { completeJobs, completeRuns } from '../../packages/holdfast/src/settle/complete.js';
import { failJobs } from '../../packages/holdfast/src/settle/fail.js';
import { releaseClaimedJobs, releaseJobs } from '../../packages/holdfast/src/settle/release.js';
import { byId } from '../../packages/holdfast/src/settle/settled.js';
import { allPast } from '../support/all-past.js';
import { claimByTime, claimSuspected, type TimeOptions } from '../support/claiming.js';
import { INBOX, testDatabase } from '../support/database.js';
import { long } from '../support/long.js';
import {
  accesses,
  buffers,
  explained,
  explainedAndUndone,
  type PlanNode,
  paramsOf,
  planSession,
} from '../support/plans.js';

const db = testDatabase();
const MAX_BUFFERS = 200;
const BACKLOG = long(40_000, 600_000);
const versions = { noop: 1 };

let session: pg.Client;
beforeAll(async () => {
  session = await planSession(db.url);
});
afterAll(() => session?.end());

const ways = (plan: PlanNode) => [...new Set(accesses(plan))];

async function prepare(name: string, statement: Statement): Promise<void> {
  await session.query('DEALLOCATE ALL');
  await session.query(`PREPARE ${name} AS ${load(statement, INBOX).text}`);
}

/** `count` jobs of a priority, due since `ageSeconds` (or in the future), `type` noop or another. */
function fill(count: number, ageSeconds: number, { priority = 2, type = 'noop' } = {}) {
  return session.query(
    `INSERT INTO holdfast.inbox (type, partition_key, partition_bucket, payload, priority, available_at, parked)
     SELECT $4, 'k' || n, n % 1024, '{"orderId":9182}', $3,
       now() - $2::int * interval '1 second' + n * interval '1 microsecond', false
     FROM generate_series(1, $1::int) AS n`,
    [count, ageSeconds, priority, type],
  );
}

/** The first row says what is true of the whole claim. */
const HEAD = 1;

/** As a worker asks: of each line what it wants and some more. */
const front = (limit = 25): readonly LineRequest[] => frontLines(versions, limit + 32);
const claimParams = (options: TimeOptions = {}) => {
  const { limit = 25 } = options;
  const asked = { lines: front(limit), walks: [], limit, versions, ...options };
  return paramsOf((catcher) => claimByTime(catcher, 'w', asked));
};

/** The better of two: changes elsewhere on the server may make a session read its catalogues again. */
async function expectGoodClaim(jobs = 25, ask = false): Promise<void> {
  const read: number[] = [];
  // As if they were completed: the first claim passes over them, and the index remembers that they are gone.
  await session.query("DELETE FROM holdfast.inbox WHERE status = 'processing'");
  await allPast(db.rows);
  for (let claims = 0; claims < 2; claims++) {
    const plan = await explained(session, 'claim', await claimParams({ ask }));
    expect(plan['Actual Rows']).toBe(HEAD + jobs);
    read.push(buffers(plan));
  }
  expect(Math.min(...read)).toBeLessThanOrEqual(MAX_BUFFERS);
}

describe('a claim of 25', () => {
  test(`planned on an empty table keeps its plan and its cost as the backlog grows to ${BACKLOG}`, async () => {
    await prepare('claim', claimJobs);
    // More often than Postgres takes to settle on a generic plan, and with nothing in the table.
    for (let n = 0; n < 8; n++) await expectGoodClaim(0);
    await fill(1_000, 60);
    await expectGoodClaim();
    await fill(9_000, 50);
    await expectGoodClaim();
    await fill(BACKLOG - 10_000, 3_600);
    await expectGoodClaim();
    await expectGoodClaim(25, true);
  });

  test('planned anew without statistics, with stale ones and with fresh ones is the same', async () => {
    await prepare('claim', claimJobs);
    await expectGoodClaim();
    await session.query("SELECT pg_stat_reset_single_table_counters('holdfast.inbox'::regclass)");
    await session.query('ANALYZE holdfast.inbox');
    await prepare('claim', claimJobs);
    for (let n = 0; n < 8; n++) await expectGoodClaim();
    // Statistics of a full table, and an empty one.
    await session.query('TRUNCATE holdfast.inbox');
    await prepare('claim', claimJobs);
    await expectGoodClaim(0);
    await fill(40_000, 3_600);
    await expectGoodClaim();
  });

  test('reads on from its cursor, past jobs that were claimed and completed before', async () => {
    await session.query('TRUNCATE holdfast.inbox');
    await fill(20_000, 60);
    await prepare('claim', claimJobs);
    await explained(session, 'claim', await claimParams({ limit: 5_000 }));
    const { rows } = await session.query(
      `DELETE FROM holdfast.inbox WHERE status = 'processing'
       RETURNING available_at::text AS at, position::int`,
    );
    expect(rows).toHaveLength(5_000);
    const last = rows.reduce((a, b) => (a.position > b.position ? a : b));
    const lines = front().map((line) => ({
      ...line,
      ...(line.priority === 2 && { afterAt: last.at, afterPosition: last.position }),
    }));
    const plan = await explainedAndUndone(session, 'claim', await claimParams({ lines }));
    expect(plan['Actual Rows']).toBe(HEAD + 25);
    expect(buffers(plan)).toBeLessThanOrEqual(MAX_BUFFERS);
  });

  test(`of aged jobs reads none of ${BACKLOG} urgent ones, and none that is not aged`, async () => {
    await session.query('TRUNCATE holdfast.inbox');
    await prepare('claim_merged', claimMerged);
    await fill(BACKLOG, 7_200, { priority: 1 });
    await fill(1_000, 60, { priority: 3 });
    await fill(10, 3_600, { priority: 4 });
    const lines = frontLines(versions, 7).filter(({ priority }) => priority > 1);
    const params = await claimParams({ lines, limit: 6, aged: true });
    await explainedAndUndone(session, 'claim_merged', params);
    const plan = await explainedAndUndone(session, 'claim_merged', params);
    expect(plan['Actual Rows']).toBe(HEAD + 6);
    expect(buffers(plan)).toBeLessThanOrEqual(80);
    // And the ordinary claim beside it costs what it did.
    await prepare('claim', claimJobs);
    await expectGoodClaim();
  });

  test('does not read what lies in the future, nor dead letters', async () => {
    await session.query('TRUNCATE holdfast.inbox');
    await prepare('claim', claimJobs);
    await fill(20_000, -3_600);
    await session.query(
      `INSERT INTO holdfast.inbox (type, partition_key, partition_bucket, payload, status, available_at, parked)
       SELECT 'noop', 'k' || n, 7, '{}', 'dead_letter', 'infinity', true FROM generate_series(1, 10000) AS n`,
    );
    for (const ask of [false, true]) {
      await explainedAndUndone(session, 'claim', await claimParams({ ask }));
      const plan = await explainedAndUndone(session, 'claim', await claimParams({ ask }));
      expect(plan['Actual Rows']).toBe(HEAD);
      expect(buffers(plan)).toBeLessThanOrEqual(40);
    }
  });

  test('does not read suspects', async () => {
    await session.query('TRUNCATE holdfast.inbox');
    await prepare('claim', claimJobs);
    await fill(20_000, 3_600);
    await session.query('UPDATE holdfast.inbox SET crashes = 2');
    await session.query('VACUUM holdfast.inbox');
    await fill(10, 60);
    const plan = await explainedAndUndone(session, 'claim', await claimParams());
    expect(plan['Actual Rows']).toBe(HEAD + 10);
    expect(buffers(plan)).toBeLessThanOrEqual(MAX_BUFFERS);
  });
});

test('a claim of suspects finds them in a long queue, with any statistics', async () => {
  await session.query('TRUNCATE holdfast.inbox');
  await fill(20_000, 60);
  await session.query(
    'UPDATE holdfast.inbox SET crashes = 2 WHERE position % 1000 = 0 OR position % 1001 = 0',
  );
  await prepare('suspects', claimSuspectJobs);
  const params = await paramsOf((catcher) => claimSuspected(catcher, 'w', { versions }));
  for (const statistics of ['stale', 'fresh']) {
    if (statistics === 'fresh') await session.query('ANALYZE holdfast.inbox; DISCARD PLANS');
    await explainedAndUndone(session, 'suspects', params);
    const plan = await explainedAndUndone(session, 'suspects', params);
    expect(plan['Actual Rows']).toBe(HEAD + 16);
    // The table has more pages than that. Its function is not in the plan.
    expect(buffers(plan)).toBeLessThanOrEqual(600);
  }
});

/** What each settle takes beside the fence. */
type More = (ids: readonly string[]) => unknown[];
const failures: More = (ids) => {
  const jobs = ids.map((id) => ({ id, generation: 1 }));
  return [byId(jobs, () => ({ delay: 0, summary: 'e' })), byId(jobs, () => 'e')];
};
/** How many rows of the queue were read, and passed over, in the whole plan. */
function read(node: PlanNode): number {
  const own = node['Relation Name'] === 'inbox' && node['Node Type'].endsWith('Scan');
  const rows = (node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)) * node['Actual Loops'];
  return (node.Plans ?? []).reduce((sum, child) => sum + read(child), own ? rows : 0);
}

describe('a settle', () => {
  const settles: [string, Statement, More][] = [
    ['complete', completeJobs, () => [null]],
    ['renew', renewLeases, () => [90_000]],
    ['release', releaseJobs, () => []],
    ['fail', failJobs, failures],
  ];
  beforeAll(async () => {
    await session.query('TRUNCATE holdfast.inbox, holdfast.inbox_claims');
    await fill(20_000, 60);
    await claimByTime(db.engine, 'w', { limit: 100, number: 7_000_000, versions });
  });

  test.each(settles)(
    '%s finds its jobs by their ids, however large the table',
    async (name, statement, more) => {
      await prepare(name, statement);
      // The first into an empty archive also lays its first pages; the second shows the usual cost.
      let plan: PlanNode | null = null;
      for (let turn = 0; turn < 2; turn++) {
        const { rows } = await session.query(
          "SELECT id, lease_generation FROM holdfast.inbox WHERE claimed_by = 'w' AND status = 'processing' LIMIT 1",
        );
        const job = ['w', `{${rows[0].id}}`, `{${rows[0].lease_generation}}`];
        plan = await explained(session, name, [...job, ...more([rows[0].id])]);
      }
      if (!plan) throw new Error('no plan');
      expect(ways(plan).filter((access) => access !== 'Tid Scan')).toEqual([
        'Index Scan inbox_job_pkey',
      ]);
      expect(buffers(plan)).toBeLessThanOrEqual(40);
    },
  );

  test.each([
    ['release_claims', releaseClaimedJobs, ['w', '{7000000}'], []],
    // Suspects whose claim is forgotten are found by their own index.
    [
      'recover',
      recoverJobs,
      [1_000, 'me', 1, '(0,0)', '(0,0)', '{}'],
      ['Index Scan inbox_suspect_idx', 'Tid Range Scan'],
    ],
  ] as const)(
    '%s finds jobs by the rows of their claims',
    async (name, statement, params, more) => {
      await session.query(
        "UPDATE holdfast.inbox SET lease_expires_at = now() WHERE claimed_by = 'w'",
      );
      for (const statistics of ['stale', 'fresh']) {
        if (statistics === 'fresh') await session.query('ANALYZE holdfast.inbox');
        await prepare(name, statement);
        await explainedAndUndone(session, name, params);
        const plan = await explainedAndUndone(session, name, params);
        expect(plan['Actual Rows']).toBeGreaterThan(90);
        expect(ways(plan).filter((access) => access !== 'Tid Scan')).toEqual([
          'Index Scan inbox_job_pkey',
          ...more,
        ]);
        expect(buffers(plan)).toBeLessThanOrEqual(100 * 40);
      }
    },
  );

  test.each<[string, Statement, More]>([
    ['complete', completeJobs, () => [null]],
    ['complete_runs', completeRuns, (ids) => [null, `{${ids.map(() => 'NULL').join()}}`]],
    ['renew', renewLeases, () => [90_000]],
    ['release', releaseJobs, () => []],
    ['fail', failJobs, failures],
  ])(
    '%s reads no rows but its own, also if the table was analysed while it was empty',
    async (name, statement, more) => {
      await session.query('DELETE FROM holdfast.inbox; ANALYZE holdfast.inbox');
      const { rows: sizes } = await session.query(
        "SELECT reltuples, relpages FROM pg_class WHERE oid = 'holdfast.inbox'::regclass",
      );
      expect(sizes[0]).toMatchObject({ reltuples: 0, relpages: expect.any(Number) });
      expect(sizes[0].relpages).toBeGreaterThan(0);
      await prepare(name, statement);
      await fill(5_000, 60);
      const { jobs } = await claimByTime(db.engine, 'w', {
        ...{ limit: 100, versions },
        number: Math.floor(Math.random() * 1e9),
      });
      expect(jobs).toHaveLength(100);
      const ids = jobs.map(({ id }) => id);
      const lists = [ids, jobs.map(() => 1)].map((all) => `{${all.join()}}`);
      const plan = await explainedAndUndone(session, name, ['w', ...lists, ...more(ids)]);
      // Each job is looked up, read and written. Reading all of the others would be ten times as much.
      expect(read(plan)).toBeLessThanOrEqual(500);
    },
  );
});
