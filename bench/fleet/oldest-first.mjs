// Oldest first: a backlog starts in the order in which it became due, but for what a claim and a
// prefetch hold. Jobs of one insert are due together, so only the distance to their insert counts.
import { clock, wait } from '../clock.mjs';
import { percentile, plain } from '../statistics.mjs';

const INSERT = 100;
const PER_WORKER = 500;

function displacements(tasks) {
  const byStart = [...tasks].sort(([, a], [, b]) => a.start - b.start);
  return byStart.map(([n], rank) => {
    const first = n - (n % INSERT);
    return Math.max(0, first - rank, rank - (first + INSERT - 1));
  });
}

async function started(tasks, count) {
  let [before, since] = [-1, clock()];
  while (tasks.size < count) {
    if (tasks.size !== before) [before, since] = [tasks.size, clock()];
    if (clock() - since > 15_000)
      throw new Error(`${count - tasks.size} of ${count} tasks did not start`);
    await wait(50);
  }
}

export async function oldestFirst({ open, quick, whole, figure, say }) {
  const counts = [quick ? 5_000 : 20_000, ...(whole ? [1_000_000] : [])];
  for (const count of counts) {
    for (const workers of [1, 2]) {
      const scene = await open();
      for (let n = 0; n < count; n += INSERT)
        await scene.enqueue(Array.from({ length: INSERT }, (_, k) => ({ n: n + k, ms: 0 })));
      for (let n = 0; n < workers; n++) await scene.worker();
      await started(scene.tasks, count);
      const all = displacements(scene.tasks);
      const p99 = percentile(all, 0.99);
      say(
        `${plain(count)} jobs, ${workers} × 10: displacement p50 ${percentile(all, 0.5)}, p99 ${p99}`,
      );
      figure(
        `fleet.oldest_first_${count}_${workers}w_p99`,
        plain(p99),
        `<= ${PER_WORKER * workers}`,
        p99 <= PER_WORKER * workers,
      );
      await scene.close();
    }
  }
}
