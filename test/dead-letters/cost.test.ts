/** What is not used costs nothing: only a statement that writes a dead letter asks who is to be told. */
import type pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { declareHooks } from '../../packages/holdfast/src/operate/dead-letter-hooks.js';
import { TOLD } from '../../packages/holdfast/src/postgres/fragments.js';
import { allStatements, load } from '../../packages/holdfast/src/postgres/statement.js';
import { fail, failJobs } from '../../packages/holdfast/src/settle/fail.js';
import { claimAs } from '../support/claiming.js';
import { INBOX, testDatabase } from '../support/database.js';
import { buffers, explainedAndUndone, paramsOf, planSession } from '../support/plans.js';
import '../../packages/holdfast/src/index.js';

const db = testDatabase();
let session: pg.Client;
beforeAll(async () => {
  session = await planSession(db.url);
});
afterAll(() => session?.end());

const JOBS = 25;

test('no other statement calls the function or reads its table', () => {
  const naming = (part: string) =>
    allStatements().flatMap(({ name, text }) => (text.includes(part) ? [name] : []));
  expect(naming('dead_letter_hook(').sort()).toEqual(['dead_letter', 'fail', 'recover']);
  expect(naming('holdfast.on_dead_letter').sort()).toEqual([
    'declare_dead_letter_hooks',
    'find_queue_hook',
    'list_dead_letter_hooks',
  ]);
});

test('a failure that is tried again reads as many buffers as without the function', async () => {
  const { text } = load(failJobs, INBOX);
  const without = text.replace(`, ${TOLD}`, '');
  expect(without).not.toContain('dead_letter_hook');
  await session.query(`PREPARE fail AS ${text}`);
  await session.query(`PREPARE fail_without AS ${without}`);
  /** With and without, one after the other: an autovacuum that is about for a while costs both the same 14 buffers. */
  async function more(most: number): Promise<number> {
    const seen: number[] = [];
    for (let n = 0; n < 5 && !seen.includes(0); n++) {
      seen.push((await read('fail', most)) - (await read('fail_without', most)));
    }
    return Math.min(...seen.map(Math.abs));
  }
  /** Of jobs that were never touched: what was rolled back leaves its rows behind. */
  async function read(name: string, most: number): Promise<number> {
    await session.query('TRUNCATE holdfast.inbox, holdfast.inbox_claims');
    await db.rows(
      `INSERT INTO holdfast.inbox (type, partition_key, partition_bucket, payload, max_attempts, parked)
       SELECT 'step', 'k' || n, n, '{}', $2, false FROM generate_series(1, $1::int) AS n`,
      [JOBS, most],
    );
    const held = await claimAs(db.engine, 'w', { types: ['step'] });
    const jobs = held.map(({ id, leaseGeneration: generation }) => ({ id, generation }));
    const why = { delayMs: 0, error: 'e', summary: 'e' };
    const params = await paramsOf((on) =>
      fail(
        on,
        INBOX,
        'w',
        jobs.map((one) => ({ ...one, ...why })),
      ),
    );
    const plan = await explainedAndUndone(session, name, params);
    expect(plan['Actual Rows']).toBe(JOBS);
    return buffers(plan);
  }
  for (const declared of [false, true]) {
    const hook = declared
      ? { queue: 'inbox', type: 'tell', version: 1, priority: 2, maxAttempts: 5 }
      : null;
    await declareHooks(db.engine, INBOX, [{ type: 'step', hook }]);
    expect(await more(5)).toBe(0);
  }
  // It is seen when they die.
  expect(await more(1)).toBeGreaterThan(JOBS);
});
