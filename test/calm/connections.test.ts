/** An idle worker holds at most three connections, whatever the number of its queues. */
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { allNoted, calmGround, calmWorker, figure, idsOf, many } from '../support/calm.js';
import { until } from '../support/until.js';

const MOST = 3;
const QUEUES = ['inbox', 'orders', 'mails', 'reports'];

/** How many connections a worker of these queues is left with when it has nothing to do. */
async function connectionsOf(queues: readonly string[]): Promise<number> {
  const db = await calmGround();
  for (const queue of queues.slice(1)) {
    await db.hf.createQueue(queue, queue === 'orders' ? { ordering: 'key' } : {});
  }
  const client = new pg.Client({ connectionString: db.url, application_name: 'the test' });
  await client.connect();
  onTestFinished(() => client.end());
  const ids = idsOf(await db.hf.enqueueMany(many(100, db.jobs.quick, { ms: 5 })));
  // All that come after this are the worker's: the pools of this test are not used any more.
  const before = await pids(client);
  const worker = await calmWorker(db.url, { queues });
  await allNoted([worker], 'completed', ids);
  const held = async () => (await pids(client)).filter((pid) => !before.includes(pid)).length;
  figure(`connections of a worker with ${queues.length} queues, busy`, await held(), '');
  await until(`at most ${MOST} are left`, async () => (await held()) <= MOST, {
    timeoutMs: 15_000,
    everyMs: 100,
  }).catch(() => undefined);
  const left = await held();
  figure(`connections of a worker with ${queues.length} queues, idle`, left, '');
  return left;
}

async function pids(client: pg.Client): Promise<number[]> {
  const { rows } = await client.query(
    `SELECT pid FROM pg_stat_activity WHERE datname = current_database()
       AND backend_type = 'client backend' AND application_name <> 'the test'`,
  );
  return rows.map(({ pid }) => pid);
}

test('with one queue and with four', async () => {
  const [one, four] = await Promise.all([connectionsOf(['inbox']), connectionsOf(QUEUES)]);
  expect(one).toBeLessThanOrEqual(MOST);
  expect(four).toBeLessThanOrEqual(MOST);
});
