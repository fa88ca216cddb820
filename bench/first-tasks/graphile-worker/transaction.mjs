import { run, runMigrations } from 'graphile-worker';
import pg from 'pg';

const pgPool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
await runMigrations({ pgPool });
await pgPool.query('CREATE TABLE orders (id integer)');

const client = await pgPool.connect();
for (const [orderId, end] of Object.entries({ 1: 'ROLLBACK', 2: 'COMMIT' })) {
  await client.query('BEGIN');
  await client.query('INSERT INTO orders VALUES ($1)', [orderId]);
  await client.query('SELECT graphile_worker.add_job($1, $2)', ['send_receipt', { orderId }]);
  await client.query(end);
}
client.release();

const runner = await run({
  pgPool,
  taskList: {
    send_receipt({ orderId }) {
      console.log(`> receipt for order ${orderId}`);
      runner.stop();
    },
  },
});
await runner.promise;
await pgPool.end();
