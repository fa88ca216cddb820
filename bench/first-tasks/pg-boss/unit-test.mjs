import { PgBoss } from 'pg-boss';

const sent = [];
const handler = async ([{ data }]) => void sent.push(data.orderId);

const boss = new PgBoss({ connectionString: process.env.DATABASE_URL, __test__enableSpies: true });
boss.on('error', console.error);
await boss.start();
await boss.createQueue('send_receipt');
const spy = boss.getSpy('send_receipt');
await boss.work('send_receipt', handler);
const id = await boss.send('send_receipt', { orderId: 1 });
const { state } = await spy.waitForJobWithId(id, 'completed');
console.log(`> ${state} ${sent}`);
await boss.stop();
