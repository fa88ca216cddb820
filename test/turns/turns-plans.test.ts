/** What a claim may cost where keys take turns: no more buffers at a large backlog than at a small one. */
import type pg from 'pg';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { claimTurnsJobs } from '../../packages/holdfast/src/claim/turns/claim.js';
import { load } from '../../packages/holdfast/src/postgres/statement.js';
import { INBOX, testDatabase } from '../support/database.js';
import {
  accesses,
  buffers,
  explainedAndUndone,
  type PlanNode,
  paramsOf,
  planSession,
} from '../support/plans.js';
import { claimInTurns, type TurnsOptions } from '../support/turns.js';

const db = testDatabase();
let session: pg.Client;
beforeAll(async () => {
  await db.hf.configureQueue('inbox', { perKey: 2, fair: true, perGroup: 1 });
  session = await planSession(db.url);
  await session.query(`PREPARE claim AS ${load(claimTurnsJobs, INBOX).text}`);
});
afterAll(() => session?.end());
beforeEach(() => session.query('TRUNCATE holdfast.inbox, holdfast.inbox_claims'));

/** One claim, rolled back, with its plan; what its function reads is counted with it. */
async function explain(options: TurnsOptions): Promise<PlanNode> {
  const params = await paramsOf((catcher) => claimInTurns(catcher, 'w', options));
  return explainedAndUndone(session, 'claim', params);
}

const fill = (keys: number, each: number, prefix: string, group: string | null = null) =>
  session.query(
    `INSERT INTO holdfast.inbox (type, partition_key, group_key, partition_bucket, payload, parked)
     SELECT 'step', k.key, $4::text, k.bucket, '{"n":1}', false
     FROM generate_series(1, $2::int) AS n
     CROSS JOIN (SELECT $3::text || g AS key, holdfast.bucket_of(coalesce($4::text, $3::text || g)) AS bucket
                 FROM generate_series(1, $1::int) AS g) AS k`,
    [keys, each, prefix, group],
  );

/** A claim answers with a row about itself and one for each job. */
const HEAD = 1;

test('planned on an empty table it keeps its cost as the backlog grows', async () => {
  for (let n = 0; n < 8; n++) await explain({ limit: 25 });
  await fill(1_000, 3, 'k');
  const small = await explain({ limit: 25 });
  expect(small['Actual Rows']).toBe(HEAD + 25);
  await fill(10_000, 3, 'm');
  const large = await explain({ limit: 25 });
  expect(large['Actual Rows']).toBe(HEAD + 25);
  expect([...new Set(accesses(large))]).toEqual(['Index Scan inbox_suspect_idx', 'Tid Scan']);
  expect(buffers(small)).toBeLessThanOrEqual(25 * 30);
  expect(buffers(large)).toBeLessThanOrEqual(buffers(small) + 200);
});

test('the line of a long key is not read beyond what is taken', async () => {
  await fill(1, 20_000, 'hot');
  const plan = await explain({ limit: 100, again: true });
  expect(plan['Actual Rows']).toBe(HEAD + 2);
  expect(buffers(plan)).toBeLessThanOrEqual(200);
});

test('a full group is passed in one step', async () => {
  await fill(5_000, 1, 'user', 'g');
  await claimInTurns(db.engine, 'w', { limit: 1 });
  const plan = await explain({ limit: 100 });
  expect(plan['Actual Rows']).toBe(HEAD);
  expect(buffers(plan)).toBeLessThanOrEqual(100);
});
