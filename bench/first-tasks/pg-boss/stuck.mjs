import { fork } from 'node:child_process';
import { PgBoss } from 'pg-boss';

const boss = new PgBoss({
  connectionString: process.env.DATABASE_URL,
  superviseIntervalSeconds: 1,
  monitorIntervalSeconds: 1,
});
boss.on('error', console.error);
await boss.start();
await boss.createQueue('send_receipt', { heartbeatSeconds: 10 });

if (process.argv[2] === 'victim') {
  await boss.work('send_receipt', () => new Promise(() => process.send('taken')));
  await new Promise(() => {});
}
await boss.send('send_receipt', { orderId: 1 });
const victim = fork(process.argv[1], ['victim']);
await new Promise((resolve) => victim.once('message', resolve));
victim.kill('SIGKILL');

await new Promise((resolve) => {
  boss.work('send_receipt', async () => {
    console.log('> it ran again');
    resolve();
  });
});
await boss.stop();
