import { addJobAdhoc, run } from 'graphile-worker';

const connectionString = process.env.DATABASE_URL;
const runAt = new Date(Date.now() + 2_000);
await addJobAdhoc({ connectionString }, 'send_receipt', { sentAt: Date.now() }, { runAt });

const runner = await run({
  connectionString,
  taskList: {
    send_receipt({ sentAt }) {
      console.log(`> ${Date.now() - sentAt > 1_900 ? 'after its delay' : 'too early'}`);
      runner.stop();
    },
  },
});
await runner.promise;
