import { addJobAdhoc, run } from 'graphile-worker';

declare global {
  namespace GraphileWorker {
    interface Tasks {
      send_receipt: { orderId: number };
    }
  }
}

const connectionString = process.env.DATABASE_URL as string;
await addJobAdhoc({ connectionString }, 'send_receipt', { orderId: 1 });

const runner = await run({
  connectionString,
  taskList: {
    send_receipt(payload) {
      // @ts-expect-error the compiler knows what a payload has
      payload.nothing;
      console.log(`> receipt for order ${payload.orderId.toFixed(0)}`);
      runner.stop();
    },
  },
});
await runner.promise;
