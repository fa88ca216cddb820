import pg from 'pg';
import { PgBoss } from 'pg-boss';

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
const boss = new PgBoss(process.env.DATABASE_URL);
boss.on('error', console.error);
await boss.start();
await boss.createQueue('send_receipt');
await pool.query('CREATE TABLE orders (id integer)');

const client = await pool.connect();
const db = { executeSql: (text, values) => client.query(text, values) };
for (const [orderId, end] of Object.entries({ 1: 'ROLLBACK', 2: 'COMMIT' })) {
  await client.query('BEGIN');
  await client.query('INSERT INTO orders VALUES ($1)', [orderId]);
  await boss.send('send_receipt', { orderId }, { db });
  await client.query(end);
}
client.release();

await new Promise((resolve) => {
  boss.work('send_receipt', async ([job]) => {
    console.log(`> receipt for order ${job.data.orderId}`);
    resolve();
  });
});
await boss.stop();
await pool.end();
