import { setTimeout as sleep } from 'node:timers/promises';
import { PgBoss } from 'pg-boss';

const boss = new PgBoss(process.env.DATABASE_URL);
boss.on('error', console.error);
await boss.start();
await boss.createQueue('send_receipt');
await boss.send('send_receipt', { orderId: 1 });

for (const signal of ['SIGTERM', 'SIGINT']) process.once(signal, () => boss.stop());
await boss.work('send_receipt', async () => {
  console.log('> begun');
  process.kill(process.pid, 'SIGTERM');
  await sleep(500);
  console.log('> finished');
});
