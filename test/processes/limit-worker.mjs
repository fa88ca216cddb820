/**
 * A worker process with a limited type. Its handler writes down when it starts, under which worker and generation,
 * and its end in the transaction that completes the job.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { holdfast, job } from './product.mjs';

const { url, options, limit } = JSON.parse(process.argv[2]);
const hf = holdfast({ connectionString: url });
const pool = new pg.Pool({ connectionString: url, max: 2, allowExitOnIdle: true });
pool.on('error', () => undefined);

function tell(message) {
  if (process.connected) process.send(message);
}

const TOLD = new Set(['started', 'reregistered']);
const worker = hf.worker({
  ...options,
  onEvent(event) {
    if (TOLD.has(event.kind)) tell(event);
  },
});

worker.handle(job('limited', { limit, retry: () => 30 }), async (ctx) => {
  await pool.query('INSERT INTO witness (job, generation, pid) VALUES ($1, $2, $3)', [
    ctx.id,
    ctx.fenceToken,
    process.pid,
  ]);
  await sleep(ctx.payload.ms);
  await ctx.transaction((tx) =>
    tx.query('UPDATE witness SET ended = clock_timestamp() WHERE job = $1 AND generation = $2', [
      ctx.id,
      ctx.fenceToken,
    ]),
  );
});

process.on('message', () => undefined);
process.on('disconnect', () => process.exit(0));
process.channel.unref();

await worker.run();
await hf.close();
await pool.end();
