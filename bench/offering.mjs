// A producer and a worker, each a process, with handlers of one millisecond: how much they can put
// through together, and what happens at an offered rate that does not wait for them.
import { startActor } from './actors.mjs';
import { became, clock, wait } from './clock.mjs';
import { percentile } from './statistics.mjs';

const CONNECTIONS = 10;
export const LIMIT_MS = 100;

/**
 * Jobs per second that are put in, one per transaction, and handled at the same time. Measured once
 * a run.
 */
export async function capacityOf(context, entry, ms) {
  const { capacities } = context;
  if (!capacities.has(entry.label)) capacities.set(entry.label, await capacity(context, entry, ms));
  return capacities.get(entry.label);
}

async function capacity({ stage }, entry, ms) {
  await stage.empty(entry);
  const [worker, producer] = await Promise.all([startActor(entry), startActor(entry)]);
  await worker.work({ handler: 'millisecond' });
  const order = { mode: 'one', connections: CONNECTIONS };
  await producer.ask('produce', { ...order, ms: ms / 3 });
  await became(() => worker.progress.count > 0, 5_000);
  const producing = producer.ask('produce', { ...order, ms });
  await wait(ms / 4);
  const before = { ...worker.progress };
  const { perSecond } = await producing;
  const { count, last } = worker.progress;
  await Promise.all([worker.kill(), producer.kill()]);
  const handled = last > before.last ? ((count - before.count) / (last - before.last)) * 1000 : 0;
  return Math.min(perSecond, handled);
}

/**
 * The rate is held when every job ran soon after the last was offered, and 99 of 100 within the
 * limit.
 */
export async function offered({ stage }, entry, { rate, ms, warmMs = 500 }) {
  await stage.empty(entry);
  await stage.tidy(entry);
  await stage.admin.query('CHECKPOINT');
  const [worker, producer] = await Promise.all([startActor(entry), startActor(entry)]);
  await worker.work({ handler: 'millisecond', stamps: true });
  const order = { mode: 'offer', connections: CONNECTIONS, rate, ms, warmMs };
  const result = await producer.ask('produce', order);
  const from = clock();
  const whole = await became(() => worker.progress.count >= result.sent, 1_000, 10);
  const { latencies, count } = worker.progress;
  await Promise.all([worker.kill(), producer.kill()]);
  const p99 = latencies.length > 0 ? percentile(latencies, 0.99) : Number.POSITIVE_INFINITY;
  return {
    ...result,
    latencies,
    count,
    p50: percentile(latencies, 0.5),
    p99,
    lateMs: clock() - from,
    held: whole && !result.overloaded && result.failed === 0 && p99 < LIMIT_MS,
  };
}
