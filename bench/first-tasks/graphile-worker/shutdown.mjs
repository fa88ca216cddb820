import { setTimeout as sleep } from 'node:timers/promises';
import { addJobAdhoc, run } from 'graphile-worker';

const connectionString = process.env.DATABASE_URL;
await addJobAdhoc({ connectionString }, 'send_receipt', { orderId: 1 });

const runner = await run({
  connectionString,
  taskList: {
    async send_receipt() {
      console.log('> begun');
      process.kill(process.pid, 'SIGTERM');
      await sleep(500);
      console.log('> finished');
    },
  },
});
await runner.promise;
