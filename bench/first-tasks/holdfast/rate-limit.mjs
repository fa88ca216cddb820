import { holdfast, job } from 'holdfast';

const hf = holdfast();
await hf.migrate();
const call = job('call_api', { limit: { rate: { limit: 4, per: '1s' } } });
for (let n = 0; n < 9; n++) await hf.enqueue(call, { n });

const times = [];
const worker = hf.worker().handle(call, () => {
  times.push(Date.now());
  if (times.length === 9) worker.stop();
});
await worker.run();
console.log(times[8] - times[0] > 1_800 ? '> 9 jobs, 4 a second' : '> too fast');
await hf.close();
