import { holdfast, job } from 'holdfast';

const hf = holdfast();
await hf.migrate();
const receipt = job('send_receipt');
await hf.enqueue(receipt, { name: 'ordinary' }, { priority: 3 });
await hf.enqueue(receipt, { name: 'urgent' }, { priority: 1 });

const worker = hf.worker({ concurrency: 1 }).handle(receipt, ({ payload }) => {
  console.log(`> ${payload.name}`);
  if (payload.name === 'ordinary') worker.stop();
});
await worker.run();
await hf.close();
