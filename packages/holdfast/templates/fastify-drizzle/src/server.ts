// The API process: `node dist/server.js`. An order and the job that sends its receipt commit together.
import { once } from 'node:events';
import { nodeHandler } from '@holdfast/dashboard';
import { eq, sql } from 'drizzle-orm';
import fastify from 'fastify';
import { fromDrizzle } from 'holdfast/adapters';
import { close, db, hf } from './database.ts';
import { sendReceipt } from './jobs.ts';
import { host, ops, port } from './ops.ts';
import { orders } from './schema.ts';

const app = fastify();

const body = {
  type: 'object',
  required: ['email', 'totalCents'],
  properties: {
    email: { type: 'string' },
    // As much as its column holds.
    totalCents: { type: 'integer', minimum: 0, maximum: 2 ** 31 - 1 },
  },
};
app.post<{ Body: { email: string; totalCents: number } }>(
  '/orders',
  { schema: { body } },
  async (request, reply) => {
    const { email, totalCents } = request.body;
    const id = await db.transaction(async (tx) => {
      const values = { email, totalCents };
      const [order] = await tx.insert(orders).values(values).returning({ id: orders.id });
      if (!order) throw new Error('the order was not written');
      const partitionKey = `order:${order.id}`;
      await hf.enqueue(
        sendReceipt,
        { orderId: order.id },
        { partitionKey, tx: fromDrizzle(tx, sql) },
      );
      return order.id;
    });
    return reply.code(201).send({ id });
  },
);

app.get<{ Params: { id: number } }>(
  '/orders/:id',
  { schema: { params: { type: 'object', properties: { id: { type: 'integer' } } } } },
  async (request, reply) => {
    const [order] = await db.select().from(orders).where(eq(orders.id, request.params.id));
    return order ?? reply.code(404).send({ error: 'not found' });
  },
);

// The dashboard reads bodies itself, so fastify must not.
app.register(async (scope) => {
  scope.removeAllContentTypeParsers();
  scope.addContentTypeParser('*', (_request, _body, done) => done(null));
  const handle = nodeHandler(ops);
  for (const path of ['/holdfast', '/holdfast/*'])
    scope.all(path, (request, reply) => void handle(request.raw, reply.hijack().raw));
});

console.log(`listening on ${await app.listen({ host, port })}, dashboard under /holdfast`);
await Promise.race([once(process, 'SIGTERM'), once(process, 'SIGINT')]);
// Requests get five seconds; an open dashboard would keep its stream for ever.
setTimeout(() => app.server.closeAllConnections(), 5_000).unref();
await app.close();
await close();
