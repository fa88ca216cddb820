// Row 7. All workers die at once, as when their machine does, and once more, and again: the jobs that
// they ran are no suspects, and the work goes on as after one such death.
import { became, clock } from '../clock.mjs';
import { seconds } from './figures.mjs';
import { killWorkers, task } from './scene.mjs';

const GOAL = 1.5;
const JOBS = 60;
const FLEET = { types: [{ type: 'task' }], options: { concurrency: 20 } };
const LIMIT_MS = 90_000;

/** From the last restart to the end of the last job, in milliseconds. */
async function measure(open, kills, ms) {
  const scene = await open();
  let workers = await scene.workers(3, FLEET);
  await scene.fill(task, JOBS, (n) => ({ payload: { n, ms } }));
  const startedAtLeast = (times) =>
    [...scene.runs.values()].filter(({ starts }) => starts >= times).length;
  await became(() => startedAtLeast(1) === JOBS, 15_000);
  let from = clock();
  for (let kill = 1; kill <= kills; kill++) {
    await killWorkers(workers);
    workers = await Promise.all(workers.map(() => scene.worker(FLEET)));
    from = clock();
    // The next one hits those that run again; where they come one by one, it does not wait for all.
    if (kill < kills) await became(() => startedAtLeast(kill + 1) === JOBS, ms * 2 + 4_000);
  }
  const ended = () => [...scene.runs.values()].filter(({ end }) => end !== undefined).length;
  const all = await became(() => ended() === JOBS, LIMIT_MS, 50);
  const tookMs = all
    ? Math.max(...[...scene.runs.values()].map(({ end }) => end)) - from
    : Number.POSITIVE_INFINITY;
  const left = JOBS - ended();
  await scene.close();
  return { tookMs, left };
}

export async function run({ open, size, figure, say }) {
  const ms = size(5_000, 1_500);
  const found = {};
  for (const kills of size([0, 1, 2, 3], [1, 2, 3])) {
    const { tookMs, left } = await measure(open, kills, ms);
    found[kills] = tookMs;
    say(
      `  ${kills} kills: ${seconds(tookMs)}${left > 0 ? `, ${left} of ${JOBS} jobs had not ended` : ''}`,
    );
  }
  for (const kills of [2, 3]) {
    const times = found[kills] / found[1];
    figure(
      `fleet-size.fleet_kills_${kills}`,
      `${Number.isFinite(times) ? `${times.toFixed(2)} x` : 'not in time'} (${seconds(found[kills])} against ${seconds(found[1])})`,
      `<= ${GOAL} x`,
      times <= GOAL,
    );
  }
}
