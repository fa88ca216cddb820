import { PgBoss } from 'pg-boss';

const boss = new PgBoss(process.env.DATABASE_URL);
boss.on('error', console.error);
await boss.start();
await boss.createQueue('send_receipt');
await boss.send('send_receipt', { name: 'ordinary' }, { priority: 1 });
await boss.send('send_receipt', { name: 'urgent' }, { priority: 3 });

await new Promise((resolve) => {
  boss.work('send_receipt', async ([{ data }]) => {
    console.log(`> ${data.name}`);
    if (data.name === 'ordinary') resolve();
  });
});
await boss.stop();
