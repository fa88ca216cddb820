/**
 * What a claim by key may cost: index scans only, on a connection as a worker has it, no more buffers at a
 * large backlog than at a small one, nothing for what lies behind the head of a blocked key.
 */
import type pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { claimKeyedJobs } from '../../packages/holdfast/src/claim/key/claim.js';
import { rest } from '../../packages/holdfast/src/claim/key/stretches.js';
import { claimSuspectJobs } from '../../packages/holdfast/src/claim/suspects.js';
import { load } from '../../packages/holdfast/src/postgres/statement.js';
import { completeRuns } from '../../packages/holdfast/src/settle/complete.js';
import { claimSuspected } from '../support/claiming.js';
import { INBOX, testDatabase } from '../support/database.js';
import { ALL_KEYS, bucketOnly, claimInOrder, inWalkOrder } from '../support/ordered.js';
import {
  accesses,
  buffers,
  explainedAndUndone,
  type PlanNode,
  paramsOf,
  planSession,
} from '../support/plans.js';

const db = testDatabase();

let session: pg.Client;
beforeAll(async () => {
  await db.hf.configureQueue('inbox', { ordering: 'key' });
  session = await planSession(db.url);
  await session.query(`PREPARE claim AS ${load(claimKeyedJobs, INBOX).text}`);
  await session.query(`PREPARE suspects AS ${load(claimSuspectJobs, INBOX).text}`);
  await session.query(`PREPARE complete AS ${load(completeRuns, INBOX).text}`);
});
afterAll(() => session?.end());
beforeEach(() => session.query('TRUNCATE holdfast.inbox'));

/** One claim, rolled back, with its plan. */
async function explain(limit: number, stretches = ALL_KEYS, ask = false): Promise<PlanNode> {
  const params = await paramsOf((catcher) => claimInOrder(catcher, 'w', { limit, stretches, ask }));
  return explainedAndUndone(session, 'claim', params);
}

const ways = (plan: PlanNode) => [...new Set(accesses(plan))];
// Reading for the news is in the plan of every claim, and done only by those that ask.
const GOOD = ['Index Scan inbox_claim_idx', 'Index Scan inbox_suspect_idx', 'Tid Scan'];

/** `each` jobs of each of `keys` keys; with a delay, none of them is due. */
async function fill(keys: number, each: number, prefix: string, delayed = false): Promise<void> {
  await session.query(
    `INSERT INTO holdfast.inbox (type, partition_key, partition_bucket, payload, available_at, parked)
     SELECT 'step', k.key, k.bucket, '{"n":1}', now() + $4::int * interval '1 hour', false
     FROM generate_series(1, $2::int) AS n
     CROSS JOIN (SELECT $3::text || g AS key, holdfast.bucket_of($3::text || g) AS bucket
                 FROM generate_series(1, $1::int) AS g) AS k`,
    [keys, each, prefix, delayed ? 1 : 0],
  );
}

/** A claim answers with a row about itself and one for each job. */
const HEAD = 1;

test('a claim says where it ended also if its only chunk held more than it was asked for', async () => {
  await fill(2, 5, 'k');
  const { jobs, stop } = await claimInOrder(db.engine, 'w', { limit: 6, run: 5 });
  expect(jobs).toHaveLength(6);
  expect(stop).toMatchObject({ stretch: 0, key: inWalkOrder(['k1', 'k2'])[1] });
});

