// A SaaS with many tenants, each with a schema of its own. The queue is read by key and the key is the
// tenant: the jobs of a tenant run one after the other, in their order, and a tenant with many jobs does not
// keep the others waiting. A handler sees the tables of its tenant and of no other.
import { holdfast, job } from 'holdfast';
import pg from 'pg';

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
const hf = holdfast({ pool, log: 'warn' });
await hf.migrate();
await hf.createQueue('tenants', { ordering: 'key' });

const TENANTS = ['large', 'small', 'tiny'];
for (const tenant of TENANTS) {
  await pool.query(`CREATE SCHEMA IF NOT EXISTS tenant_${tenant};
    CREATE TABLE IF NOT EXISTS tenant_${tenant}.invoices (number int PRIMARY KEY, amount numeric)`);
}

const createInvoice = job('create_invoice', { queue: 'tenants' });

/** The one place that knows what a tenant's job needs: a transaction in the schema of the tenant. */
const asTenant = (handler) => (ctx) =>
  ctx.transaction(async (tx) => {
    await tx.query(`SELECT set_config('search_path', $1, true)`, [
      ctx.partitionKey.replace(':', '_'),
    ]);
    await handler(ctx, tx);
  });

const worker = hf.worker({ concurrency: 10 }).handle(
  createInvoice,
  asTenant(async ({ payload }, tx) => {
    // Safe without a lock: no other job of this tenant runs now. It commits with the completion.
    const { rows } = await tx.query('SELECT coalesce(max(number), 0) + 1 AS next FROM invoices');
    await tx.query('INSERT INTO invoices VALUES ($1, $2)', [rows[0].next, payload.amount]);
  }),
);

const invoices = [...Array(100).fill('large'), ...Array(5).fill('small'), ...Array(5).fill('tiny')];
await hf.enqueueMany(
  invoices.map((tenant, n) =>
    createInvoice.item({ amount: n }, { partitionKey: `tenant:${tenant}` }),
  ),
);

const running = worker.run();
const timer = setInterval(() => worker.stats.completed >= invoices.length && worker.stop(), 50);
await running;
clearInterval(timer);

for (const tenant of TENANTS) {
  const { rows } = await pool.query(`SELECT count(*), max(number) FROM tenant_${tenant}.invoices`);
  console.log(`${tenant}: ${rows[0].count} invoices up to ${rows[0].max}`);
}
await hf.close();
await pool.end();
