// By itself it comes back after 4 hours; here an operator unlocks what the dead worker holds.
import { fork } from 'node:child_process';
import { makeWorkerUtils, run } from 'graphile-worker';

const connectionString = process.env.DATABASE_URL;
if (process.argv[2] === 'victim') {
  const send_receipt = () => new Promise(() => process.send('taken'));
  await (await run({ connectionString, taskList: { send_receipt } })).promise;
}
const utils = await makeWorkerUtils({ connectionString });
await utils.addJob('send_receipt', { orderId: 1 });
const victim = fork(process.argv[1], ['victim']);
await new Promise((resolve) => victim.once('message', resolve));
victim.kill('SIGKILL');

const { rows } = await utils.withPgClient((client) =>
  client.query('SELECT locked_by FROM graphile_worker.jobs WHERE locked_by IS NOT NULL'),
);
await utils.forceUnlockWorkers(rows.map(({ locked_by }) => locked_by));
await utils.release();

const runner = await run({
  connectionString,
  taskList: {
    send_receipt() {
      console.log('> it ran again');
      runner.stop();
    },
  },
});
await runner.promise;
