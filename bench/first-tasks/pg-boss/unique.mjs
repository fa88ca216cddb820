import { PgBoss } from 'pg-boss';

const boss = new PgBoss(process.env.DATABASE_URL);
boss.on('error', console.error);
await boss.start();
await boss.createQueue('send_receipt', { policy: 'exclusive' });
for (const orderId of [1, 1, 2])
  await boss.send('send_receipt', { orderId }, { singletonKey: `receipt-${orderId}` });

await new Promise((resolve) => {
  boss.work('send_receipt', async ([{ data }]) => {
    console.log(`> receipt for order ${data.orderId}`);
    if (data.orderId === 2) resolve();
  });
});
await boss.stop();
