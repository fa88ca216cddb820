/** What looks at a queue that is read by time costs the same behind any backlog, of jobs and of keys. */
import type pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { INBOX, testDatabase } from '../../../../../test/support/database.js';
import { accesses, buffers, explained, planSession } from '../../../../../test/support/plans.js';
import { load, type Statement } from '../../postgres/statement.js';
import { readRateLine } from '../explain/facts/limits.js';
import { ahead } from '../explain/facts/line.js';
import { commonErrorByTime } from '../job/failures.js';
import { countDue } from '../queue/limits.js';
import { oldestByTime, oldestDue } from '../queue/oldest.js';
import { countScheduled } from '../queue/pending.js';
import { waitingByTime } from '../queue/waiting.js';
import { MAX_LINES } from './lines.js';
import { READING, reading } from './reading.js';

const db = testDatabase();
const DEEP = 20_000;
const KEYS = 3_000;
const ID = '00000000-0000-7000-8000-000000000001';

let session: pg.Client;
beforeAll(async () => {
  session = await planSession(db.url);
  const row = (type: string, key: string, count: number) => `
    INSERT INTO holdfast.inbox (type, partition_key, partition_bucket, payload, available_at, parked, limit_key)
    SELECT '${type}', 'k', 1, '{}', now() - interval '1 hour' + n * interval '1 microsecond', false, ${key}
    FROM generate_series(1, ${count}) AS n`;
  await session.query(row('deep', 'NULL', DEEP));
  await session.query(row('keyed', `'tenant ' || n`, KEYS));
  await session.query(`INSERT INTO holdfast.inbox (id, type, partition_key, partition_bucket, payload, parked)
    VALUES ('${ID}', 'other', 'k', 1, '{}', false)`);
});
afterAll(() => session?.end());

async function planOf(statement: Statement, params: readonly unknown[]) {
  await session.query(READING);
  try {
    await session.query(`PREPARE look AS ${load(statement, INBOX).text}`);
    return await explained(session, 'look', params);
  } finally {
    await session.query('ROLLBACK; DEALLOCATE ALL');
  }
}

const NOW = new Date(Date.now() + 60_000).toISOString();
/** For each of a thousand keys some pages of the index: 3,000 to 8,500 in all. */
const MOST_BUFFERS = 12_000;

test.each<[Statement, readonly unknown[]]>([
  [oldestByTime, []],
  [countScheduled, [10_000]],
  [ahead.statement, [2, NOW, 1e9, '{"other": 1}']],
  [readRateLine, [ID, true, 1]],
  [commonErrorByTime, [2_000, 1_000]],
  [countDue, ['{other}']],
  [waitingByTime, [null, false, '{}', '{}', '{}']],
])('$name', async (statement, params) => {
  const plan = await planOf(statement, params);
  const good = /^Index (Only )?Scan.* inbox_(line|rate|suspect|dead)_idx$|inbox_job_pkey$/;
  expect(accesses(plan).filter((way) => !good.test(way))).toEqual([]);
  expect(buffers(plan)).toBeLessThan(MOST_BUFFERS);
});

test('with more keys of rates than are looked at, the oldest is said to be approximate', async () => {
  const oldest = await reading(db.pool, (reader) => oldestDue(reader, INBOX, false));
  expect(oldest.oldestDueApproximate).toBe(true);
  await db.rows(`DELETE FROM holdfast.inbox WHERE type = 'keyed' AND position >
    (SELECT min(i.position) + ${MAX_LINES - 2} FROM holdfast.inbox AS i WHERE i.type = 'keyed')`);
  const exact = await reading(db.pool, (reader) => oldestDue(reader, INBOX, false));
  expect(exact.oldestDueApproximate).toBe(false);
});
