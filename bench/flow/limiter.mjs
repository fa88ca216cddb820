// A rate with enough work, beside BullMQ's limiter on Redis: how much of the limit is reached, and how many
// starts the fullest second has. Two workers each.
import { Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import { job } from '../../packages/holdfast/dist/index.js';
import { became, clock } from '../clock.mjs';
import { startRedis } from '../redis.mjs';

const PER_SECOND = 200;
const WORKERS = 2;
const NAME = 'limited';
const limited = job(NAME, {
  queue: NAME,
  limit: { rate: { limit: PER_SECOND, per: '1s' } },
});

/** Of the starts of `seconds`: the share of the limit, and the most in any second. */
function read(starts, seconds) {
  const from = starts[0];
  const counted = starts.filter((at) => at < from + seconds * 1_000);
  let most = 0;
  for (let first = 0, last = 0; last < counted.length; last++) {
    while (counted[last] - counted[first] >= 1_000) first++;
    most = Math.max(most, last - first + 1);
  }
  return { reached: counted.length / (seconds * PER_SECOND), most };
}

async function runOurs(hf, jobs) {
  await hf.createQueue(NAME);
  await hf.enqueueMany(Array.from({ length: jobs }, () => limited.item({})));
  const starts = [];
  const workers = Array.from({ length: WORKERS }, () =>
    hf.worker({ handleSignals: false }).handle(limited, () => void starts.push(clock())),
  );
  const running = workers.map((worker) => worker.run());
  await became(() => starts.length >= jobs, 60_000);
  for (const worker of workers) await worker.stop();
  await Promise.all(running);
  return starts;
}

async function runBullmq(url, jobs) {
  const connection = new Redis(url, { maxRetriesPerRequest: null });
  const queue = new Queue(NAME, { connection });
  await queue.addBulk(Array.from({ length: jobs }, () => ({ name: NAME, data: {} })));
  const starts = [];
  const limiter = { max: PER_SECOND, duration: 1_000 };
  const handle = async () => void starts.push(clock());
  const workers = Array.from(
    { length: WORKERS },
    () => new Worker(NAME, handle, { connection, concurrency: 10, limiter }),
  );
  await became(() => starts.length >= jobs, 60_000);
  await Promise.all(workers.map((worker) => worker.close()));
  await queue.close();
  connection.disconnect();
  return starts;
}

export async function limiter({ fixture, quick, figure, fact, say }) {
  const seconds = quick ? 3 : 15;
  const jobs = PER_SECOND * (seconds + 2);
  const tell = ({ reached, most }) =>
    `${(reached * 100).toFixed(1)}% of ${PER_SECOND} a second, ${most} in the fullest second`;
  const ours = read(await runOurs(fixture.hf, jobs), seconds);
  say(`holdfast: ${tell(ours)}`);
  figure(
    'flow.rate_reached',
    `${(ours.reached * 100).toFixed(1)}%`,
    '>= 98%',
    ours.reached >= 0.98,
  );
  const redis = await startRedis(say);
  if (!redis) return;
  try {
    fact('flow.rate_of_bullmq', tell(read(await runBullmq(redis.url, jobs), seconds)));
  } finally {
    await redis.stop();
  }
}
