import { makeWorkerUtils, run } from 'graphile-worker';

const connectionString = process.env.DATABASE_URL;
const utils = await makeWorkerUtils({ connectionString });
await utils.addJob('send_receipt', { name: 'ordinary' }, { priority: 3 });
await utils.addJob('send_receipt', { name: 'urgent' }, { priority: 1 });
await utils.release();

const runner = await run({
  connectionString,
  taskList: {
    send_receipt({ name }) {
      console.log(`> ${name}`);
      if (name === 'ordinary') runner.stop();
    },
  },
});
await runner.promise;
