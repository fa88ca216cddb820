import { setTimeout as sleep } from 'node:timers/promises';
import { holdfast, job } from 'holdfast';

const hf = holdfast();
await hf.migrate();
await hf.createQueue('syncs', { perKey: 2 });
const sync = job('sync', { queue: 'syncs' });
for (let n = 0; n < 6; n++) await hf.enqueue(sync, { n }, { partitionKey: 'tenant:1' });

let [running, most, done] = [0, 0, 0];
const worker = hf.worker({ concurrency: 6 }).handle(sync, async () => {
  most = Math.max(most, ++running);
  await sleep(300);
  running--;
  if (++done === 6) worker.stop();
});
await worker.run();
console.log(`> ${most} at once`);
await hf.close();
