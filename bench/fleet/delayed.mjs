// Delayed jobs on an idle fleet start when they are due, not at the next poll.
import { percentile } from '../statistics.mjs';
import { tasksOf } from './scene.mjs';

export async function delayed({ open, figure, say }) {
  const scene = await open();
  await scene.workers(2);
  // From 0.2 to 3 s, mixed.
  const list = tasksOf('delayed', 200, 0).map((one, n) => ({
    ...one,
    delay: 200 + ((n * 73) % 200) * 14,
  }));
  const at = await scene.enqueue(list);
  await scene.all(list, 'start', 15_000);
  const late = list.map(
    ({ n, delay }) => (scene.tasks.get(n)?.start ?? Number.POSITIVE_INFINITY) - at - delay,
  );
  const [first, p50, p99] = [Math.min(...late), percentile(late, 0.5), percentile(late, 0.99)];
  say(`late: smallest ${first.toFixed(1)}, p50 ${p50.toFixed(1)}, p99 ${p99.toFixed(1)} ms`);
  figure('fleet.delayed_late_p99', `${p99.toFixed(1)} ms`, '<= 50 ms', p99 <= 50);
  figure('fleet.delayed_never_early', `${first.toFixed(1)} ms`, '>= 0 ms', first >= 0);
  await scene.close();
}
