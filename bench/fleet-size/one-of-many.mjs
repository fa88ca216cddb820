// Row 9. One of many workers dies: a few of the others recover what it held, and not all of them.
import { wait } from '../clock.mjs';
import { plain } from '../statistics.mjs';
import { atMost } from './figures.mjs';

const QUEUES = ['inbox', 'second', 'third', 'fourth', 'fifth'];
const SECONDS = 5;
const EACH = 2;

export async function run({ open, size, figure, say }) {
  const workers = size(20, 8);
  const scene = await open();
  for (const queue of QUEUES.slice(1)) await scene.hf.createQueue(queue);
  const types = QUEUES.map((queue) => ({ type: `task_${queue}`, queue }));
  const all = await scene.workers(workers, { types });
  // The first rounds of maintenance recover, too: they are over by then.
  await wait(8_000);
  const rest = await scene.meter.statements('recover');
  await wait(SECONDS * 1_000);
  const before = await scene.meter.statements('recover');
  all[0].kill('SIGKILL');
  await wait(SECONDS * 1_000);
  const made = (await scene.meter.statements('recover')) - before;
  if (before + made === 0) throw new Error('no statement that recovers was seen');
  say(
    `  ${workers} workers: ${plain(before - rest)} in ${SECONDS} s of rest, ${made} after the kill`,
  );
  atMost(figure, 'one_of_many_recover_statements', made, EACH * QUEUES.length);
  await scene.close();
}
