import { holdfast, job } from 'holdfast';

const hf = holdfast();
await hf.migrate();
const receipt = job<{ orderId: number }>('send_receipt');
await hf.enqueue(receipt, { orderId: 1 });

const worker = hf.worker().handle(receipt, ({ payload }) => {
  // @ts-expect-error the compiler knows what a payload has
  payload.nothing;
  console.log(`> receipt for order ${payload.orderId.toFixed(0)}`);
  worker.stop();
});
await worker.run();
await hf.close();
