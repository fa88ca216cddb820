// The API process: `node dist/server.js`. An order and the job that sends its receipt commit together.
import { once } from 'node:events';
import type { Server } from 'node:http';
import { serve } from '@hono/node-server';
import { fromKysely } from 'holdfast/adapters';
import { Hono } from 'hono';
import { close, db, hf } from './database.ts';
import { sendReceipt } from './jobs.ts';
import { host, ops, port } from './ops.ts';

const app = new Hono();

app.post('/orders', async (c) => {
  // What is no JSON, or `null`, lacks both.
  const { email, totalCents } = (await c.req.json().catch(() => null)) ?? {};
  // `| 0` keeps what fits an integer of Postgres.
  if (
    typeof email !== 'string' ||
    typeof totalCents !== 'number' ||
    (totalCents | 0) !== totalCents
  )
    return c.json({ error: 'email must be a text and totalCents an integer' }, 400);
  const id = await db.transaction().execute(async (trx) => {
    const values = { email, total_cents: totalCents };
    const insert = trx.insertInto('orders').values(values).returning('id');
    const { id } = await insert.executeTakeFirstOrThrow();
    const tx = fromKysely(trx);
    await hf.enqueue(sendReceipt, { orderId: id }, { partitionKey: `order:${id}`, tx });
    return id;
  });
  return c.json({ id }, 201);
});

app.get('/orders/:id{[0-9]{1,9}}', async (c) => {
  const order = await db
    .selectFrom('orders')
    .select(['id', 'email', 'total_cents as totalCents', 'receipt_at as receiptAt'])
    .where('id', '=', Number(c.req.param('id')))
    .executeTakeFirst();
  return order ? c.json(order) : c.json({ error: 'not found' }, 404);
});

for (const path of ['/holdfast', '/holdfast/*']) app.all(path, (c) => ops(c.req.raw));

const server = serve({ fetch: app.fetch, hostname: host, port }) as Server;
await once(server, 'listening');
console.log(`listening on http://${host}:${port}, dashboard under /holdfast`);
await Promise.race([once(process, 'SIGTERM'), once(process, 'SIGINT')]);
// Requests get five seconds; an open dashboard would keep its stream for ever.
setTimeout(() => server.closeAllConnections(), 5_000).unref();
await new Promise((closed) => server.close(closed));
await close();
