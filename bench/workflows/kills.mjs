// How soon runs go on elsewhere when the process that runs them is killed.
import { measured, percentile } from '../statistics.mjs';
import { now } from './clock.mjs';
import { startProcess } from './process.mjs';
import { ratio } from './steps.mjs';

const RUNS = 20;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export async function kills({ systems, databases, size, figure, fact, raw }) {
  const system = systems.holdfast;
  const url = await databases.fresh(system);
  const options = { concurrency: 2 * RUNS };
  const client = await system.client(url);
  /** Where each run was last, and those that wait for it to go on. */
  const last = new Map();
  const lost = new Map();
  const delays = [];
  const hear = (worker) =>
    worker.listen(({ kind, run, pid, at }) => {
      if (kind === 'ended') last.delete(run);
      if (kind !== 'step') return;
      if (lost.has(run) && lost.get(run).pid !== pid) {
        delays.push(at - lost.get(run).at);
        lost.delete(run);
      }
      last.set(run, { pid, at });
    });
  let workers = await Promise.all([1, 2, 3].map(() => startProcess(system, url, options)));
  for (const worker of workers) hear(worker);
  for (let n = 0; n < RUNS; n++) await client.start('ticking', { count: 100_000 });
  await pause(2_000);
  let missed = 0;
  for (let n = 0; n < size(15, 4); n++) {
    const counts = workers.map(
      (worker) => [...last.values()].filter(({ pid }) => pid === worker.pid).length,
    );
    const busiest = workers[counts.indexOf(Math.max(...counts))];
    const at = now();
    for (const [run, { pid }] of last) if (pid === busiest.pid) lost.set(run, { pid, at });
    await busiest.kill();
    workers = workers.filter((worker) => worker !== busiest);
    const fresh = await startProcess(system, url, options);
    hear(fresh);
    workers.push(fresh);
    const until = now() + 20_000;
    while (lost.size > 0 && now() < until) await pause(20);
    missed += lost.size;
    lost.clear();
    await pause(1_000);
  }
  await client.close();
  await Promise.all(workers.map((worker) => worker.kill()));
  raw('kills', delays);
  fact('workflows.kill_to_next_step_ms', `${measured(delays)}, ${delays.length} runs`);
  figure('workflows.runs_that_stood_still', String(missed), '0', missed === 0);
  ratio(figure, 'workflows.kill_to_next_step_p99_ms', percentile(delays, 0.99), '<=', 2_500, 0);
}
