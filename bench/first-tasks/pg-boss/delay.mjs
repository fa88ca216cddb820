import { PgBoss } from 'pg-boss';

const boss = new PgBoss(process.env.DATABASE_URL);
boss.on('error', console.error);
await boss.start();
await boss.createQueue('send_receipt');
await boss.send('send_receipt', { sentAt: Date.now() }, { startAfter: 2 });

await new Promise((resolve) => {
  boss.work('send_receipt', async ([{ data }]) => {
    console.log(`> ${Date.now() - data.sentAt > 1_900 ? 'after its delay' : 'too early'}`);
    resolve();
  });
});
await boss.stop();
