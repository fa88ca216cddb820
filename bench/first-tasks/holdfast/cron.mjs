import { holdfast, job } from 'holdfast';

const hf = holdfast();
await hf.migrate();
const tick = job('tick');
await hf.schedule('every-minute', { cron: '* * * * *', job: tick, payload: {} });

const worker = hf.worker().handle(tick, () => {
  console.log('> tick');
  worker.stop();
});
await worker.run();
await hf.close();
