// A worker is killed with jobs in its hands: they run again soon, also behind a deep backlog that
// nobody handles, and jobs that come meanwhile do not wait for them.
import { job } from '../../packages/holdfast/dist/index.js';
import { clock } from '../clock.mjs';
import { vacuum } from '../databases.mjs';
import { percentile, plain } from '../statistics.mjs';
import { serverIsOld } from './processes.mjs';
import { secondsFigure, tasksOf } from './scene.mjs';

const LONG_MS = 20_000;
const AGAIN_MS = 5_000;

const runningOn = (scene, child) =>
  [...scene.tasks]
    .filter(([, one]) => one.child === child && one.end === undefined)
    .map(([n]) => n);

/** Milliseconds from the kill until the last of them ran again, or Infinity. */
async function ranAgain(scene, lost, killedAt) {
  const again = (n) => scene.tasks.get(n).starts > 1;
  const from = clock();
  while (!lost.every(again) && clock() - from < 40_000)
    await new Promise((resolve) => setTimeout(resolve, 20));
  const last = lost.map((n) => (again(n) ? scene.tasks.get(n).start : Number.POSITIVE_INFINITY));
  return Math.max(...last) - killedAt;
}

async function running(scene, list) {
  if (await scene.all(list, 'start', 10_000)) return;
  const some = list.filter(({ n }) => scene.tasks.has(n)).length;
  throw new Error(`${some} of ${list.length} long jobs started within 10 s; nobody was killed`);
}

export async function crashBeside({ open, figure, say }) {
  const scene = await open();
  await serverIsOld(scene.admin);
  const [victim] = await scene.workers(2, { concurrency: 50 });
  const long = tasksOf('long', 100, LONG_MS);
  await scene.enqueue(long);
  await running(scene, long);
  await scene.worker({ concurrency: 50 });
  await scene.settle();
  const lost = runningOn(scene, victim);
  const killedAt = clock();
  victim.kill('SIGKILL');
  const quick = tasksOf('quick', 100, 5);
  const from = await scene.enqueue(quick);
  await scene.all(quick, 'start', 30_000);
  const waits = quick.map(
    ({ n }) => (scene.tasks.get(n)?.start ?? Number.POSITIVE_INFINITY) - from,
  );
  say(`${lost.length} jobs were lost with their worker`);
  secondsFigure(figure, 'crash_beside_unrelated_p99', percentile(waits, 0.99), 2_000);
  secondsFigure(figure, 'crash_beside_ran_again', await ranAgain(scene, lost, killedAt), AGAIN_MS);
  await scene.close();
}

export async function deepRecovery({ open, quick, figure, say }) {
  const scene = await open();
  const count = quick ? 75_000 : 750_000;
  const nobody = job('nobody');
  const size = 5_000;
  for (let n = 0; n < count; n += size)
    await scene.hf.enqueueMany(Array.from({ length: size }, (_, k) => nobody.item({ n: n + k })));
  await vacuum(scene.url, 'holdfast');
  await serverIsOld(scene.admin);
  say(`${plain(count)} older due jobs that nobody handles`);
  const [victim] = await scene.workers(1, { concurrency: 50 });
  const long = tasksOf('long', 50, LONG_MS);
  await scene.enqueue(long);
  await running(scene, long);
  await scene.workers(1, { concurrency: 50 });
  const lost = runningOn(scene, victim);
  const killedAt = clock();
  victim.kill('SIGKILL');
  secondsFigure(figure, 'deep_recovery_ran_again', await ranAgain(scene, lost, killedAt), AGAIN_MS);
  await scene.close();
}
