// Row 10. Many queues that nothing happens in: what an idle worker asks, and the locks that it holds,
// do not grow with them.
import { wait } from '../clock.mjs';
import { atMost } from './figures.mjs';

const PER_SECOND = 1;
/** A worker holds its own lock in two sessions, and a few others for a moment. */
const LOCKS_EACH = 8;

export async function run({ open, size, figure, say }) {
  const [queues, workers, seconds] = [size(60, 20), size(6, 3), size(30, 6)];
  const scene = await open();
  const types = [];
  for (let n = 1; n <= queues; n++) {
    await scene.hf.createQueue(`queue_${n}`);
    types.push({ type: `task_${n}`, queue: `queue_${n}` });
  }
  await scene.workers(workers, { types });
  // By then every queue had its first round of maintenance.
  await wait(15_000);
  const [before, cpu] = [await scene.meter.calls(), scene.meter.cpuMs()];
  const from = performance.now();
  await wait(seconds * 1_000);
  const after = await scene.meter.calls();
  const took = (performance.now() - from) / 1_000;
  const calls = [...after]
    .map(([text, count]) => ({ text, count: count - (before.get(text) ?? 0) }))
    .sort((a, b) => b.count - a.count);
  const made = calls.reduce((sum, { count }) => sum + count, 0) / took / workers;
  const load = (scene.meter.cpuMs() - cpu) / (took * 10);
  const locks = await scene.meter.advisoryLocks();
  say(`  ${queues} queues, ${workers} idle workers: ${load.toFixed(1)} % of a core in the server`);
  for (const { text, count } of calls.slice(0, 6)) if (count > 0) say(`    ${count} x ${text}`);
  atMost(figure, 'many_queues_statements_per_worker', made, PER_SECOND, '/s');
  atMost(figure, 'many_queues_advisory_locks', locks, LOCKS_EACH * workers);
  await scene.close();
}
