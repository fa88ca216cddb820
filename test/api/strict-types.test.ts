/** Strict types: what no worker has registered is not enqueued. */
import { beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { holdfast, job } from '../../packages/holdfast/src/index.js';
import { clearAll, plantWorker } from '../support/cli-plant.js';
import { call } from '../support/cli-run.js';
import { testDatabase } from '../support/database.js';
import { until } from '../support/until.js';
import { testWorkers } from '../support/workers.js';

const db = testDatabase();
const start = testWorkers();
const receipt = job('send_receipt');
const typo = job('send_recipt');
const UNKNOWN = {
  code: 'TYPE_UNKNOWN',
  message: expect.stringMatching(/nothing was enqueued\. Did you mean "send_receipt"\?/),
};

beforeEach(() => clearAll(db));

const strict = () => {
  const hf = holdfast({ pool: db.pool, connectionString: db.url, strictTypes: true });
  onTestFinished(() => hf.close());
  return hf;
};
const waiting = () => db.rows('SELECT type FROM holdfast.inbox');

test('a type that a worker has registered is taken, another one is refused with the nearest', async () => {
  const hf = strict();
  // A producer that was deployed before the workers.
  await expect(hf.enqueue(receipt, {})).rejects.toMatchObject({ code: 'TYPE_UNKNOWN' });
  await plantWorker(db);
  await hf.enqueue(receipt, {});
  await expect(hf.enqueue(typo, {})).rejects.toMatchObject(UNKNOWN);
  await expect(hf.enqueueMany([receipt.item({}), typo.item({})])).rejects.toMatchObject(UNKNOWN);
  expect(await waiting()).toEqual([{ type: 'send_receipt' }]);
  // A worker that has left is still in the registry.
  await db.rows(`UPDATE holdfast.workers SET status = 'dead'`);
  await strict().enqueue(receipt, {});
  // Types are those of a queue.
  await expect(hf.enqueue(job('send_receipt', { queue: 'inbox' }), {})).resolves.toBeTruthy();
  await db.hf.enqueue(typo, {});
});

test('in a transaction of the caller, which stays usable', async () => {
  await plantWorker(db);
  const hf = strict();
  const client = await db.pool.connect();
  try {
    await client.query('BEGIN');
    await expect(hf.enqueue(typo, {}, { tx: client })).rejects.toMatchObject(UNKNOWN);
    await hf.enqueue(receipt, {}, { tx: client });
    await client.query('COMMIT');
  } finally {
    client.release();
  }
  expect(await waiting()).toEqual([{ type: 'send_receipt' }]);
});

test('a type is asked for once; where types are not strict, never', async () => {
  await plantWorker(db);
  const query = vi.spyOn((await import('pg')).default.Client.prototype, 'query');
  onTestFinished(() => query.mockRestore());
  const asked = () =>
    query.mock.calls.filter((one) => JSON.stringify(one).includes('unnest($1::text[]) AS t(type)'));
  const hf = strict();
  for (let n = 0; n < 3; n++) await hf.enqueue(receipt, {});
  expect(asked()).toHaveLength(1);
  await db.hf.enqueue(typo, {});
  expect(asked()).toHaveLength(1);
});

test('children as well: ctx.enqueue', async () => {
  const hf = strict();
  const errors: unknown[] = [];
  const parent = job('parent');
  start(hf, (worker) =>
    worker.handle(parent, async ({ enqueue }) => {
      await enqueue(job('parant'), {}).catch((error: unknown) => errors.push(error));
    }),
  );
  await until('a worker', async () => (await db.rows('SELECT FROM holdfast.workers')).length > 0);
  const { id } = await hf.enqueue(parent, {});
  expect(await hf.wait(id)).toMatchObject({ status: 'completed' });
  expect(errors).toMatchObject([{ code: 'TYPE_UNKNOWN' }]);
  expect(await waiting()).toEqual([]);
});

test('in the shell: --strict refuses, and without it the nearest type is named', async () => {
  await plantWorker(db);
  const env = { DATABASE_URL: db.url };
  const refused = await call(['enqueue', 'send_recipt', '--strict'], { env });
  expect(refused).toMatchObject({ code: 1, out: '' });
  expect(refused.err).toMatch(/nothing was enqueued\. Did you mean "send_receipt"/);
  expect(await waiting()).toEqual([]);
  for (let n = 0; n < 2; n++) {
    const ran = await call(['enqueue', 'send_recipt'], { env });
    expect(ran).toMatchObject({
      code: 0,
      err: expect.stringContaining('Did you mean "send_receipt"'),
    });
  }
  expect(await call(['enqueue', 'send_receipt'], { env })).toMatchObject({ code: 0, err: '' });
  expect((await call(['enqueue', 'whatever'], { env })).err).toContain(
    'No worker handles the type "whatever"',
  );
});
