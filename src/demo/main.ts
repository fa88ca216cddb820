/**
 * `npm start`: the product running on the embedded Postgres. A small shop places orders; each order and
 * the job that sends its receipt commit together; a worker runs the receipts, some fail and are retried,
 * a few give up and are buried. The summary line shows what became of them. `--for 20s` ends by itself.
 */
import pg from 'pg';
import { startEmbedded } from '../embedded/index.js';
import { holdfast } from '../holdfast.js';
import { durationMs } from '../job/duration.js';
import { GiveUp } from '../job/errors.js';
import { job } from '../job/job.js';
import { prepareShop, proof } from './shop.js';

const sendReceipt = job<{ orderId: number }>('send_receipt', {
  maxAttempts: 4,
  retry: { base: '200ms', cap: '2s' },
});

function wantedMs(argv: readonly string[]): number | null {
  const at = argv.indexOf('--for');
  if (at < 0) return null;
  return durationMs(argv[at + 1] ?? '', '--for', { min: 1_000 });
}

async function main(): Promise<number> {
  const forMs = wantedMs(process.argv.slice(2));
  const startedAt = Date.now();
  const since = () => `${((Date.now() - startedAt) / 1000).toFixed(1)} s`;
  const say = (text: string) => console.log(`[${since()}] ${text}`);

  const server = process.env.DATABASE_URL
    ? null
    : await startEmbedded({ onProgress: (message) => say(message) });
  const url = process.env.DATABASE_URL ?? (server?.url as string);
  const hf = holdfast({ connectionString: url });
  await hf.migrate();
  const pool = new pg.Pool({ connectionString: url, max: 4 });
  pool.on('error', (error) => {
    if (!pool.ending) say(`a connection of the shop was lost: ${error.message}`);
  });
  await prepareShop(pool);
  say(`the schema is up to date; look around with: psql '${url}'`);
  say('the dashboard does not exist yet');

  const worker = hf.worker({ concurrency: 20, poll: '100ms', handleSignals: false });
  worker.handle(sendReceipt, async (ctx) => {
    if (ctx.payload.orderId % 50 === 0) throw new GiveUp('the address does not exist');
    if (ctx.payload.orderId % 7 === 0 && ctx.attempt < 3)
      throw new Error('the mail server is busy');
    await ctx.transaction(async (tx) => {
      await tx.query('INSERT INTO shop.receipts (order_id, attempt) VALUES ($1, $2)', [
        ctx.payload.orderId,
        ctx.attempt,
      ]);
    });
  });
  const running = worker.run();
  say('the worker is running; Ctrl-C drains and stops');

  let closing = false;
  const placing = (async () => {
    while (!closing) {
      await placeOrder();
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  })();
  async function placeOrder(): Promise<void> {
    const client = await pool.connect();
    try {
      await client.query('BEGIN');
      const { rows } = await client.query('INSERT INTO shop.orders DEFAULT VALUES RETURNING id');
      const orderId = Number(rows[0].id);
      await hf.enqueue(sendReceipt, { orderId }, { key: `order:${orderId}`, tx: client });
      await client.query('COMMIT');
    } finally {
      client.release();
    }
  }

  const ticker = setInterval(
    () =>
      void proof(pool).then(
        (now) => say(now.line),
        () => undefined,
      ),
    2_000,
  );
  await new Promise<void>((resolve) => {
    process.once('SIGINT', () => resolve());
    process.once('SIGTERM', () => resolve());
    if (forMs !== null) setTimeout(resolve, forMs);
  });
  // From here on a second signal ends the process at once; the server stops with it.
  clearInterval(ticker);
  closing = true;
  say('stopping: no new orders, running receipts are finished');
  await placing;
  await worker.stop();
  await running;
  const end = await proof(pool);
  say(end.line);
  say(end.holds ? 'nothing was lost and nothing was doubled' : 'SOMETHING WAS LOST OR DOUBLED');
  await pool.end();
  await hf.close();
  await server?.stop();
  return end.holds ? 0 : 1;
}

main().then(
  (code) => {
    process.exitCode = code;
  },
  (error: unknown) => {
    console.error(error instanceof Error ? error.message : error);
    process.exit(1);
  },
);
