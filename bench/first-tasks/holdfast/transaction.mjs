import { holdfast, job } from 'holdfast';
import pg from 'pg';

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
const hf = holdfast({ pool });
await hf.migrate();
await pool.query('CREATE TABLE orders (id integer)');
const receipt = job('send_receipt');

const client = await pool.connect();
for (const [orderId, end] of Object.entries({ 1: 'ROLLBACK', 2: 'COMMIT' })) {
  await client.query('BEGIN');
  await client.query('INSERT INTO orders VALUES ($1)', [orderId]);
  await hf.enqueue(receipt, { orderId }, { tx: client });
  await client.query(end);
}
client.release();

const worker = hf.worker().handle(receipt, ({ payload }) => {
  console.log(`> receipt for order ${payload.orderId}`);
  worker.stop();
});
await worker.run();
await hf.close();
await pool.end();
