import { holdfast, job } from 'holdfast';

const hf = holdfast();
await hf.migrate();
const receipt = job('send_receipt');
await hf.enqueue(receipt, { sentAt: Date.now() }, { delay: '2s' });

const worker = hf.worker().handle(receipt, ({ payload }) => {
  console.log(`> ${Date.now() - payload.sentAt > 1_900 ? 'after its delay' : 'too early'}`);
  worker.stop();
});
await worker.run();
await hf.close();
