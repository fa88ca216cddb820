// Row 5. Changing a rate takes a moment, however many jobs wait for it.
import { job } from '../../packages/holdfast/dist/index.js';
import { became, clock, wait } from '../clock.mjs';
import { plain } from '../statistics.mjs';
import { atMost, longestGap } from './figures.mjs';
import { task } from './scene.mjs';

const limited = job('limited');
const SECONDS = 6;
const PER_SECOND = 50;

/** Whatever the engine does with those that wait, it has done it. */
async function quiet(meter) {
  let last = -1;
  let since = clock();
  await became(
    async () => {
      const now = await meter.updates('holdfast.inbox');
      if (now !== last) [last, since] = [now, clock()];
      return clock() - since > 3_000;
    },
    180_000,
    250,
  );
}

export async function run({ open, size, figure, say }) {
  const count = size(300_000, 30_000);
  const scene = await open();
  await scene.workers(2, {
    types: [{ type: 'task' }, { type: 'limited', limit: { rate: { limit: 1, per: '1m' } } }],
  });
  await scene.fill(limited, count);
  await quiet(scene.meter);
  say(`  ${plain(count)} jobs wait`);
  const offering = scene.offer(task, { perSecond: PER_SECOND, seconds: SECONDS, prefix: 'plain' });
  await wait(1_500);
  const [wal, updates, from] = [
    await scene.meter.walBytes(),
    await scene.meter.updates('holdfast.inbox'),
    clock(),
  ];
  await scene.hf.limits.set({ type: 'limited' }, { rate: { limit: 1, per: '2m' } });
  const tookMs = clock() - from;
  const to = clock();
  const [walAfter, updatesAfter] = [
    await scene.meter.walBytes(),
    await scene.meter.updates('holdfast.inbox'),
  ];
  const offered = await offering;
  await scene.all(offered, 'start', 30_000);
  const starts = offered.flatMap(({ name }) => scene.runs.get(name)?.start ?? []);
  atMost(figure, 'changed_rate_took', tookMs, 100, ' ms');
  // The plain jobs that run in these milliseconds write some of it.
  atMost(figure, 'changed_rate_wal', (walAfter - wal) / 1024, 100, ' kB');
  atMost(figure, 'changed_rate_updates', updatesAfter - updates, 100);
  const gap = longestGap(starts, from, Math.max(to, from + 2_000));
  atMost(figure, 'changed_rate_plain_longest_gap', gap, 500, ' ms');
  await scene.close();
}
