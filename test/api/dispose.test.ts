/** `await using`: a worker is stopped and a Holdfast closed where their scope ends, also by a throw. */
import { expect, test } from 'vitest';
import { type Holdfast, holdfast, job, type Worker } from '../../src/index.js';
import { testDatabase } from '../support/database.js';
import { quietLogger } from '../support/logger.js';
import { until } from '../support/until.js';

const db = testDatabase();
const kind = job('scoped');

test('both end with their scope, the worker first', async () => {
  let seen: { hf: Holdfast; worker: Worker; running: Promise<void> } | null = null;
  const scope = async () => {
    await using hf = holdfast({
      connectionString: `${db.url}?application_name=scoped`,
      logger: quietLogger,
    });
    await using worker = hf.worker({ handleSignals: false, poll: '20ms' });
    const running = worker.handle(kind, () => 'ran').run();
    seen = { hf, worker, running };
    const { id } = await hf.enqueue(kind, {});
    expect(await hf.wait(id, { timeout: '30s' })).toMatchObject({ result: 'ran' });
    throw new Error('out of the scope');
  };
  await expect(scope()).rejects.toThrow('out of the scope');
  const { worker, running } = seen as unknown as { worker: Worker; running: Promise<void> };
  await running;
  expect(worker.stats).toMatchObject({ claimed: 1, completed: 1, lost: 0 });
  await expect(worker.run()).rejects.toMatchObject({ code: 'WORKER_STATE' });
  expect(await db.hf.workers()).toEqual([]);
  await until('no connection is left', async () => {
    const rows = await db.rows(
      `SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'scoped'`,
    );
    return rows.length === 0;
  });
});
