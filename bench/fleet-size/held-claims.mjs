// Row 4. What a claim under a limit reads does not depend on how many jobs of other types run.
import { job } from '../../packages/holdfast/dist/index.js';
import { became } from '../clock.mjs';
import { plain } from '../statistics.mjs';
import { atMost } from './figures.mjs';

/** A worker runs at most 10,000 jobs at once. */
const WORKERS = 5;
const GOAL = 1.5;
const hold = job('hold');
const limited = job('limited');

async function measure(open, held, most) {
  const scene = await open();
  const types = [{ type: 'hold' }, { type: 'limited', limit: { concurrency: 100 } }];
  await scene.workers(WORKERS, {
    types,
    counted: true,
    options: { concurrency: most / WORKERS + 20, lease: '10m' },
  });
  if (held > 0) {
    await scene.fill(hold, held, (n) => ({ payload: { n, ms: -1 } }));
    const all = await became(() => scene.counts.started >= held, 120_000);
    if (!all) throw new Error(`only ${scene.counts.started} of ${held} jobs started`);
  }
  // The first claim of a session reads the catalog.
  const warm = scene.counts.started;
  await scene.offer(limited, { perSecond: 10, seconds: 3, prefix: 'warm' });
  await became(() => scene.counts.started >= warm + 30, 20_000);
  const before = scene.counts.started;
  const buffers = await scene.meter.watchBuffers('claim of merged lines', async () => {
    await scene.offer(limited, { perSecond: 10, seconds: 3, prefix: 'one' });
    await became(() => scene.counts.started >= before + 30, 20_000);
  });
  await scene.close();
  return buffers;
}

export async function run({ open, size, figure, say }) {
  // Both have more held jobs in front than a claim reads.
  const sizes = [size(4_000, 1_000), size(40_000, 8_000)];
  const found = [];
  for (const held of sizes) {
    const { most, p95, mean, calls } = await measure(open, held, Math.max(...sizes));
    say(
      `  ${plain(held)} jobs held by ${WORKERS} workers: ${calls} claims, buffers mean ${plain(mean)}, usually up to ${plain(p95)}, most ${plain(most)}`,
    );
    found.push(mean);
  }
  atMost(figure, 'held_claims_buffers', found[1] / found[0], GOAL, ' x');
}
