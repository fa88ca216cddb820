// No handler idles while a due job waits for a worker that is busy, and a fleet's handlers are all
// used when there is just enough work for all of them.
import { clock } from '../clock.mjs';
import { secondsFigure, tasksOf } from './scene.mjs';

/** Milliseconds from `from` to the last end, or Infinity. */
const lastEnd = (scene, list, from) =>
  Math.max(...list.map(({ n }) => scene.tasks.get(n)?.end ?? Number.POSITIVE_INFINITY)) - from;

/** Two workers of one handler, one of them busy for long: the other does what comes. */
export async function idleHands({ open, figure }) {
  for (const { options, name, limitMs } of [
    { options: {}, name: 'idle_hands', limitMs: 1_000 },
    { options: { notify: false }, name: 'idle_hands_without_notify', limitMs: 2_500 },
  ]) {
    const scene = await open();
    await scene.workers(2, { concurrency: 1, ...options });
    const long = tasksOf('long', 1, 20_000);
    await scene.enqueue(long);
    await scene.all(long, 'start', 10_000);
    const short = tasksOf('short', 100, 5);
    const from = await scene.enqueue(short);
    await scene.all(short, 'end', 30_000);
    secondsFigure(figure, `${name}_all_done`, lastEnd(scene, short, from), limitMs);
    await scene.close();
  }
}

/** 4 workers × 5 and 20 jobs of 3 s: one for each handler. */
export async function evenHands({ open, quick, figure, say }) {
  const runs = quick ? 3 : 10;
  const limitMs = 3_500;
  const scene = await open();
  await scene.workers(4, { concurrency: 5 });
  const times = [];
  for (let run = 0; run < runs; run++) {
    const list = tasksOf(`run ${run}`, 20, 3_000);
    const from = await scene.enqueue(list);
    await scene.all(list, 'end', 12_000);
    times.push(lastEnd(scene, list, from));
    say(`run ${run + 1}: all done ${((clock() - from) / 1000).toFixed(2)} s after the enqueue`);
  }
  const good = times.filter((ms) => ms <= limitMs).length;
  figure(
    'fleet.even_hands',
    `${good} of ${runs} runs`,
    `<= 3.5 s in ${runs} of ${runs}`,
    good === runs,
  );
  await scene.close();
}
