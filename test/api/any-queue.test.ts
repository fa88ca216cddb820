/** Who names no queue means the one that has the job: an id is that of one job in all of them. */
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { holdfast, job } from '../../packages/holdfast/src/index.js';
import { makeJob } from '../../packages/testing/src/index.js';
import { testDatabase } from '../support/database.js';
import { quietLogger } from '../support/logger.js';

const db = testDatabase();
const far = job<{ n: number }>('far', { queue: 'ledger' });
const near = job<{ n: number }>('near');

test('acts and waits find a job in whichever queue it is', async () => {
  const { hf } = db;
  await hf.createQueue('ledger');
  const [{ id }, beside] = [
    await hf.enqueue(far, { n: 1 }, { delay: '1h' }),
    await hf.enqueue(near, { n: 1 }, { delay: '1h' }),
  ];
  await hf.update(id, { priority: 1 });
  expect(await hf.job(id)).toMatchObject({ queue: 'ledger', priority: 1 });
  const ended = hf.wait(id);
  const both = [id.toUpperCase(), beside.id, crypto.randomUUID()];
  expect((await hf.cancel(both)).sort()).toEqual([id, beside.id].sort());
  expect(await ended).toMatchObject({ id, status: 'cancelled' });
  // A job that has ended cannot be cancelled, wherever it is.
  expect(await hf.cancel(both)).toEqual([]);
  await expect(hf.update(id, { priority: 2 })).rejects.toMatchObject({ code: 'JOB_STATE' });
  const { acts } = await hf.audit({ limit: 3 });
  expect(acts.map(({ act, queue }) => `${act} ${queue}`)).toEqual([
    ...['cancel ledger', 'cancel inbox', 'update ledger'],
  ]);

  const [first, second] = [
    await makeJob('dead_letter', far, { n: 2 }, { hf }),
    await makeJob('dead_letter', far, { n: 3 }, { hf }),
  ];
  expect(await hf.retry([first.id])).toEqual([first.id]);
  expect(await hf.discard([second.id])).toEqual([second.id]);
  expect(await hf.wait(second.id)).toMatchObject({ status: 'discarded' });
});

test('a queue that is named is the only one that is meant', async () => {
  const { id } = await db.hf.enqueue(far, { n: 4 }, { delay: '1h' });
  const inbox = { queue: 'inbox' };
  expect(await db.hf.cancel([id], inbox)).toEqual([]);
  const unknown = { code: 'JOB_UNKNOWN', message: expect.stringContaining('leave out { queue }') };
  await expect(db.hf.update(id, { priority: 1 }, inbox)).rejects.toMatchObject(unknown);
  await expect(db.hf.wait(id, inbox)).rejects.toMatchObject(unknown);
});

test('a transaction finds what it has enqueued itself, in whichever queue, and nothing else is taken for one', async () => {
  // One connection, which the transaction has.
  const pool = new pg.Pool({ connectionString: db.url, max: 1 });
  const hf = holdfast({ pool, logger: quietLogger });
  onTestFinished(() => pool.end());
  const client = await pool.connect();
  await client.query('BEGIN');
  const [{ id }, other] = [
    await hf.enqueue(far, { n: 5 }, { delay: '1h', tx: client }),
    await hf.enqueue(far, { n: 6 }, { delay: '1h', tx: client }),
  ];
  await hf.update(id, { priority: 1 }, { tx: client });
  expect(await hf.cancel([other.id], { tx: client })).toEqual([other.id]);
  await expect(
    hf.update(crypto.randomUUID(), { priority: 1 }, { tx: client }),
  ).rejects.toMatchObject({ code: 'JOB_UNKNOWN' });
  await client.query('COMMIT');
  client.release();
  expect(await hf.job(id)).toMatchObject({ status: 'pending', priority: 1 });
  expect(await hf.job(other.id)).toMatchObject({ status: 'cancelled' });
  const refused = { code: 'OPTION_INVALID', message: expect.stringMatching(/nothing was written/) };
  // @ts-expect-error A pool is no transaction.
  await expect(hf.cancel([id], { tx: db.pool })).rejects.toMatchObject(refused);
  // @ts-expect-error
  await expect(hf.update(id, { priority: 3 }, { tx: undefined })).rejects.toMatchObject(refused);
  expect(await hf.job(id)).toMatchObject({ status: 'pending', priority: 1 });
});

test('what goes in batches takes no transaction, and says why and what to do', async () => {
  const pool = db.pool as never;
  const why = { code: 'OPTION_INVALID' };
  for (const verb of ['retry', 'discard'] as const)
    await expect(db.hf.deadLetters[verb]('all', { tx: pool } as never)).rejects.toMatchObject({
      ...why,
      message: expect.stringMatching(
        new RegExp(
          `deadLetters\\.${verb}\\(\\) takes no tx: it goes in batches.*hf\\.${verb}\\(ids, \\{ tx \\}\\)`,
        ),
      ),
    });
  await expect(db.hf.archive.replay('all', { tx: pool } as never)).rejects.toMatchObject({
    ...why,
    message: expect.stringMatching(/archive\.replay\(\) takes no tx/),
  });
});
