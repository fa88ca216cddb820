// An HTTP API that takes orders. The order and the job that sends its receipt commit together: there is
// no order without a receipt to come, and no receipt for an order that was rolled back.
//
//   curl -X POST localhost:3000/orders -d '{"email": "ada@example.com", "total": 42}'
//   curl localhost:3000/orders/1
import { createServer } from 'node:http';
import { json } from 'node:stream/consumers';
import { holdfast, job } from 'holdfast';
import pg from 'pg';

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
const hf = holdfast({ pool });
await hf.migrate();
await pool.query(`CREATE TABLE IF NOT EXISTS orders (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, email text NOT NULL, total numeric NOT NULL, receipt_at timestamptz)`);

const sendReceipt = job('send_receipt', { maxAttempts: 10, timeout: '30s' });

const worker = hf.worker({ concurrency: 20 }).handle(sendReceipt, async (ctx) => {
  // A mail cannot be rolled back, so it is remembered that it was sent.
  await ctx.once('mail', () => console.log(`mail: receipt for order ${ctx.payload.orderId}`));
  await ctx.transaction((tx) =>
    tx.query('UPDATE orders SET receipt_at = now() WHERE id = $1', [ctx.payload.orderId]),
  );
});

async function placeOrder({ email, total }) {
  const client = await pool.connect();
  try {
    await client.query('BEGIN');
    const { rows } = await client.query(
      'INSERT INTO orders (email, total) VALUES ($1, $2) RETURNING id',
      [email, total],
    );
    const orderId = Number(rows[0].id);
    await hf.enqueue(sendReceipt, { orderId }, { partitionKey: `order:${orderId}`, tx: client });
    await client.query('COMMIT');
    return orderId;
  } catch (error) {
    await client.query('ROLLBACK');
    throw error;
  } finally {
    client.release();
  }
}

async function answer({ method, url }, body) {
  if (method === 'POST' && url === '/orders') return [201, { id: await placeOrder(await body()) }];
  const id = /^\/orders\/(\d+)$/.exec(url)?.[1];
  const { rows } = id ? await pool.query('SELECT * FROM orders WHERE id = $1', [id]) : { rows: [] };
  return rows[0] ? [200, rows[0]] : [404, { error: 'not found' }];
}

const server = createServer(async (request, response) => {
  const [status, body] = await answer(request, () => json(request)).catch((error) => [
    400,
    { error: error.message },
  ]);
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
});
server.listen(Number(process.env.PORT ?? 3000), () =>
  console.log(`listening on http://localhost:${server.address().port}`),
);

// SIGTERM and Ctrl-C drain the worker; then run() resolves, and the rest is closed.
await worker.run();
await new Promise((done) => server.close(done)); // requests under way still need the pool
await hf.close();
await pool.end();
