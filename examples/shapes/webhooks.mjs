// Webhooks in. A payment provider calls this shop: it signs its events, and sends each until it is answered with 2xx. The
// answer follows the commit of a job, once for each event id. Here the provider is a loop that sends every event twice, one of
// them with another body, and one event of somebody who does not know the secret.
import { createHmac } from 'node:crypto';
import { createServer } from 'node:http';
import { holdfast, job } from 'holdfast';
import { receive, standardWebhooks } from 'holdfast/receive';
import pg from 'pg';

const SECRET = `whsec_${Buffer.from('a secret of 24 bytes ...').toString('base64')}`;

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
const hf = holdfast({ pool, log: 'error' });
await hf.migrate();
await pool.query(`CREATE TABLE IF NOT EXISTS payments (order_id int PRIMARY KEY, amount int);
  CREATE TABLE IF NOT EXISTS deliveries (event_id text PRIMARY KEY)`);

const paid = job('invoice_paid');
const hook = receive(hf, paid, {
  verify: standardWebhooks(SECRET),
  // A row of ours, in the commit of the job.
  within: (tx, { id }) => tx.query('INSERT INTO deliveries VALUES ($1)', [id]),
});
const server = createServer(hook.node).listen(0, '127.0.0.1');
await new Promise((resolve) => server.once('listening', resolve));

const worker = hf.worker().handle(paid, (ctx) =>
  ctx.transaction(async (tx) => {
    const { order, amount } = ctx.payload.body.data;
    await tx.query('INSERT INTO payments VALUES ($1, $2)', [order, amount]);
  }),
);
const running = worker.run();

/** What the provider does. */
async function send(id, data, secret = SECRET) {
  const body = JSON.stringify({ type: 'invoice.paid', data });
  const time = Math.floor(Date.now() / 1000);
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
  const signature = createHmac('sha256', key).update(`${id}.${time}.${body}`).digest('base64');
  const { port } = server.address();
  const response = await fetch(`http://127.0.0.1:${port}/hooks`, {
    method: 'POST',
    headers: {
      'webhook-id': id,
      'webhook-timestamp': String(time),
      'webhook-signature': `v1,${signature}`,
    },
    body,
  });
  console.log(id, response.status, (await response.text()).trim());
}
await send('evt_1', { order: 1, amount: 40 });
await send('evt_2', { order: 2, amount: 7 });
await send('evt_1', { order: 1, amount: 40 });
await send('evt_2', { order: 2, amount: 700 });
await send('evt_3', { order: 3, amount: 1 }, `whsec_${Buffer.alloc(24).toString('base64')}`);

while (worker.stats.completed < 2) await new Promise((resolve) => setTimeout(resolve, 20));
const { rows } = await pool.query('SELECT order_id, amount FROM payments ORDER BY order_id');
for (const { order_id, amount } of rows) console.log(`order ${order_id} paid: ${amount}`);
console.log('answered:', JSON.stringify(hook.stats));

server.close();
server.closeAllConnections();
await worker.stop();
await running;
await hf.close();
await pool.end();
