import { PgBoss } from 'pg-boss';

const boss = new PgBoss(process.env.DATABASE_URL);
boss.on('error', console.error);
await boss.start();
await boss.createQueue('send_receipt', { retryLimit: 2, retryDelay: 1, retryBackoff: true });
await boss.send('send_receipt', { orderId: 1 });

await new Promise((resolve) => {
  boss.work('send_receipt', { includeMetadata: true }, async ([{ retryCount }]) => {
    console.log(`> attempt ${retryCount + 1}`);
    if (retryCount < 2) throw new Error('no such mailbox');
    resolve();
  });
});
await boss.stop();
