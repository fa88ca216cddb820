/** A direct connection beside the pooler: what a session is needed for works again. */
import { expect, onTestFinished, test } from 'vitest';
import { holdfast, job } from '../../packages/holdfast/src/index.js';
import { quietLogger } from '../support/logger.js';
import { until } from '../support/until.js';
import { testWorkers } from '../support/workers.js';
import { type PooledGround, pooledGround, sessionErrors, testPooler } from './ground.js';

const pooler = testPooler();
const start = testWorkers();
const work = job<object>('work');

const watched = async (db: PooledGround) =>
  (await db.direct.query('SELECT holds_liveness_lock AS watched FROM holdfast.workers')).rows.map(
    (row) => row.watched,
  );

/** A worker that would look for jobs after a minute, if nothing woke it. */
function sleeper(url: string, listenUrl?: string) {
  const options = { connectionString: url, logger: quietLogger, ...(listenUrl && { listenUrl }) };
  const hf = holdfast(options);
  onTestFinished(() => hf.close());
  return start(hf, (worker) => worker.handle(work, () => undefined), {
    poll: '1m',
  });
}

test('with listenUrl a sleeping worker is woken, and its process is watched', async () => {
  const db = await pooledGround(pooler());
  const { worker, events, stop } = sleeper(db.url, db.directUrl);
  await until('the liveness lock is held', async () => (await watched(db))[0]);
  for (let count = 1; count <= 5; count++) {
    await db.hf.enqueue(work, {});
    await until(`job ${count} is completed`, () => worker.stats.completed === count);
  }
  await stop();
  expect(sessionErrors(events)).toEqual([]);
  await db.leavesNothing();
});

test('without it the worker takes no lock through the pooler, and is not watched', async () => {
  const db = await pooledGround(pooler());
  const { events, stop } = sleeper(db.url);
  await until('the worker has started', () => events.some(({ kind }) => kind === 'started'));
  expect(await watched(db)).toEqual([false]);
  await db.leavesNothing();
  await stop();
  expect(sessionErrors(events)).toEqual([]);
});
