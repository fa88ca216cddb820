// A read model. Sales by day are asked for often and change with every order, so they are kept beside the orders: each event
// counts once, in order for each day, also if its transaction commits late. Then the sums are wanted by product as well: a
// second version is built anew from the same events, beside the first one, and takes its place.
import { holdfast } from 'holdfast';
import { eventLog, project, projection } from 'holdfast/projections';
import pg from 'pg';

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
const hf = holdfast({ pool, log: 'error' });
await hf.migrate();

const sales = eventLog(hf, 'sales');

const byDay = projection('sales_by', {
  log: sales,
  create: (tx) => tx.query('CREATE TABLE totals (what text PRIMARY KEY, cents bigint NOT NULL)'),
  on: {
    'order.paid': ({ data }, tx) => add(tx, data.day, data.cents),
  },
});
const byProduct = projection('sales_by', {
  log: sales,
  version: 2,
  create: (tx) => tx.query('CREATE TABLE totals (what text PRIMARY KEY, cents bigint NOT NULL)'),
  on: {
    'order.paid': async ({ data }, tx) => {
      await add(tx, data.day, data.cents);
      await add(tx, data.product, data.cents);
    },
  },
});

function add(tx, what, cents) {
  return tx.query(
    `INSERT INTO totals AS t VALUES ($1, $2)
     ON CONFLICT (what) DO UPDATE SET cents = t.cents + excluded.cents`,
    [what, cents],
  );
}

async function sell(order, day, product, cents, { open } = {}) {
  const client = await pool.connect();
  await client.query('BEGIN');
  const event = { type: 'order.paid', key: day, data: { order, day, product, cents } };
  await sales.append([event], { tx: client });
  // A transaction that stays open holds up nobody, and its event is not passed over.
  await open;
  await client.query('COMMIT');
  client.release();
}

async function totals() {
  const { rows } = await pool.query('SELECT what, cents FROM sales_by.totals ORDER BY what');
  return rows.map(({ what, cents }) => `${what} ${cents}`).join(', ');
}
async function untilTotals(wanted) {
  while ((await totals().catch(() => '')) !== wanted)
    await new Promise((resolve) => setTimeout(resolve, 20));
  console.log(wanted);
}

async function withWorker(projections, work) {
  const worker = hf.worker();
  await project(worker, projections);
  const running = worker.run();
  await work();
  await worker.stop();
  await running;
}

await withWorker([byDay], async () => {
  let commit;
  const open = new Promise((resolve) => {
    commit = resolve;
  });
  const late = sell(1, 'monday', 'tea', 300, { open });
  await sell(2, 'monday', 'cup', 900);
  await sell(3, 'tuesday', 'tea', 300);
  await untilTotals('monday 900, tuesday 300');
  commit();
  await late;
  await untilTotals('monday 1200, tuesday 300');
});

await withWorker([byProduct], async () => {
  await untilTotals('cup 900, monday 1200, tea 600, tuesday 300');
});

await hf.close();
await pool.end();
