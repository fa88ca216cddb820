/**
 * The plans that the queue relies on, and what a claim may cost: index scans only, on a connection as a
 * worker has it, whatever the statistics say, and at most 150 buffers for 25 jobs at any backlog.
 */
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { claimJobs } from '../src/claim/claim.js';
import { renewLeases } from '../src/lease/renew.js';
import { ENGINE_SETTINGS } from '../src/postgres/pool.js';
import { load, type Statement } from '../src/postgres/statement.js';
import { completeJobs } from '../src/settle/complete.js';
import { failJobs } from '../src/settle/fail.js';
import { releaseJobs } from '../src/settle/release.js';
import { INBOX, testDatabase } from './support/database.js';

const db = testDatabase();
const MAX_BUFFERS = 150;

interface PlanNode {
  'Node Type': string;
  'Relation Name'?: string;
  'Index Name'?: string;
  'Shared Hit Blocks': number;
  'Shared Read Blocks': number;
  'Actual Rows': number;
  Plans?: PlanNode[];
}

let session: pg.Client;
beforeAll(async () => {
  const options = Object.entries(ENGINE_SETTINGS).map(([name, value]) => `-c ${name}=${value}`);
  session = new pg.Client({ connectionString: db.url, options: options.join(' ') });
  await session.connect();
  // Statistics must be exactly as stale as each test makes them.
  await session.query('ALTER TABLE holdfast.inbox SET (autovacuum_enabled = off)');
});
afterAll(() => session?.end());

const literal = (value: unknown) =>
  value === null ? 'NULL' : `'${String(value).replaceAll("'", "''")}'`;

async function explain(name: string, params: unknown[]): Promise<PlanNode> {
  const { rows } = await session.query(
    `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE ${name}(${params.map(literal).join(', ')})`,
  );
  return rows[0]['QUERY PLAN'][0].Plan;
}

function* nodes(node: PlanNode): Generator<PlanNode> {
  yield node;
  for (const child of node.Plans ?? []) yield* nodes(child);
}

/** How the queue table is reached in a plan: `Index Scan inbox_claim_idx`, `Tid Scan`, … */
function accesses(plan: PlanNode): string[] {
  return [...nodes(plan)]
    .filter((node) => node['Relation Name'] === 'inbox' && node['Node Type'].endsWith('Scan'))
    .map((node) => [node['Node Type'], node['Index Name']].filter(Boolean).join(' '))
    .sort();
}

const buffers = (plan: PlanNode) => plan['Shared Hit Blocks'] + plan['Shared Read Blocks'];

function claimParams(lanes: number[], limit = 25): unknown[] {
  const each = (value: string | number) => `{${lanes.map(() => value).join(',')}}`;
  return [
    `{${lanes.join(',')}}`,
    each(2),
    each('-infinity'),
    each(0),
    limit,
    'w',
    90_000,
    '{"noop":1}',
    '{}',
    2_000,
  ];
}

async function prepare(name: string, statement: Statement): Promise<void> {
  await session.query('DEALLOCATE ALL');
  await session.query(`PREPARE ${name} AS ${load(statement, INBOX).text}`);
}

/** `count` due jobs spread over the lanes from..to, older by `ageSeconds`. */
async function fill(count: number, from: number, to: number, ageSeconds: number): Promise<void> {
  await session.query(
    `INSERT INTO holdfast.inbox (type, partition_key, partition_bucket, lane, payload, available_at)
     SELECT 'noop', 'k' || n, lane * 8, lane, '{"orderId":9182}',
       now() - $4::int * interval '1 second' + n * interval '1 microsecond'
     FROM (SELECT n, $2::int + (n::bigint * 7919) % ($3::int - $2::int + 1) AS lane
           FROM generate_series(1, $1::int) AS n) AS spread`,
    [count, from, to, ageSeconds],
  );
}

const LANES_MINE = Array.from({ length: 64 }, (_, lane) => 64 + lane);
const GOOD_CLAIM = ['Index Scan inbox_claim_idx', 'Tid Scan'];

async function expectGoodClaim(lanes: number[]): Promise<void> {
  const plan = await explain('claim', claimParams(lanes));
  expect(accesses(plan)).toEqual(GOOD_CLAIM);
  expect(plan['Actual Rows']).toBe(25);
  expect(buffers(plan)).toBeLessThanOrEqual(MAX_BUFFERS);
}

describe('a claim of 25', () => {
  test('planned on an empty table keeps its plan and its cost as the backlog grows to 600,000', async () => {
    await prepare('claim', claimJobs);
    // More often than Postgres takes to settle on a generic plan, and with nothing in the table.
    for (let n = 0; n < 8; n++) {
      const plan = await explain('claim', claimParams(LANES_MINE));
      expect(accesses(plan)).toEqual(GOOD_CLAIM);
    }
    await fill(1_000, 64, 127, 60);
    await expectGoodClaim(LANES_MINE);
    await fill(99_000, 64, 127, 50);
    await expectGoodClaim(LANES_MINE.slice(10));
    // The oldest half million belongs to somebody else.
    await fill(500_000, 0, 63, 3_600);
    await expectGoodClaim(LANES_MINE.slice(20));
  });

  test('planned anew without statistics, with stale ones and with fresh ones is the same', async () => {
    await prepare('claim', claimJobs);
    await expectGoodClaim(LANES_MINE.slice(30));
    await session.query("SELECT pg_stat_reset_single_table_counters('holdfast.inbox'::regclass)");
    await session.query('ANALYZE holdfast.inbox');
    await prepare('claim', claimJobs);
    await expectGoodClaim(LANES_MINE.slice(40));
  });

  test('leaves the rows of a lane that were claimed before to their owner, at the cost of a cursor', async () => {
    await prepare('claim', claimJobs);
    const params = claimParams([64], 500);
    await explain('claim', params);
    const { rows } = await session.query(
      `SELECT available_at::text AS at, position FROM holdfast.inbox
       WHERE lane = 64 AND status = 'processing' ORDER BY available_at DESC, position DESC LIMIT 1`,
    );
    const next = claimParams([64]);
    next[2] = `{"${rows[0].at}"}`;
    next[3] = `{${rows[0].position}}`;
    const plan = await explain('claim', next);
    expect(plan['Actual Rows']).toBe(25);
    expect(buffers(plan)).toBeLessThanOrEqual(MAX_BUFFERS);
  });
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
      expect(accesses(plan)).toEqual(['Index Scan inbox_id_pkey']);
      expect(buffers(plan)).toBeLessThanOrEqual(40);
    },
  );
});
