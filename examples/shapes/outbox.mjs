// An outbox. What happens to an order is published in the commit that makes it happen, and the stock system learns of it over
// HTTP, in order for each order. It is away at first and refuses nothing: that costs no attempt and no event. Here both run in one
// process; the stock system is a server that answers 503 to its first requests.
import { createServer } from 'node:http';
import { holdfast } from 'holdfast';
import { outbox, relay } from 'holdfast/outbox';
import { httpSink } from 'holdfast/outbox/http';
import pg from 'pg';

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
const hf = holdfast({ pool, log: 'error' });
await hf.migrate();
await pool.query(
  'CREATE TABLE IF NOT EXISTS orders (id int PRIMARY KEY, state text NOT NULL DEFAULT $$placed$$)',
);

const events = outbox(hf, { queue: 'order_events' });
await events.create();

/** The other system: it keeps each event once, by its id. */
const received = new Map();
let refusals = 3;
const stock = createServer(async (request, response) => {
  let body = '';
  for await (const chunk of request) body += chunk;
  if (refusals-- > 0) return response.writeHead(503).end();
  const { id, type, partitionkey, data } = JSON.parse(body);
  received.set(id, `${partitionkey}: ${type} ${JSON.stringify(data)}`);
  response.writeHead(204).end();
}).listen(0, '127.0.0.1');
await new Promise((resolve) => stock.once('listening', resolve));

/** Changes an order and says so, both or neither. */
async function change(sql, event) {
  const client = await pool.connect();
  try {
    await client.query('BEGIN');
    await client.query(sql);
    await events.publish(event, { tx: client });
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK');
    console.log('rolled back:', error.message.split('"')[0].trim());
  } finally {
    client.release();
  }
}
const of = (id, type, data) => ({ type, key: `order:${id}`, data });
await change('INSERT INTO orders VALUES (1)', of(1, 'order.placed', { sku: 'tea' }));
await change('INSERT INTO orders VALUES (2)', of(2, 'order.placed', { sku: 'cup' }));
await change(`UPDATE orders SET state = 'paid' WHERE id = 1`, of(1, 'order.paid', { total: 12 }));
// There is such an order already: so nobody is told of another one.
await change('INSERT INTO orders VALUES (2)', of(2, 'order.placed', { sku: 'pot' }));
await change(`UPDATE orders SET state = 'sent' WHERE id = 1`, of(1, 'order.sent', {}));

const worker = hf.worker();
const url = `http://127.0.0.1:${stock.address().port}/`;
const relayed = relay(worker, events, httpSink({ url, mode: 'structured' }), { maxPause: '200ms' });
const running = worker.run();
while (relayed.stats().published < 4) await new Promise((resolve) => setTimeout(resolve, 20));

// In the order of each key; keys do not wait for each other.
const lines = [...received.values()];
for (const key of ['order:1', 'order:2'])
  for (const line of lines.filter((one) => one.startsWith(`${key}:`))) console.log(line);
const { faults, refused } = relayed.stats();
console.log(
  `the stock system was away for ${faults > 0 ? 'a while' : 'no time'}, refused ${refused}`,
);

await worker.stop();
await running;
console.log(`${worker.stats.completed} published, ${worker.stats.failed} attempts spent`);
stock.close();
stock.closeAllConnections();
await hf.close();
await pool.end();
