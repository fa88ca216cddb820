// A worker stops without dying (SIGSTOP): jobs that come after that start elsewhere.
import { wait } from '../clock.mjs';
import { secondsFigure, tasksOf } from './scene.mjs';

const EVERY_MS = 20;
const INSERTS = 150;
const FROZEN_AFTER = 50;

export async function frozen({ open, figure, say }) {
  const scene = await open();
  const [victim] = await scene.workers(2, { concurrency: 10 });
  const offered = [];
  for (let insert = 0; insert < INSERTS; insert++) {
    if (insert === FROZEN_AFTER) victim.kill('SIGSTOP');
    const list = tasksOf(`insert ${insert}`, 2, 1);
    const at = await scene.enqueue(list);
    if (insert >= FROZEN_AFTER) offered.push(...list.map(({ n }) => ({ n, at })));
    await wait(EVERY_MS);
  }
  await scene.all(offered, 'start', 40_000);
  const waits = offered.map(
    ({ n, at }) => (scene.tasks.get(n)?.start ?? Number.POSITIVE_INFINITY) - at,
  );
  say(
    `${offered.length} jobs after the freeze; ${waits.filter((ms) => ms > 2_000).length} waited longer than 2 s`,
  );
  secondsFigure(figure, 'frozen_worst_start', Math.max(...waits), 2_000);
  await scene.close();
}
