import { setTimeout as sleep } from 'node:timers/promises';
import { PgBoss } from 'pg-boss';

const boss = new PgBoss(process.env.DATABASE_URL);
boss.on('error', console.error);
await boss.start();
await boss.createQueue('sync');
for (let n = 0; n < 6; n++) await boss.send('sync', { n }, { group: { id: 'tenant:1' } });

let [running, most, done] = [0, 0, 0];
await new Promise((resolve) => {
  boss.work('sync', { localConcurrency: 6, localGroupConcurrency: 2 }, async () => {
    most = Math.max(most, ++running);
    await sleep(300);
    running--;
    if (++done === 6) resolve();
  });
});
console.log(`> ${most} at once`);
await boss.stop();
