import { expect, test } from 'vitest';
import { job } from '../../packages/holdfast/src/index.js';
import { testDatabase } from '../support/database.js';
import { until } from '../support/until.js';

const db = testDatabase();

test('a job that was enqueued is run once and archived as completed', async () => {
  const receipt = job<{ orderId: number }>('send_receipt');
  const seen: number[] = [];
  const worker = db.hf
    .worker({ handleSignals: false, poll: '20ms' })
    .handle(receipt, async ({ payload }) => void seen.push(payload.orderId));
  const running = worker.run();
  const { id } = await db.hf.enqueue(receipt, { orderId: 9182 }, { partitionKey: 'order:9182' });
  await until('the job is archived', async () => (await db.hf.job(id))?.status === 'completed');
  await worker.stop();
  await running;
  expect(seen).toEqual([9182]);
});
