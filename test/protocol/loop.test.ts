/** The protocol in SQL, as a worker in any language sees it: a loop of four calls. */
import { expect, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { testDatabase } from '../support/database.js';

const db = testDatabase();
const receipt = job<{ n: number }>('send_receipt');

test('a worker registers, claims, and completes', async () => {
  const { id } = await db.hf.enqueue(receipt, { n: 1 });
  const [{ worker }] = (await db.rows<{ worker: string }>(
    `SELECT holdfast.worker_register(ARRAY['send_receipt']) AS worker`,
  )) as [{ worker: string }];
  const [claimed] = await db.rows(`SELECT * FROM holdfast.worker_claim($1, 'inbox', 10)`, [worker]);
  expect(claimed).toMatchObject({
    id,
    type: 'send_receipt',
    generation: '1',
    attempt: 1,
    payload: { n: 1 },
  });
  expect(await db.rows(`SELECT holdfast.worker_heartbeat($1) AS state`, [worker])).toEqual([
    { state: 'alive' },
  ]);
  expect(
    await db.rows(`SELECT holdfast.worker_renew($1, ARRAY[$2::uuid], ARRAY[1]) AS id`, [
      worker,
      id,
    ]),
  ).toEqual([{ id }]);
  expect(
    await db.rows(`SELECT holdfast.worker_complete($1, $2, 1, '{"ok": true}') AS state`, [
      worker,
      id,
    ]),
  ).toEqual([{ state: 'completed' }]);
  expect(await db.hf.job(id)).toMatchObject({ status: 'completed', result: { ok: true } });
});
