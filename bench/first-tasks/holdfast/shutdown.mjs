import { setTimeout as sleep } from 'node:timers/promises';
import { holdfast, job } from 'holdfast';

const hf = holdfast();
await hf.migrate();
const receipt = job('send_receipt');
await hf.enqueue(receipt, { orderId: 1 });

const worker = hf.worker().handle(receipt, async () => {
  console.log('> begun');
  process.kill(process.pid, 'SIGTERM');
  await sleep(500);
  console.log('> finished');
});
await worker.run();
await hf.close();
