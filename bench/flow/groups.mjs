// At most two jobs of a key at once, over 10,000 keys: beside pg-boss' groupConcurrency, in turns on one server.
import { PgBoss } from 'pg-boss';
import { became, clock } from '../clock.mjs';
import { drainRate } from '../fleet/draining.mjs';
import { measured, pairwise } from '../statistics.mjs';
import { filled, IN_TURN } from './fair.mjs';

const KEYS = 10_000;
/** Of a system that needs longer, what it did until then is reported. */
const LONGEST_MS = 60_000;
const QUEUE = 'groups';

async function openBoss(url) {
  const boss = new PgBoss({ connectionString: url, useListenNotify: true });
  boss.on('error', (error) => console.error(`pg-boss: ${error.message}`));
  await boss.start();
  await boss.createQueue(QUEUE, { notify: true });
  return boss;
}

/** Jobs a second of pg-boss, with the options of its fastest configuration. */
async function bossRate(boss, jobs) {
  await boss.deleteAllJobs(QUEUE);
  for (let from = 0; from < jobs; from += 10_000) {
    const size = Math.min(10_000, jobs - from);
    const items = Array.from({ length: size }, (_, n) => ({
      data: { orderId: from + n },
      group: { id: `order:${(from + n) % KEYS}` },
    }));
    await boss.insert(QUEUE, items);
  }
  let done = 0;
  const began = clock();
  await boss.work(
    QUEUE,
    { batchSize: 1_000, burstWhenBatchFull: true, groupConcurrency: 2 },
    async (batch) => {
      done += batch.length;
    },
  );
  await became(() => done >= jobs, LONGEST_MS);
  const rate = (done * 1_000) / (clock() - began);
  await boss.offWork(QUEUE);
  return rate;
}

export async function groups({ fixture, url, quick, fact, say }) {
  const { admin, hf } = fixture;
  const jobs = quick ? 5_000 : 30_000;
  const boss = await openBoss(url);
  const [ours, theirs] = [[], []];
  for (let round = 0; round < (quick ? 1 : 3); round++) {
    await filled(admin, IN_TURN, jobs, KEYS);
    ours.push(await drainRate(hf, jobs));
    theirs.push(await bossRate(boss, jobs));
  }
  await boss.stop({ graceful: false });
  say(`two of a key at once, ${jobs} jobs: holdfast ${measured(ours)} jobs/s`);
  say(`the same, pg-boss with groupConcurrency 2: ${measured(theirs)} jobs/s`);
  fact('flow.per_key_beside_pg_boss', `${pairwise(ours, theirs).toFixed(1)} x`);
}
