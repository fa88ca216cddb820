/**
 * The plans that the queue relies on, and what a claim may cost: index scans only, on a connection as a
 * worker has it, whatever the statistics say, and at most 150 buffers for 25 jobs at any backlog.
 */
import type pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { claim, claimJobs, claimMore, type Probe } from '../src/claim/claim.js';
import { claimAtEndJobs, claimBesideJobs } from '../src/claim/claim-beside.js';
import { Probes } from '../src/claim/probes.js';
import { renewLeases } from '../src/lease/renew.js';
import { load, type Statement } from '../src/postgres/statement.js';
import { completeJobs, completePlaced, completeWholePlaced } from '../src/settle/complete.js';
import { failJobs } from '../src/settle/fail.js';
import { releaseJobs } from '../src/settle/release.js';
import { INBOX, testDatabase } from './support/database.js';
import { accesses, buffers, explained, type PlanNode, planSession } from './support/plans.js';

const db = testDatabase();
const MAX_BUFFERS = 150;

let session: pg.Client;
beforeAll(async () => {
  session = await planSession(db.url);
});
afterAll(() => session?.end());

const explain = (name: string, params: unknown[]) => explained(session, name, params);

function claimParams(probes: readonly Probe[], limit = 25): unknown[] {
  const each = (pick: (probe: Probe) => string | number) => `{${probes.map(pick).join(',')}}`;
  return [
    each((probe) => probe.priority),
    each((probe) => probe.from),
    each((probe) => probe.to),
    each((probe) => `"${probe.afterAt}"`),
    each((probe) => probe.afterPosition),
    limit,
    'w',
    90_000,
    '{"noop":1}',
    '{}',
    2_000,
    '{}',
    '{noop}',
    '{}',
    false,
  ];
}

/**
 * What a worker that owns these buckets reads: at its first claim, or after it has looked around once.
 * Looking around costs a descent per separate run of buckets and priority, at most twice a second.
 */
async function nextProbes(buckets: readonly number[], lookedAround: boolean): Promise<Probe[]> {
  const probes = new Probes({ buckets, pollMs: 500 });
  const first = probes.take(0);
  if (!lookedAround) return first;
  const answer = await claim(db.engine, INBOX, {
    ...{ workerId: 'w', probes: first, limit: 25, leaseMs: 90_000, versions: { noop: 1 } },
    ...{ above: {}, deadWorkers: [], cursorLagMs: 2_000 },
  });
  probes.learn(answer, 25, 1, 1);
  return probes.take(2);
}

async function prepare(name: string, statement: Statement): Promise<void> {
  await session.query('DEALLOCATE ALL');
  await session.query(`PREPARE ${name} AS ${load(statement, INBOX).text}`);
}

/** `count` due jobs spread over the buckets from..to, older by `ageSeconds`. */
async function fill(count: number, from: number, to: number, ageSeconds: number): Promise<void> {
  await session.query(
    `INSERT INTO holdfast.inbox (type, partition_key, partition_bucket, payload, available_at)
     SELECT 'noop', 'k' || n, bucket, '{"orderId":9182}',
       now() - $4::int * interval '1 second' + n * interval '1 microsecond'
     FROM (SELECT n, $2::int + (n::bigint * 7919) % ($3::int - $2::int + 1) AS bucket
           FROM generate_series(1, $1::int) AS n) AS spread`,
    [count, from, to, ageSeconds],
  );
}

/** Every second bucket of the upper half, as a ring hands them out: no two are neighbours. */
const MINE = Array.from({ length: 256 }, (_, n) => 512 + 2 * n);
const UPPER_HALF = Array.from({ length: 512 }, (_, n) => 512 + n);
// One scan for single buckets and one for runs; of the two, a probe runs one.
// The order index is read only if the claim is to tell whether there are ordered jobs.
const GOOD_CLAIM = [
  'Index Only Scan inbox_order_idx',
  'Index Scan inbox_claim_idx',
  'Index Scan inbox_claim_idx',
  'Tid Scan',
];

/** The first row says what is true of the whole claim. */
const HEAD = 1;

/** The better of two: changes elsewhere on the server may make a session read its catalogues again. */
async function expectGoodClaim(buckets: readonly number[], lookedAround = false): Promise<void> {
  const read: number[] = [];
  for (let claims = 0; claims < 2; claims++) {
    const plan = await explain('claim', claimParams(await nextProbes(buckets, lookedAround)));
    expect(accesses(plan)).toEqual(GOOD_CLAIM);
    expect(plan['Actual Rows']).toBe(HEAD + 25);
    read.push(buffers(plan));
  }
  expect(Math.min(...read)).toBeLessThanOrEqual(MAX_BUFFERS);
}

