// An inbox. The order and its job commit together, so there is no order without a receipt and no receipt without an order. The
// receipt and the completion of its job commit together too, so it is written exactly once, however often a worker dies.
import { holdfast, job } from 'holdfast';
import pg from 'pg';

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
const hf = holdfast({ pool, log: 'warn' });
await hf.migrate();
await pool.query(`CREATE TABLE IF NOT EXISTS orders (id int PRIMARY KEY, total int NOT NULL);
  CREATE TABLE IF NOT EXISTS receipts (order_id int NOT NULL, total int NOT NULL)`);

const writeReceipt = job('write_receipt', { retry: { base: '100ms' } });

/** An order with its job; a customer without money rolls both back. */
async function placeOrder(id, total) {
  const client = await pool.connect();
  try {
    await client.query('BEGIN');
    await client.query('INSERT INTO orders VALUES ($1, $2)', [id, total]);
    await hf.enqueue(
      writeReceipt,
      { orderId: id },
      { idempotencyKey: `receipt-${id}`, tx: client },
    );
    if (total > 1000) throw new Error(`order ${id} is too dear`);
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK');
    console.log(error.message);
  } finally {
    client.release();
  }
}

const worker = hf.worker().handle(writeReceipt, (ctx) =>
  ctx.transaction(async (tx) => {
    await tx.query('INSERT INTO receipts SELECT id, total FROM orders WHERE id = $1', [
      ctx.payload.orderId,
    ]);
    // As if the process had died after its writes: they are rolled back, and the job runs again.
    if (ctx.attempt === 1) throw new Error('the first attempt of each job fails');
  }),
);
const running = worker.run();

for (const [id, total] of [
  [1, 40],
  [2, 2000],
  [3, 7],
])
  await placeOrder(id, total);

while (worker.stats.completed < 2) await new Promise((resolve) => setTimeout(resolve, 20));
const { rows } = await pool.query('SELECT order_id, total FROM receipts ORDER BY order_id');
for (const { order_id, total } of rows) console.log(`receipt for order ${order_id}: ${total}`);
console.log(`${worker.stats.failed} attempts failed`);

await worker.stop();
await running;
await hf.close();
await pool.end();
