import { fork } from 'node:child_process';
import { holdfast, job } from 'holdfast';

const hf = holdfast();
await hf.migrate();
const receipt = job('send_receipt');

if (process.argv[2] === 'victim') {
  const hang = () => new Promise(() => process.send('taken'));
  await hf.worker().handle(receipt, hang).run();
}
await hf.enqueue(receipt, { orderId: 1 });
const victim = fork(process.argv[1], ['victim']);
await new Promise((resolve) => victim.once('message', resolve));
victim.kill('SIGKILL');

const worker = hf.worker().handle(receipt, () => {
  console.log('> it ran again');
  worker.stop();
});
await worker.run();
await hf.close();
