import { PgBoss } from 'pg-boss';

const boss = new PgBoss(process.env.DATABASE_URL as string);
boss.on('error', console.error);
await boss.start();
await boss.createQueue('send_receipt');
await boss.send('send_receipt', { orderId: 1 });

await new Promise<void>((resolve) => {
  boss.work<{ orderId: number }>('send_receipt', async (jobs) => {
    for (const { data } of jobs) {
      // @ts-expect-error the compiler knows what a payload has
      data.nothing;
      console.log(`> receipt for order ${data.orderId.toFixed(0)}`);
    }
    resolve();
  });
});
await boss.stop();
