// The delays are the library's own: about 2.7 s, then 7.4 s, and so on.
import { addJobAdhoc, run } from 'graphile-worker';

const connectionString = process.env.DATABASE_URL;
await addJobAdhoc({ connectionString }, 'send_receipt', { orderId: 1 }, { maxAttempts: 3 });

const runner = await run({
  connectionString,
  taskList: {
    send_receipt(_payload, { job }) {
      console.log(`> attempt ${job.attempts}`);
      if (job.attempts < 3) throw new Error('no such mailbox');
      runner.stop();
    },
  },
});
await runner.promise;
