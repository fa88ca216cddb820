import { holdfast, job } from 'holdfast';

const hf = holdfast();
await hf.migrate();
const receipt = job('send_receipt', { maxAttempts: 3, retry: { base: '1s', factor: 2 } });
await hf.enqueue(receipt, { orderId: 1 });

const worker = hf.worker().handle(receipt, ({ attempt }) => {
  console.log(`> attempt ${attempt}`);
  if (attempt < 3) throw new Error('no such mailbox');
  worker.stop();
});
await worker.run();
await hf.close();