describe('a claim by key', () => {
  test('planned on an empty table keeps its plan and its cost as the backlog grows', async () => {
    for (let n = 0; n < 8; n++) expect(ways(await explain(25))).toEqual(GOOD);
    await fill(1_000, 3, 'k');
    const small = await explain(25);
    expect(small['Actual Rows']).toBe(HEAD + 25);
    await fill(20_000, 3, 'm');
    const large = await explain(25);
    expect(ways(large)).toEqual(GOOD);
    expect(large['Actual Rows']).toBe(HEAD + 25);
    expect(buffers(small)).toBeLessThanOrEqual(400);
    expect(buffers(large)).toBeLessThanOrEqual(buffers(small) + 100);
    await session.query('ANALYZE holdfast.inbox');
    await session.query('DISCARD PLANS');
    for (const ask of [false, true]) {
      const fresh = await explain(25, ALL_KEYS, ask);
      expect(ways(fresh)).toEqual(GOOD);
      expect(buffers(fresh)).toBeLessThanOrEqual(buffers(small) + 100);
    }
  });

  test('costs a few buffers per job in a long run, and none for the rest of the line', async () => {
    await fill(1, 20_000, 'hot');
    const plan = await explain(100, bucketOnly('hot1'));
    expect(plan['Actual Rows']).toBe(HEAD + 100);
    expect(buffers(plan)).toBeLessThanOrEqual(100 * 12);
  });

  test('does not read what waits behind the head of a blocked key', async () => {
    await fill(1, 1, 'blocked', true);
    await fill(1, 20_000, 'blocked');
    expect(buffers(await explain(25))).toBeLessThanOrEqual(150);
  });

  test('does not read dead letters that freed their keys', async () => {
    await fill(10, 1_000, 'k');
    await session.query(
      "UPDATE holdfast.inbox SET status = 'dead_letter', available_at = 'infinity', parked = true",
    );
    await session.query('VACUUM holdfast.inbox');
    expect(buffers(await explain(25))).toBeLessThanOrEqual(150);
  });

  test('stops after a bounded number of blocked keys, says where, and goes on from there', async () => {
    await fill(5_000, 2, 'b', true);
    let [claims, stretches] = [0, ALL_KEYS];
    for (;;) {
      const { stop, jobs, due } = await claimInOrder(db.engine, 'w', { stretches });
      claims++;
      expect(jobs).toEqual([]);
      // None of them is due soon.
      expect(due).toEqual([]);
      if (!stop) break;
      stretches = rest(stretches, stop);
    }
    expect(claims).toBeGreaterThan(5);
    expect(claims).toBeLessThan(20);
    expect(buffers(await explain(25))).toBeLessThan(4_000);
  });
});

test('a claim of suspects reads the heads of their keys only', async () => {
  await fill(20, 1_000, 'k');
  await session.query(`UPDATE holdfast.inbox AS i SET crashes = 2
    WHERE i.position IN (SELECT min(position) FROM holdfast.inbox GROUP BY partition_key)`);
  const params = await paramsOf((catcher) => claimSuspected(catcher, 'w'));
  for (const statistics of ['stale', 'fresh']) {
    if (statistics === 'fresh') await session.query('ANALYZE holdfast.inbox; DISCARD PLANS');
    await explainedAndUndone(session, 'suspects', params);
    const plan = await explainedAndUndone(session, 'suspects', params);
    expect(plan['Actual Rows']).toBe(HEAD + 16);
    expect(ways(plan).filter((way) => way.startsWith('Seq'))).toEqual([]);
    expect(buffers(plan)).toBeLessThanOrEqual(1_000);
  }
});

test('completions of runs find their jobs by their ids, however large the table', async () => {
  await fill(100, 200, 'k');
  const { jobs } = await claimInOrder(db.engine, 'w', { limit: 50, run: 10 });
  const list = (pick: (job: (typeof jobs)[number]) => unknown) => `{${jobs.map(pick).join(',')}}`;
  const after = `{${jobs.map((job, n) => {
    const before = jobs[n - 1];
    return before?.partitionKey === job.partitionKey ? before.id : 'NULL';
  })}}`;
  const params = ['w', list(({ id }) => id), list((job) => job.leaseGeneration), null, after];
  for (const statistics of ['stale', 'fresh']) {
    if (statistics === 'fresh') await session.query('ANALYZE holdfast.inbox; DISCARD PLANS');
    await explainedAndUndone(session, 'complete', params);
    const plan = await explainedAndUndone(session, 'complete', params);
    const others = ways(plan).filter((way) => !way.endsWith('inbox_job_pkey'));
    expect(others.filter((way) => way !== 'Tid Scan')).toEqual([]);
    expect(buffers(plan)).toBeLessThanOrEqual(50 * 20);
  }
});
