/** `await using`: a worker is stopped and a Holdfast closed where their scope ends, also by a throw. */
import { expect, test } from 'vitest';
import { type Holdfast, holdfast, job, type Worker } from '../../packages/holdfast/src/index.js';
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

test('what is asked of a closed Holdfast is refused at once, and opens nothing', async () => {
  const hf = holdfast({
    connectionString: `${db.url}?application_name=closed`,
    logger: quietLogger,
  });
  const worker = hf.worker({ handleSignals: false }).handle(kind, () => 'ran');
  const { id } = await hf.enqueue(kind, {}, { delay: '1h' });
  await hf.close();
  await hf.close();
  const asked: (() => Promise<unknown>)[] = [
    () => hf.enqueue(kind, {}),
    () => hf.enqueueMany([kind.item({})]),
    () => hf.job(id),
    () => hf.jobs(),
    () => hf.explain(id),
    () => hf.queues(),
    () => hf.workers(),
    () => hf.wait(id),
    () => hf.update(id, { priority: 1 }),
    () => hf.cancel([id]),
    () => hf.deadLetters.list(),
    () => hf.pause('inbox'),
    () => hf.createQueue('more'),
    () => hf.schedules.list(),
    () => hf.limits.list(),
    () => hf.audit(),
    () => hf.doctor(),
    () => hf.gauges(),
    () => hf.migrate(),
    () => hf.migrationStates(),
    () => worker.run(),
  ];
  for (const ask of asked) {
    // Not by a throw: who called it handles rejections.
    const answer = ask();
    await expect(answer, String(ask)).rejects.toMatchObject({
      code: 'CLOSED',
      message: expect.stringMatching(/nothing was done/),
    });
  }
  expect(() => hf.worker()).toThrow(expect.objectContaining({ code: 'CLOSED' }));
  // The server may take a moment to end the sessions of before.
  await until('no session is open', async () => {
    const text = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'closed'`;
    return (await db.rows(text)).length === 0;
  });
  expect(await db.hf.job(id)).toMatchObject({ status: 'pending', priority: 2 });
});

/** By its path, every function of it. */
function methodsOf(one: object, path = 'hf'): [string, (...given: unknown[]) => unknown][] {
  return Object.entries(one).flatMap(([name, value]) => {
    if (typeof value === 'function') return [[`${path}.${name}`, value]];
    return typeof value === 'object' && value !== null ? methodsOf(value, `${path}.${name}`) : [];
  });
}

test('no method of a closed Holdfast does something else, whatever it is given', async () => {
  const hf = holdfast({ pool: db.pool, connectionString: db.url, logger: quietLogger });
  await hf.close();
  const methods = methodsOf(hf).filter(([path]) => path !== 'hf.close');
  expect(methods.length).toBeGreaterThan(40);
  const CLOSED = { code: 'CLOSED' };
  const throwing = ['hf.worker', 'hf.onEvent'];
  for (const [path, method] of methods) {
    if (throwing.includes(path)) expect(method, path).toThrow(expect.objectContaining(CLOSED));
    else await expect(method(), path).rejects.toMatchObject(CLOSED);
  }
  // Also not on a connection that is there.
  const client = await db.pool.connect();
  try {
    await client.query('BEGIN');
    const daily = { cron: '0 9 * * *', job: kind, payload: {}, tx: client };
    await expect(hf.schedule('daily', daily)).rejects.toMatchObject(CLOSED);
    await client.query('COMMIT');
  } finally {
    client.release();
  }
  expect(await db.rows('SELECT FROM holdfast.schedules')).toEqual([]);
});
