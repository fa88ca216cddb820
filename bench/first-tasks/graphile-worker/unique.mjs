import { makeWorkerUtils, run } from 'graphile-worker';

const connectionString = process.env.DATABASE_URL;
const utils = await makeWorkerUtils({ connectionString });
for (const orderId of [1, 1, 2])
  await utils.addJob('send_receipt', { orderId }, { jobKey: `receipt-${orderId}` });
await utils.release();

const runner = await run({
  connectionString,
  taskList: {
    send_receipt({ orderId }) {
      console.log(`> receipt for order ${orderId}`);
      if (orderId === 2) runner.stop();
    },
  },
});
await runner.promise;
