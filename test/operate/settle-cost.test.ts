/** A batch of outcomes costs as much for each job whether it is of 100 jobs or of 1,000, however long their errors are. */
import type pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Executor } from '../../packages/holdfast/src/postgres/queryable.js';
import { load, type Statement } from '../../packages/holdfast/src/postgres/statement.js';
import { cancelOwn, cancelOwnJobs } from '../../packages/holdfast/src/settle/cancel.js';
import { complete, completeJobs } from '../../packages/holdfast/src/settle/complete.js';
import { deadLetter, deadLetterJobs } from '../../packages/holdfast/src/settle/dead-letter.js';
import { fail, failJobs } from '../../packages/holdfast/src/settle/fail.js';
import {
  release,
  releaseJobs,
  snooze,
  snoozeJobs,
} from '../../packages/holdfast/src/settle/release.js';
import type { Settled } from '../../packages/holdfast/src/settle/settled.js';
import { claimAs } from '../support/claiming.js';
import { INBOX, testDatabase } from '../support/database.js';
import { explainedAndUndone, paramsOf, planSession, rowsHandled } from '../support/plans.js';

const db = testDatabase();
let session: pg.Client;
beforeAll(async () => {
  session = await planSession(db.url);
});
afterAll(() => session?.end());

const error = 'e'.repeat(8_000);
const why = { delayMs: 1_000, error, summary: 'e', reason: error };

type Verb = (on: Executor, ...of: [typeof INBOX, string, never[]]) => Promise<unknown>;
const verbs: [string, Statement, Verb][] = [
  ['complete', completeJobs, complete],
  ['fail', failJobs, fail],
  ['dead-letter', deadLetterJobs, deadLetter],
  ['snooze', snoozeJobs, snooze],
  ['release', releaseJobs, release],
  ['cancel', cancelOwnJobs, cancelOwn],
];

test.each(verbs)('%s', async (_, statement, verb) => {
  await session.query('DEALLOCATE ALL');
  await session.query(`PREPARE settle AS ${load(statement, INBOX).text}`);
  /** Rows that the parts of its plan hand on, for each job. */
  async function handled(count: number): Promise<number> {
    await session.query('TRUNCATE holdfast.inbox, holdfast.inbox_claims');
    await session.query(
      `INSERT INTO holdfast.inbox (type, partition_key, partition_bucket, payload, parked)
       SELECT 'step', 'k' || n, n, '{}', false FROM generate_series(1, $1::int) AS n`,
      [count],
    );
    const held = await claimAs(db.engine, 'w', { types: ['step'], limit: count });
    const jobs: Settled[] = held.map(({ id, leaseGeneration: generation }) => ({
      ...{ id, generation, ...why },
    }));
    expect(jobs).toHaveLength(count);
    const params = await paramsOf((on) => verb(on, INBOX, 'w', jobs as never[]));
    return rowsHandled(await explainedAndUndone(session, 'settle', params)) / count;
  }
  expect(await handled(1_000)).toBeLessThan(1.2 * (await handled(100)));
});
