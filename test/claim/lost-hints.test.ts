/** A hint that cannot be sent undoes nothing: the jobs are back in the queue, and polls find them. */
import { beforeEach, expect, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import type { Executor } from '../../packages/holdfast/src/postgres/queryable.js';
import { newRecovery } from '../../packages/holdfast/src/worker/services/recovery.js';
import { newSettler } from '../../packages/holdfast/src/worker/settle/settler.js';
import { systemTime } from '../../packages/holdfast/src/worker/time.js';
import { claimAs, heldOf } from '../support/claiming.js';
import { INBOX, testDatabase } from '../support/database.js';
import { quietLogger } from '../support/logger.js';

const db = testDatabase();
const work = job('work');
const types = ['work'];

/** The connection breaks before a hint is sent. */
const hintless: Executor = {
  run: (statement, names, params) =>
    statement.name === 'notify_queue'
      ? Promise.reject(new Error('Connection terminated unexpectedly'))
      : db.engine.run(statement, names, params),
};

beforeEach(() => db.rows('DELETE FROM holdfast.inbox'));

test('a release is a release', async () => {
  await db.hf.enqueue(work, {});
  const [row] = await claimAs(db.engine, 'w1', { types });
  const settler = newSettler({
    ...{ engine: hintless, plain: hintless, names: INBOX, time: systemTime },
    ...{ reportError: () => {}, took: () => {}, standing: () => 'alive' },
    abandoned: new AbortController().signal,
  });
  const result = await new Promise((done) => settler.settle('release', 'w1', heldOf(row!), done));
  expect(result).toBe('released');
  expect(await claimAs(db.engine, 'w2', { types })).toHaveLength(1);
});

test('a recovery goes on', async () => {
  await db.hf.enqueueMany(Array.from({ length: 1_001 }, () => work.item({})));
  await claimAs(db.engine, 'w1', { types, limit: 2_000 });
  await db.rows(`UPDATE holdfast.inbox SET lease_expires_at = now() - interval '1 second'`);
  const deps = { schema: 'holdfast', engine: hintless, workerId: () => 'w2', time: systemTime };
  const told = { emit() {}, reportError() {}, log: quietLogger };
  expect(await newRecovery({ ...deps, ...told }).recoverAll(INBOX)).toBe(1_001);
});
