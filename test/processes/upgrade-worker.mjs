/**
 * A worker process of the old or of the new release, for test/schema/upgrade.test.ts. What a handler did is written in the
 * transaction that completes its job.
 */
import * as now from './product.mjs';

const { url, release, options } = JSON.parse(process.argv[2]);
const old = release === 'old';
const { holdfast, job } = old ? await import('../support/upgrade/holdfast-53a3d42.mjs') : now;
const hf = holdfast({ connectionString: url });

function tell(message) {
  if (process.connected) process.send(message);
}

let finish;
const told = new Promise((resolve) => {
  finish = resolve;
});

const worker = hf.worker({
  ...options,
  onEvent(event) {
    if (event.kind === 'started') tell(event);
  },
});

const done = (ctx) =>
  ctx.transaction((tx) =>
    tx.query('INSERT INTO done (job, release, key, n) VALUES ($1, $2, $3, $4)', [
      ctx.id,
      release,
      ctx.partitionKey,
      ctx.payload.n ?? null,
    ]),
  );

const limit = { concurrency: 3, rate: { limit: 20, per: '1s', burst: 2 } };
worker.handle(job('work'), done);
worker.handle(job('limited', { limit }), done);
worker.handle(job('ordered', { queue: 'orders' }), done);
worker.handle(job('shared', { queue: 'fair' }), done);
worker.handle(job('hold'), async (ctx) => {
  tell({ kind: 'holds', id: ctx.id });
  await told;
  await done(ctx);
});
worker.handle(job('mended', { maxAttempts: 1 }), async (ctx) => {
  if (old) throw new Error('The old release cannot do it.');
  await done(ctx);
});

process.on('message', (message) => {
  if (message.do === 'finish') finish();
});
process.channel?.unref();

try {
  await worker.run();
  tell({ kind: 'stopped' });
} catch (error) {
  tell({ kind: 'refused', code: error.code, message: String(error.message) });
} finally {
  await hf.close();
}
