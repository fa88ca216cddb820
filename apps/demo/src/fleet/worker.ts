/**
 * One worker process of the demo's fleet, as an application would write it: definitions, handlers,
 * run.
 *
 * It dies with its parent: when the channel to it closes, nobody is left to show anything to.
 * SIGTERM drains it, as in a deploy. Ctrl-C reaches every process of the terminal; the parent
 * decides then.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { WorkerEvent } from 'holdfast';
import { holdfast } from 'holdfast';
import { closePool, defaultLogger, plainPool } from 'holdfast/internal';
import { announce, handleNews, shipped } from '../events/news.js';
import { handleCheckout } from '../shop/checkout.js';
import { DUTIES, handlerOf, poison, shipment } from '../shop/jobs.js';
import { handleOffice } from '../shop/office.js';
import { recordEffect } from '../shop/shop.js';
import { countOrders, countTill } from '../shop/till.js';

export interface WorkerNews {
  readonly kind: 'started' | 'reregistered';
  readonly workerId: string;
}

if (!process.connected) process.exit(1);
process.once('disconnect', () => process.exit(1));
process.on('SIGINT', () => undefined);

const number = Number(process.argv[2]);
const connectionString = process.env.DATABASE_URL as string;

/** For calling a mail server, a carrier or a bank. */
const WORK_MS = { least: 40, spread: 120 };
const CLOSE_MS = 500;

function tell(event: WorkerEvent): void {
  if (event.kind !== 'started' && event.kind !== 'reregistered') return;
  process.send?.({ kind: event.kind, workerId: event.workerId } satisfies WorkerNews);
}

// Few connections, so that a fleet fits on a server with its default limit.
const pool = plainPool({ connectionString, applicationName: 'shop' }, 4, defaultLogger('warn'));
// The screen tells what happens; its parent keeps the last that it wrote.
const hf = holdfast({ connectionString, pool, log: 'warn' });
const worker = hf.worker({
  // The default times find a frozen worker after half a minute: nobody watches a demo for that
  // long.
  ...{ heartbeat: '2s', ttl: '6s', maintenance: '2s' },
  grace: '5s',
  handleSignals: false,
  metadata: { worker: number },
  onEvent: tell,
});

const call = (signal: AbortSignal) =>
  delay(WORK_MS.least + Math.random() * WORK_MS.spread, undefined, { signal });
for (const duty of [...DUTIES, poison]) {
  const handler = handlerOf(duty, {
    call,
    async record(tx, done) {
      await recordEffect(tx, { ...done, worker: number });
      if (duty === shipment) await announce(tx, hf, [shipped(done)]);
    },
  });
  worker.handle(duty.job, handler);
}

handleOffice(worker, { pool, call });
handleCheckout(worker, { pool, hf, call });
worker.handle(countTill, countOrders);
await handleNews(worker, hf, process.env.RECEIVERS_URL as string);

process.once('SIGTERM', () => void worker.stop());
void worker.run().then(async () => {
  await hf.close();
  await closePool(pool, CLOSE_MS);
  process.removeAllListeners('disconnect');
  process.disconnect();
});
