import { holdfast, job } from 'holdfast';

const hf = holdfast();
await hf.migrate();
const receipt = job('send_receipt');
for (const orderId of [1, 1, 2])
  await hf.enqueue(receipt, { orderId }, { idempotencyKey: `receipt-${orderId}` });

const worker = hf.worker({ concurrency: 1 }).handle(receipt, ({ payload }) => {
  console.log(`> receipt for order ${payload.orderId}`);
  if (payload.orderId === 2) worker.stop();
});
await worker.run();
await hf.close();