describe('a claim of 25', () => {
  test('planned on an empty table keeps its plan and its cost as the backlog grows to 600,000', async () => {
    await prepare('claim', claimJobs);
    // More often than Postgres takes to settle on a generic plan, and with nothing in the table.
    for (let n = 0; n < 8; n++) {
      const plan = await explain('claim', claimParams(await nextProbes(UPPER_HALF, false)));
      expect(accesses(plan)).toEqual(GOOD_CLAIM);
    }
    // A thousand jobs over 512 buckets: hardly two of them share one.
    await fill(1_000, 512, 1023, 60);
    await expectGoodClaim(UPPER_HALF);
    await fill(99_000, 512, 1023, 50);
    await expectGoodClaim(UPPER_HALF);
    await expectGoodClaim(MINE, true);
    // The oldest half million belongs to somebody else.
    await fill(500_000, 0, 511, 3_600);
    await expectGoodClaim(UPPER_HALF);
    await expectGoodClaim(MINE, true);
  });

  test('planned anew without statistics, with stale ones and with fresh ones is the same', async () => {
    await prepare('claim', claimJobs);
    await expectGoodClaim(MINE, true);
    await session.query("SELECT pg_stat_reset_single_table_counters('holdfast.inbox'::regclass)");
    await session.query('ANALYZE holdfast.inbox');
    await prepare('claim', claimJobs);
    await expectGoodClaim(MINE, true);
  });

  test('reads a bucket on from its cursor, past jobs that were claimed before', async () => {
    await prepare('claim', claimJobs);
    const start = { priority: 2, from: 600, to: 600, afterAt: '-infinity', afterPosition: 0 };
    await explain('claim', claimParams([start], 100));
    const { rows } = await session.query(
      `SELECT available_at::text AS at, position FROM holdfast.inbox
       WHERE partition_bucket = 600 AND status = 'processing' ORDER BY available_at DESC, position DESC LIMIT 1`,
    );
    const cursor = { ...start, afterAt: rows[0].at, afterPosition: rows[0].position };
    const plan = await explain('claim', claimParams([cursor]));
    expect(plan['Actual Rows']).toBe(HEAD + 25);
    expect(buffers(plan)).toBeLessThanOrEqual(MAX_BUFFERS);
  });

  test('does not read what lies in the future of its bucket', async () => {
    await prepare('claim', claimJobs);
    await fill(100_000, 300, 300, -3_600);
    const probe = {
      priority: 2,
      from: 300,
      to: 300,
      afterAt: new Date().toISOString(),
      afterPosition: 0,
    };
    const plan = await explain('claim', claimParams([probe]));
    expect(plan['Actual Rows']).toBe(HEAD);
    expect(buffers(plan)).toBeLessThanOrEqual(10);
  });

  test('in the form for many jobs reads as little', async () => {
    await prepare('claim_more', claimMore);
    const params = async () => claimParams(await nextProbes(UPPER_HALF, false)).slice(0, 14);
    await explain('claim_more', await params());
    const plan = await explain('claim_more', await params());
    expect(accesses(plan)).toEqual(GOOD_CLAIM.slice(1));
    expect(plan['Actual Rows']).toBe(25);
    expect(buffers(plan)).toBeLessThanOrEqual(MAX_BUFFERS);
  });

  test.each([
    ['claim_beside', claimBesideJobs, 301],
    ['claim_at_end', claimAtEndJobs, 302],
  ])(
    '%s reads its stretch of the index, and the rows that it takes',
    async (name, text, bucket) => {
      await prepare(name, text);
      await fill(1_000, bucket, bucket, 60);
      const probe = [2, bucket, '-infinity', 0, '{k1}'];
      const plan = await explain(name, [...probe, ...claimParams([]).slice(5, 13), 500]);
      // The last of the stretch is one of those places, too.
      const tids = ['Tid Scan', 'Tid Scan', 'Tid Scan'];
      expect(accesses(plan)).toEqual(['Index Scan inbox_claim_idx', ...tids]);
      expect(plan['Actual Rows']).toBe(25);
    },
  );
});

describe('a settle', () => {
  const settles: [string, Statement, unknown[]][] = [
    ['complete', completeJobs, []],
    ['renew', renewLeases, [90_000]],
    ['release', releaseJobs, []],
    ['fail', failJobs, ['{0}', '{e}', '{e}']],
  ];
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
        plan = await explain(name, [...job, ...more]);
      }
      if (!plan) throw new Error('no plan');
      expect([...new Set(accesses(plan))].filter((access) => access !== 'Tid Scan')).toEqual([
        'Index Scan inbox_id_pkey',
      ]);
      expect(buffers(plan)).toBeLessThanOrEqual(40);
    },
  );

  test.each([
    ['complete_placed', completePlaced, [], []],
    ['complete_whole_placed', completeWholePlaced, ['{}'], ['Index Only Scan inbox_id_pkey']],
  ] as const)('%s finds its jobs by their places', async (name, statement, more, others) => {
    await prepare(name, statement);
    const { rows } = await session.query(
      "SELECT position, lease_generation, ctid FROM holdfast.inbox WHERE claimed_by = 'w' AND status = 'processing' LIMIT 1",
    );
    const [one] = rows;
    const job = ['w', `{${one.position}}`, `{${one.lease_generation}}`, `{"${one.ctid}"}`];
    const plan = await explain(name, [...job, ...more]);
    expect(accesses(plan).sort()).toEqual([...others, 'Tid Scan']);
    expect(buffers(plan)).toBeLessThanOrEqual(30);
  });
});
