/** Due jobs that nobody handles are found at any backlog, and only a bounded part of it is read. */
import type pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { INBOX, testDatabase } from '../../../../../test/support/database.js';
import { accesses, buffers, explained, planSession } from '../../../../../test/support/plans.js';
import { load } from '../../postgres/statement.js';
import { findUnhandled, unhandledByKey, unhandledByTime } from './unhandled.js';

const db = testDatabase();
const ROWS = 6_000;

let session: pg.Client;
beforeAll(async () => {
  session = await planSession(db.url);
});
afterAll(() => session?.end());

async function fill(): Promise<void> {
  await db.rows(`INSERT INTO holdfast.workers (id, status, handles) VALUES
    ('w1', 'alive', '{"inbox": {"known": 2}}'), ('w2', 'dead', '{"inbox": {"old": 1}}'),
    ('w3', 'alive', '{"other": {"old": 1}}') ON CONFLICT DO NOTHING`);
  await db.rows('TRUNCATE holdfast.inbox');
  await db.rows(`INSERT INTO holdfast.inbox (type, version, priority, partition_key, partition_bucket, payload, available_at)
    SELECT CASE n WHEN 1 THEN 'old' WHEN ${ROWS / 2} THEN 'middle' WHEN ${ROWS} THEN 'new' ELSE 'known' END,
      CASE n WHEN 2 THEN 3 ELSE 2 END, 1 + n % 2, 'k' || n, n % 1024, '{}',
      now() - interval '1 hour' + n * interval '1 millisecond'
    FROM generate_series(1, ${ROWS}) AS n ORDER BY n`);
}

test.each([
  ['time', false],
  ['key', true],
] as const)('in a queue that is read by %s', async (_, keyed) => {
  await fill();
  const found = await findUnhandled(db.engine, INBOX, { keyed, graceMs: 10_000 });
  const types = found.map(({ type, version }) => `${type} ${version}`);
  // By key, the one in the middle is found when those before it have left, or those behind it.
  const expected = ['known 3', ...(keyed ? [] : ['middle 2']), 'new 2', 'old 2'];
  expect(types.toSorted()).toEqual(expected);
  // A type whose jobs are seen from both ends is not counted twice.
  expect(found.map(({ jobs }) => jobs)).toEqual(expected.map(() => 1));
  const [first] = found;
  expect(first?.dueForMs).toBeGreaterThan(3_500_000);
  expect((await db.hf.job(first?.id as string))?.type).toBe(first?.type);
  await db.rows(`DELETE FROM holdfast.inbox WHERE type = 'known' AND version = 2
    AND position < (SELECT position FROM holdfast.inbox WHERE type = 'middle')`);
  const later = await findUnhandled(db.engine, INBOX, { keyed, graceMs: 10_000 });
  expect(later.map(({ type }) => type)).toContain('middle');
  await db.rows(`UPDATE holdfast.inbox SET type = 'gone' WHERE type = 'known'`);
  const all = await findUnhandled(db.engine, INBOX, { keyed, graceMs: 10_000 });
  const { jobs } = all.find(({ type }) => type === 'gone') as { jobs: number };
  // By key, the first and the last thousand.
  expect(jobs).toBeGreaterThan(1_900);
  if (keyed) expect(jobs).toBeLessThanOrEqual(2_000);
  // Not before its grace is over.
  expect(await findUnhandled(db.engine, INBOX, { keyed, graceMs: 7_200_000 })).toEqual([]);
});

test('dead letters do not hide it, however many lie before and behind', async () => {
  await fill();
  await db.rows(`UPDATE holdfast.inbox
    SET status = 'dead_letter', available_at = 'infinity', parked = true WHERE type NOT IN ('middle')`);
  const found = await findUnhandled(db.engine, INBOX, { keyed: true, graceMs: 10_000 });
  expect(found.map(({ type }) => type)).toEqual(['middle']);
});

test('jobs whose rate has keys are found too, of a type or a version that nobody handles', async () => {
  await fill();
  await db.rows(`UPDATE holdfast.inbox SET limit_key = 'tenant ' || position % 7`);
  const found = await findUnhandled(db.engine, INBOX, { keyed: false, graceMs: 10_000 });
  const types = found.map(({ type, version }) => `${type} ${version}`);
  expect(types.toSorted()).toEqual(['known 3', 'middle 2', 'new 2', 'old 2']);
});

test.each([
  [unhandledByTime, /^Index (Only )?Scan (inbox_line_idx|inbox_rate_idx)$/],
  [unhandledByKey, /^Index Scan.* inbox_job_pkey$/],
])('reads through an index, and not the lines that somebody handles', async (statement, good) => {
  await fill();
  await session.query(`PREPARE look AS ${load(statement, INBOX).text}`);
  const plan = await explained(session, 'look', [10_000]);
  await session.query('DEALLOCATE look');
  expect(accesses(plan).filter((way) => !good.test(way))).toEqual([]);
  const read = JSON.stringify(plan).matchAll(/"Relation Name":"inbox".*?"Actual Rows":([\d.]+)/g);
  for (const [, rows] of read) expect(Number(rows)).toBeLessThanOrEqual(1_000);
  if (statement === unhandledByTime) expect(buffers(plan)).toBeLessThan(200);
});
