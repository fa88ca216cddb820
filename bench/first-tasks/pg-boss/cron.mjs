import { PgBoss } from 'pg-boss';

const boss = new PgBoss(process.env.DATABASE_URL);
boss.on('error', console.error);
await boss.start();
await boss.createQueue('tick');
await boss.schedule('tick', '* * * * *');

await new Promise((resolve) => {
  boss.work('tick', async () => {
    console.log('> tick');
    resolve();
  });
});
await boss.stop();
